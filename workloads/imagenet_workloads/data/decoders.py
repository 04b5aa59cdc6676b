"""Who decodes: threads of this process, or programs of their own.

Threads of one process take turns in the interpreter: they hold its lock for a sixth of the time an
image takes, and take it from the thread that launches a GPU's kernels. Programs share only memory
with this process: they import no framework, inherit nothing else, and end with it.
"""

import marshal
import os
import pickle
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from imagenet_workloads.data.decoder import DamagedRecordError, Decoder, Stage, Task
from imagenet_workloads.data.decoder_program import MESSAGE
from imagenet_workloads.data.windows import DroppedError
from imagenet_workloads.errors import WorkloadError

# Tasks of a program: while it decodes one, the next one waits in its socket.
_HELD = 2
# Signals by which a program ends itself: what it did was to blame.
_BY_ITSELF = {
    -number
    for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT)
}
# A program that has closed its socket ends.
_SECONDS_TO_END = 10.0

Done = Callable[[BaseException | None], None]
"""Called once when a task has ended, with its error."""


class Decoders(Protocol):
    """Decode tasks, in any order.

    Attributes:
        seconds: of all tasks so far.
        cpu_seconds: of the processor, of them; None if they also wait for the interpreter's lock.
    """

    seconds: float
    cpu_seconds: float | None

    def submit(self, task: Task, done: Done) -> None:
        """Decode a task; any thread may call this."""

    def close(self) -> None:
        """End them all; a task that has not ended ends with a DroppedError."""


class ThreadDecoders:
    """Threads of this process."""

    def __init__(self, count: int, decoder: Decoder) -> None:
        self._threads, self._decoder = ThreadPoolExecutor(count, "decode"), decoder
        self._is_closed, self._lock = False, threading.Lock()
        self.seconds: float = 0.0
        self.cpu_seconds: float | None = None

    def submit(self, task: Task, done: Done) -> None:
        try:
            self._threads.submit(self._run, task, done)
        except RuntimeError:  # It was closed.
            done(DroppedError())

    def close(self) -> None:
        self._is_closed = True
        self._threads.shutdown()

    def _run(self, task: Task, done: Done) -> None:
        error: BaseException | None = None
        started = time.monotonic()
        try:
            if self._is_closed:
                raise DroppedError
            self._decoder.run(task)
        except BaseException as found:
            error = found
        with self._lock:
            self.seconds += time.monotonic() - started
        done(error)


@dataclass
class _Program:
    """A program that decodes, with the tasks that it holds, in their order."""

    number: int
    process: subprocess.Popen[bytes]
    socket: socket.socket
    has_started: bool = False
    held: "deque[tuple[Task, Done]]" = field(default_factory=deque)

    def send(self, task: Task, done: Done) -> None:
        self.held.append((task, done))
        *numbers, records = task
        # If it has died, or is just ended, the thread that takes the answers finds it out.
        with suppress(ConnectionError):
            self.socket.send(marshal.dumps((*numbers, [tuple(record) for record in records])))

    def answer(self) -> bytes:
        """Wait for an answer; nothing if it has died."""
        try:
            return self.socket.recv(MESSAGE)
        except ConnectionResetError:
            return b""

    def wait(self) -> int:
        """Wait for its end, or bring it about; return its exit code, negative for a signal."""
        try:
            return self.process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.socket.close()


