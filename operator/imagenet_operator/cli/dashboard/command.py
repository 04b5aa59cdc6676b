"""`imagenetctl dashboard`: serves the pages until it is interrupted."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import secrets
import socket
import sys
from collections.abc import Callable
from typing import Any

from imagenet_operator.cli import exit_codes, local_resources, places, report, report_page
from imagenet_operator.cli.arguments import Command, whole
from imagenet_operator.cli.dashboard.readings import Readings
from imagenet_operator.clusters.interface import LocalError
from imagenet_operator.clusters.local.machine import Volumes
from imagenet_operator.page.contents import Contents
from imagenet_spec.resource import ImageNetJob

_ADDRESS = "127.0.0.1"
_CONNECTIONS_MAXIMUM = 512
_SHUTDOWN_SECONDS = 2
_MESSAGES_MAXIMUM = 1000

_EXAMPLES = """examples:
  imagenetctl dashboard
  imagenetctl dashboard --workdir build/demo --port 8000
  imagenetctl dashboard -n vision

It listens on 127.0.0.1 only. To look at it from another machine, forward the port:
  ssh -L 8000:127.0.0.1:8000 MACHINE
"""


def add_parser(command: Command) -> None:
    """Declare the command."""
    parser = command.declare(
        run,
        summary="show jobs live in a browser",
        description="Serve pages with the jobs of a working directory or a cluster, live: all "
        "jobs, one job, several compared. Only the printed address opens them.",
        examples=_EXAMPLES,
    )
    places.add_options(parser)
    parser.add_argument(
        "--port",
        type=whole(0),
        default=0,
        metavar="N",
        help="where it listens (default: a free one)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C; return the exit code."""
    try:
        import uvicorn

        from imagenet_operator.cli.dashboard import server
    except ImportError as error:
        library = (error.name or "").partition(".")[0]
        raise LocalError(
            f"dashboard: {library} is not installed; type: pip install starlette uvicorn "
            "(the extra `dashboard` of imagenet-operator)"
        ) from error
    with places.opened(arguments) as client, _listening(arguments.port) as listener:
        handler = logging.StreamHandler()
        handler.addFilter(_once())
        logging.basicConfig(handlers=[handler])
        # A login or a server that does not work is no outage, but said at once.
        client.list()
        port = listener.getsockname()[1]
        token = secrets.token_urlsafe(32)
        application = server.application(Readings(client.jobs, collector(arguments)), token, port)
        config = uvicorn.Config(
            application,
            # An access log would have the token.
            access_log=False,
            log_config=None,
            lifespan="off",
            ws="none",
            server_header=False,
            limit_concurrency=_CONNECTIONS_MAXIMUM,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )
        print("open this address, Ctrl-C ends it:", file=sys.stderr, flush=True)
        print(f"http://{_ADDRESS}:{port}/?token={token}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))
    return exit_codes.SUCCESS


def _once() -> Callable[[logging.LogRecord], bool]:
    """Return a filter that lets each message pass once: a reading is repeated, and so they are."""
    seen: set[str] = set()

    def is_new(record: logging.LogRecord) -> bool:
        message = record.getMessage()
        is_known = message in seen
        if len(seen) < _MESSAGES_MAXIMUM:
            seen.add(message)
        return not is_known

    return is_new


def collector(arguments: argparse.Namespace) -> Callable[[ImageNetJob], Contents]:
    """Return what collects the content of a job's page."""
    if not places.is_local(arguments):
        return lambda job: report_page.of_cluster(job, _account(job))
    workdir = local_resources.resolved(places.workdir_of(arguments))
    folders = Volumes(workdir / "volumes", {})
    return lambda job: report_page.of_machine(job, _account(job), folders, workdir)


def _account(job: ImageNetJob) -> dict[str, Any]:
    time = job.status.time
    return {} if time is None else report.document(job, time)


def _listening(port: int) -> socket.socket:
    if port > 65535:
        raise LocalError(f"--port {port}: a port is at most 65535")
    try:
        return socket.create_server((_ADDRESS, port))
    except OSError as error:
        raise LocalError(
            f"--port {port}: {error.strerror}; name another one, or leave the option out for a "
            "free one"
        ) from error
