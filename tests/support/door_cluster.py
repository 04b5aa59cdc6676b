"""A kubelet for the pods of imagenet-door: real programs over folders of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from imagenet_operator.manifests.door import CLAIM_PATH
from imagenet_operator.manifests.names import CONTAINER
from imagenet_operator.sdk.cluster import AsyncClient
from imagenet_spec.names import DOOR_PORT, IMAGENET_CREDENTIALS
from support.api_requests import Request
from support.client_jobs import user_client
from support.fake_api_server import FakeApiServer

Manifest = dict[str, Any]
PROGRAM = (sys.executable, "-m", "imagenet_workloads.commands.door")


@dataclass
class DoorKubelet:
    """Runs the pods of an API server's namespace.

    Attributes:
        server: The API server.
        folder: With a folder for each claim.
        created: The pods that were created, as they were asked for.
        starts: Whether pods start; otherwise the test sets their status.
        programs: What runs, by the pod's name.
        secrets: The folder with the keys of a Secret, by its name.
    """

    server: FakeApiServer
    folder: Path
    created: list[Manifest] = field(default_factory=list)
    starts: bool = True
    programs: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)
    secrets: dict[str, Path] = field(default_factory=dict)

    async def take(self, asked: Request, answer: Any) -> None:
        """Start the program of a pod that was created, and end that of one that was deleted."""
        if asked.kind != "Pod" or asked.subresource:
            return
        if asked.verb == "create":
            self.created.append(answer)
            await self.set_status(answer["metadata"]["name"], {"phase": "Pending"})
            if self.starts:
                await self.start(answer)
        elif asked.verb == "delete":
            await self.stop(asked.name)

    async def start(self, pod: Manifest) -> None:
        """Run the program of a pod over the folder of its claim, or an empty one."""
        name, (container,) = pod["metadata"]["name"], pod["spec"]["containers"]
        volumes = {item["name"]: item for item in pod["spec"]["volumes"]}
        claim = volumes["claim"].get("persistentVolumeClaim", {}).get("claimName", name)
        folder = self.folder / claim
        folder.mkdir(exist_ok=True)
        arguments = [
            f"{folder}{item.removeprefix(CLAIM_PATH)}" if item.startswith(CLAIM_PATH) else item
            for item in container["args"]
        ]
        environment = dict(os.environ)
        if "credentials" in volumes:
            secret = volumes["credentials"]["secret"]["secretName"]
            environment[IMAGENET_CREDENTIALS] = str(self.secrets[secret])
        program = await asyncio.create_subprocess_exec(
            *PROGRAM,
            *arguments,
            "--port",
            "0",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
        )
        self.programs[name] = program
        assert program.stdout is not None and program.stderr is not None
        if line := await program.stdout.readline():
            self.server.ports.listeners[name] = {DOOR_PORT: json.loads(line)["port"]}
            await self.set_status(name, {"phase": "Running"})
        else:
            said = (await program.stderr.read()).decode()
            ended = {"exitCode": await program.wait(), "message": said}
            status = {"name": CONTAINER, "state": {"terminated": ended}}
            await self.set_status(name, {"phase": "Failed", "containerStatuses": [status]})

    async def set_status(self, name: str, status: Manifest) -> None:
        """Write the status of a pod."""
        await self.server.change("Pod", name, lambda pod: pod.update(status=status))

    async def stop(self, name: str) -> None:
        """End the program of a pod."""
        self.server.ports.listeners.pop(name, None)
        if (program := self.programs.pop(name, None)) is not None:
            if program.returncode is None:
                program.kill()
            await program.wait()

    async def close(self) -> None:
        """End all programs."""
        for name in list(self.programs):
            await self.stop(name)

    async def claim(self, name: str, *modes: str) -> None:
        """Add a claim with access modes."""
        (self.folder / name).mkdir(exist_ok=True)
        await self.server.add(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": name, "namespace": "vision"},
                "spec": {"accessModes": list(modes or ("ReadWriteMany",))},
            }
        )


@contextlib.asynccontextmanager
async def door_cluster(folder: Path) -> AsyncIterator[tuple[DoorKubelet, AsyncClient]]:
    """An API server with such a kubelet, and a user's client of its namespace `vision`."""
    async with user_client() as (server, client):
        kubelet = DoorKubelet(server, folder)
        server.effects.append(kubelet.take)
        try:
            yield kubelet, client
        finally:
            await kubelet.close()