class ProgramDecoders:
    """Programs, and a thread that takes their answers and hands out what waits.

    They follow the thread that starts them: the one that makes this object has to live as long.
    """

    def __init__(
        self,
        count: int,
        records: int,
        stages: Sequence[Stage],
        slots: Sequence[int],
        where: Callable[[int, int], str],
    ) -> None:
        """Start so many programs; WorkloadError if the machine lets none start.

        `records` and `slots` are descriptors of memory, those of the slots by stage. `where` names
        a stage's record.
        """
        self._records, self._stages, self._slots, self._where = records, stages, slots, where
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Task, Done]] = deque()
        self._failed: BaseException | None = None
        self.seconds: float = 0.0
        self.cpu_seconds: float | None = 0.0
        self._programs: list[_Program] = []
        try:
            for number in range(count):
                self._programs.append(self._start(number))
        except WorkloadError:
            self._end_programs()
            raise
        self._selector = selectors.DefaultSelector()
        for program in self._programs:
            self._selector.register(program.socket, selectors.EVENT_READ, program)
        # What is sent ends the thread.
        self._end, self._ended = socket.socketpair()
        self._selector.register(self._ended, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._take_answers, name="decoders", daemon=True)
        self._thread.start()

    def submit(self, task: Task, done: Done) -> None:
        """Decode a task, by the program that has least to do."""
        with self._lock:
            if self._failed is None:
                program = min(self._programs, key=lambda one: len(one.held))
                if len(program.held) < _HELD:
                    program.send(task, done)
                else:
                    self._waiting.append((task, done))
                return
        done(self._failed)

    def close(self) -> None:
        """End the programs, whatever they do, and what they were to do."""
        self._end.close()
        self._thread.join()
        self._fail(DroppedError())
        self._end_programs()
        self._selector.close()
        self._ended.close()

    def _end_programs(self) -> None:
        for program in self._programs:
            program.end()

    def _start(self, number: int) -> _Program:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        passed = (theirs.fileno(), self._records, *self._slots)
        # What a program needs to start, not the keys that variables may hold. It imports from where
        # this program does, and NumPy's library would start threads for each core.
        environment = {
            **{
                name: text
                for name, text in os.environ.items()
                if name == "HOME" or name.startswith(("PYTHON", "LD_"))
            },
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        # Not from the current folder (-P): a numpy.py of a user's may lie there.
        command = [sys.executable, "-P", "-m", "imagenet_workloads.data.decoder_program"]
        with theirs:
            try:
                process = subprocess.Popen(
                    [*command, str(os.getpid()), *map(str, passed)],
                    stdin=subprocess.DEVNULL,
                    pass_fds=passed,
                    env=environment,
                    # The keys that end this program in a terminal are no business of theirs.
                    process_group=0,
                )
            except OSError as error:
                ours.close()
                raise WorkloadError(f"decoders cannot start: {error.strerror}") from error
        program = _Program(number, process, ours)
        # If it has died, its answer does not come.
        with suppress(ConnectionError):
            ours.send(pickle.dumps(tuple(self._stages)))
        return program

    def _take_answers(self) -> None:
        try:
            while True:
                for key, _ in self._selector.select():
                    if key.data is None:
                        return
                    program: _Program = key.data
                    answer = program.answer()
                    if not answer:
                        raise self._died(program)
                    if not program.has_started:
                        program.has_started = True
                        continue
                    seconds, cpu, error = marshal.loads(answer)
                    self.seconds += seconds
                    self.cpu_seconds = (self.cpu_seconds or 0.0) + cpu
                    with self._lock:
                        _, done = program.held.popleft()
                        if self._waiting:
                            program.send(*self._waiting.popleft())
                    done(None if error is None else DamagedRecordError(*error))
        except BaseException as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            self._failed = self._failed or error
            ended = [*(one for program in self._programs for one in program.held), *self._waiting]
            self._waiting.clear()
            for program in self._programs:
                program.held.clear()
        for _, done in ended:
            done(self._failed)

    def _died(self, program: _Program) -> WorkloadError:
        """The error for a program that has died: with the record, if that one kills again.

        Another program gets the records that it had, one by one, if what it did was to blame.
        """
        code = program.wait()
        if not program.has_started:
            return WorkloadError(f"decoders cannot start: one {_ended(code)}, see its words above")
        with self._lock:
            tasks = [task for task, _ in program.held]
        held = " and ".join(
            f"{len(task.records)} images from {self._where(task.stage, task.records[0].number)} on"
            for task in tasks
        )
        error = f"decoder {program.number} {_ended(code)}; it had {held or 'no records'}"
        if code == -signal.SIGKILL:
            return WorkloadError(
                f"{error}. The kernel ends a program so when memory runs out: raise the memory "
                "limit, or decode on fewer cores, in smaller batches"
            )
        if code > 0 or code in _BY_ITSELF:
            try:
                guilty = self._ends_another(program.number, tasks)
            except WorkloadError:  # None can start any more.
                return WorkloadError(error)
            if guilty is not None:
                return guilty
            error += ". Another decoder decoded each of these records"
        return WorkloadError(error)

    def _ends_another(self, number: int, tasks: Sequence[Task]) -> WorkloadError | None:
        """The error for the first record that ends another program as well."""
        another = self._start(number)
        try:
            if not another.answer():
                raise WorkloadError("decoders cannot start")
            for task in tasks:
                for at, record in enumerate(task.records):
                    place, position = task.place + at, task.position + at * task.stride
                    another.send(
                        task._replace(place=place, position=position, records=[record]),
                        lambda _: None,
                    )
                    if not another.answer():
                        return WorkloadError(
                            f"{self._where(task.stage, record.number)}: decoding it ended two "
                            f"decoders, the second one {_ended(another.wait())}: its image is "
                            "damaged in a way that the library does not survive; remove the image "
                            "and prepare the dataset again"
                        )
        finally:
            another.end()
        return None


def _ended(code: int) -> str:
    if code >= 0:
        return f"ended itself with exit code {code}"
    names = {one.value: one.name for one in signal.Signals}
    return f"was ended by {names.get(-code, f'signal {-code}')}"
