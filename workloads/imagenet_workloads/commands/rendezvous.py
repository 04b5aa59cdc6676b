"""`imagenet-rendezvous`: the rendezvous of a Horovod job's slots.

It is configured by environment variables. `rendezvous.horovod_server` is the server.
"""

import argparse
import logging
import os
import sys
from collections.abc import Sequence

from imagenet_spec.program.option import parser
from imagenet_spec.program.programs import RENDEZVOUS
from imagenet_workloads.process.program import run_program

EPILOG = """\
environment:
  IMAGENET_HOROVOD_HOSTS        NAME:SLOTS,NAME:SLOTS,… of all pods, by the HOROVOD_HOSTNAME of each
  HOROVOD_GLOO_RENDEZVOUS_PORT  the port to listen on
  POD_IP                        the address to listen on (default: any)
"""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of `imagenet-rendezvous`."""
    return parser(
        RENDEZVOUS,
        description="Run the rendezvous of a Horovod job until SIGTERM.",
        epilog=EPILOG,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `imagenet-rendezvous`; return the exit code."""
    build_parser().parse_args(arguments)
    return run_program(RENDEZVOUS.name, _run)


def _run() -> None:
    from imagenet_workloads.rendezvous import horovod_server
    from imagenet_workloads.telemetry.event_log import log_readably

    log_readably()
    # Otherwise Horovod's modules log each request.
    logging.getLogger("horovod").setLevel(logging.WARNING)
    horovod_server.run(os.environ)


if __name__ == "__main__":
    sys.exit(main())
