"""`imagenet-rendezvous`: the member of a Horovod attempt where its slots find each other.

Its environment holds all that it needs; `rendezvous.horovod_server` does the work.
"""

import argparse
import logging
import os
import sys
from collections.abc import Sequence

from imagenet_workloads.process.program import run_program

PROGRAM = "imagenet-rendezvous"

EPILOG = """\
environment:
  IMAGENET_HOROVOD_HOSTS        NAME:SLOTS,NAME:SLOTS,… of all pods, by the HOROVOD_HOSTNAME of each
  HOROVOD_GLOO_RENDEZVOUS_PORT  the port to listen on
  POD_IP                        the address to listen on (default: any)
"""


def build_parser() -> argparse.ArgumentParser:
    """The parser of `imagenet-rendezvous`."""
    return argparse.ArgumentParser(
        prog=PROGRAM,
        description="Be the rendezvous of a Horovod job until SIGTERM.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `imagenet-rendezvous`; returns the exit code."""
    build_parser().parse_args(arguments)
    return run_program(PROGRAM, _run)


def _run() -> None:
    from imagenet_workloads.rendezvous import horovod_server
    from imagenet_workloads.telemetry.log import log_readably

    log_readably()
    # Horovod's own modules log each request otherwise.
    logging.getLogger("horovod").setLevel(logging.WARNING)
    horovod_server.run(os.environ)


if __name__ == "__main__":
    sys.exit(main())
