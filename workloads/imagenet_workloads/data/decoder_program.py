"""A program that decodes: started by `decoders`, for as long as the process that trains lives.

    python -m imagenet_workloads.data.decoder_program PARENT SOCKET RECORDS SLOTS…

The numbers behind the parent's are descriptors: of a socket, and of memory. What it decodes for
comes first by the socket, and then tasks. Its first answer says that it has started; then each task
has one: seconds that it took, those of the processor, and None or the damaged record's number and
what is wrong. It imports no framework.
"""

import marshal
import mmap
import os
import pickle
import signal
import socket
import sys
import time
from contextlib import suppress

from imagenet_workloads.data.decoder import DamagedRecordError, Decoder, Encoded, Task
from imagenet_workloads.process import parent_death_signal

# Of bytes: the longest message, on both sides.
MESSAGE = 1 << 17


def main() -> None:
    """Decode until the socket ends."""
    parent, control, records, *slots = map(int, sys.argv[1:])
    parent_death_signal.follow(parent)
    # The process that trains decides when it has had enough images.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    with socket.socket(fileno=control) as tasks:
        stages = pickle.loads(tasks.recv(MESSAGE))
        memories = [memoryview(mmap.mmap(descriptor, 0)) for descriptor in slots]
        # Not mapped: a page that is used once is faster copied than found.
        decoder = Decoder(lambda begin, length: os.pread(records, length, begin), stages, memories)
        # An error of the connection: the process that trains has ended.
        with suppress(ConnectionError):
            tasks.send(marshal.dumps(None))
            while task := tasks.recv(MESSAGE):
                started, cpu, damaged = time.monotonic(), time.process_time(), None
                sent = Task(*marshal.loads(task))
                try:
                    decoder.run(sent._replace(records=[Encoded(*one) for one in sent.records]))
                except DamagedRecordError as error:
                    damaged = error.number, error.what
                seconds, cpu_seconds = time.monotonic() - started, time.process_time() - cpu
                tasks.send(marshal.dumps((seconds, cpu_seconds, damaged)))


if __name__ == "__main__":
    main()
