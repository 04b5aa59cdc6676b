"""`imagenet-operator`: the operator's program.

A signal ends it at once, even during a reconcile, and so does the loss of the lease. The next
operator rebuilds its state from the cluster.
"""

import argparse
import asyncio
import gc
import logging
import re
import signal
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import uvloop

from imagenet_operator import handlers
from imagenet_operator.clusters.kubernetes import health, login
from imagenet_operator.clusters.kubernetes.client import NOT_FOUND, Client, Fence
from imagenet_operator.clusters.kubernetes.leader_election import LeaderElection, LeaseLost
from imagenet_operator.clusters.kubernetes.login import Connection
from imagenet_operator.clusters.kubernetes.operator import NOT_DEFINED, Operator
from imagenet_operator.configuration import Configuration, read
from imagenet_spec.errors import ImageNetJobError

LOGGER = logging.getLogger(__name__)

FAILURE = 1
BAD_CONFIGURATION = 2

COLLECT_AFTER: Final = 50_000
"""New Python containers between two garbage collections; the default is 700. A page of 30 pods
has 9,000 containers, which are all in use while it is parsed."""

_RETRY: Final = re.compile(
    r"Request attempt #(?P<number>\d+).* will retry: (?P<request>.*?) -> (?P<error>.*)"
)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="imagenet-operator",
        description="Run the ImageNetJobs of a Kubernetes cluster.",
        epilog="Outside a cluster, KUBECONFIG selects the cluster.",
    )
    parser.add_argument(
        "--configuration",
        type=Path,
        metavar="FILE",
        help="YAML file (default: the built-in defaults)",
    )
    parser.add_argument(
        "--port",
        type=int,
        default=health.PORT,
        help="port of /metrics, /healthz and /readyz (default: %(default)s)",
    )
    parser.add_argument("--version", action="version", version=version("imagenet-operator"))
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT, and return the exit code."""
    options = build_parser().parse_args(arguments)
    logging.basicConfig(
        format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO, stream=sys.stderr
    )
    for handler in logging.getLogger().handlers:
        handler.addFilter(News())
    try:
        configured = (
            Configuration() if options.configuration is None else read(options.configuration)
        )
        where = login.find()
        gc.freeze()  # the modules stay
        gc.set_threshold(COLLECT_AFTER, 20, 20)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(run(configured, where, options.port))
    except ImageNetJobError as error:
        print(f"imagenet-operator: {error}", file=sys.stderr)
        return BAD_CONFIGURATION


class News:
    """Decides which records are logged.

    `_report` says in a sentence what kopf says in two tracebacks. kopf logs each attempt of a
    request until one succeeds: only the first of equal ones is news.
    """

    def __init__(self) -> None:
        self._retried: dict[str, str] = {}

    def __call__(self, record: logging.LogRecord) -> bool:
        if not record.name.startswith("kopf."):
            return True
        error = record.exc_info[1] if record.exc_info else None
        # One of kopf's own errors has the status of the API server's answer.
        if getattr(error, "status", None) == NOT_FOUND:
            return False
        if (retry := _RETRY.match(record.getMessage())) is None:
            return True
        is_repeated = self._retried.get(retry["request"]) == retry["error"]
        self._retried[retry["request"]] = retry["error"]
        return retry["number"] == "1" or not is_repeated


async def run(configured: Configuration, where: Connection, port: int) -> int:
    """Run the operator until a signal or a failure ends it, and return the exit code."""
    fence = Fence()
    # Renewals of the lease wait for no other requests, which may be many.
    async with Client(where) as lease_client, Client(where, fence) as client:
        election = LeaderElection(
            lease_client, configured.lease_namespace, configured.namespaces, fence
        )
        operator = Operator(client, configured, election=election)
        server = health.Server(operator.troubles, operator.pending, operator.measure, port)
        await server.start()
        work = asyncio.create_task(operator.run(), name="operator")
        terminated = asyncio.get_running_loop().create_future()
        _listen(terminated)
        watch = _watch_jobs(operator, where, configured, terminated)
        kopf = asyncio.create_task(watch, name="kopf")
        try:
            await asyncio.wait({work, kopf, terminated}, return_when=asyncio.FIRST_COMPLETED)
            return await _report(operator, work, kopf)
        finally:
            # Of several watches that fail at once kopf reports one, and nobody asks the others.
            asyncio.get_running_loop().set_exception_handler(_note)
            for task in (work, kopf, terminated):
                task.cancel()
            await asyncio.gather(work, kopf, terminated, return_exceptions=True)
            await operator.close()
            await server.stop()


async def _watch_jobs(
    operator: Operator,
    where: Connection,
    configured: Configuration,
    terminated: asyncio.Future[None],
) -> None:
    await operator.find_definition()
    watch = await handlers.start(operator, where, configured.namespaces)
    # kopf has installed handlers of its own.
    _listen(terminated)
    await watch


def _listen(terminated: asyncio.Future[None]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, _terminate, terminated)


def _terminate(terminated: asyncio.Future[None]) -> None:
    if not terminated.done():
        terminated.set_result(None)


def _note(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    LOGGER.debug("%s", context["message"], exc_info=context.get("exception"))


async def _report(operator: Operator, *tasks: asyncio.Task[None]) -> int:
    for task in tasks:
        if task.done() and not task.cancelled():
            if isinstance(task.exception(), LeaseLost):
                LOGGER.error("stopping: %s", task.exception())
                return FAILURE
            # kopf may end with what became of a reconcile at the same time. The next process waits
            # for the definition.
            if await operator.lacks_definition():
                LOGGER.error("stopping: %s", NOT_DEFINED)
                return FAILURE
            LOGGER.error("%s ended unexpectedly", task.get_name(), exc_info=task.exception())
            return FAILURE
    LOGGER.info("stopping after a signal")
    return 0


if __name__ == "__main__":
    sys.exit(main())
