"""Running imagenet-doors, and what may stand between one and its client."""

import asyncio
import json
import math
import resource
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import aiohttp

from imagenet_operator.sdk.door_requests import Door, Policy

QUICK = Policy(poll_seconds=0.01, outage_seconds=60)


class DoorProcess:
    """A program imagenet-door.

    Attributes:
        port: Where it listens.
        program: Its process.
    """

    def __init__(
        self,
        folder: Path,
        *options: str,
        port: int = 0,
        most_file_bytes: int = resource.RLIM_INFINITY,
    ) -> None:
        command = [sys.executable, "-m", "imagenet_workloads.commands.door"]
        self.program = subprocess.Popen(
            [*command, "--folder", str(folder), "--port", str(port), *options],
            stdout=subprocess.PIPE,
            preexec_fn=lambda: resource.setrlimit(
                resource.RLIMIT_FSIZE, (most_file_bytes, most_file_bytes)
            ),
        )
        assert self.program.stdout is not None
        with self.program.stdout as said:
            self.port = json.loads(said.readline())["port"]

    def kill(self) -> None:
        """End it as by kill -9."""
        self.program.kill()
        self.program.wait()


@contextmanager
def door_process(folder: Path, *options: str, **limits: int) -> Iterator[DoorProcess]:
    """A door that runs until the end of the block."""
    door = DoorProcess(folder, *options, **limits)
    try:
        yield door
    finally:
        door.kill()


@asynccontextmanager
async def client_of(port: int) -> AsyncIterator[Door]:
    """What a client needs to speak with a door at a port."""
    async with aiohttp.ClientSession() as session:
        yield Door(session, f"http://127.0.0.1:{port}")


class Way:
    """Carries connections to a door, in pieces or not to their end.

    Attributes:
        cuts: How many connections it has cut.

    Args:
        to: The port of the door.
        cut_after: Bytes, of both ways, after which a connection is cut.
        most_cuts: How many connections are cut.
        most_at_once: The bytes that arrive at once, at most.
    """

    def __init__(
        self,
        to: int,
        *,
        cut_after: float = math.inf,
        most_cuts: int = 1_000_000,
        most_at_once: int = 1 << 16,
    ) -> None:
        self.cuts = 0
        self._to = to
        self._cut_after = cut_after
        self._most_cuts = most_cuts
        self._most_at_once = most_at_once

    @asynccontextmanager
    async def port(self) -> AsyncIterator[int]:
        """The port of its other end, until the end of the block."""
        server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()

    async def _carry(self, here: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        try:
            there, forth = await asyncio.open_connection("127.0.0.1", self._to)
        except OSError:
            back.transport.abort()
            return
        carried = 0

        async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal carried
            while block := await reader.read(self._most_at_once):
                carried += len(block)
                if carried > self._cut_after and self.cuts < self._most_cuts:
                    self.cuts += 1
                    return
                writer.write(block)
                await writer.drain()

        pumps = [asyncio.create_task(pump(here, forth)), asyncio.create_task(pump(there, back))]
        with suppress(asyncio.CancelledError):
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for task in pumps:
            task.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        for writer in (forth, back):
            writer.transport.abort()
