"""Runs the pod that serves a claim of a cluster, and connects to it, while files are transferred.

The pod (`manifests.door`) is created with the user's rights and deleted at the end, also after
Ctrl-C. If this program is killed, imagenet-door ends by itself after some minutes, and the next
call deletes the pod. A claim that only one node can mount is served on the node of a pod that has
it mounted. Why the pod does not start is said in the words of the operator's policy.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import aiohttp

from imagenet_operator.clusters.interface import ClusterError
from imagenet_operator.clusters.kubernetes.client import FORBIDDEN, NOT_FOUND, ApiError, Client
from imagenet_operator.clusters.kubernetes.diagnostics import ObjectEvents
from imagenet_operator.clusters.kubernetes.objects import BY_NAME, POD
from imagenet_operator.clusters.kubernetes.port_forward import ENDED, PodEnded, PortForward
from imagenet_operator.manifests import door, labels, names
from imagenet_operator.manifests.settings import DEFAULTS
from imagenet_operator.reconcile import observe
from imagenet_operator.reconcile.policies import waiting
from imagenet_operator.reconcile.types import Refusal
from imagenet_operator.sdk.door_requests import TIMEOUT, Door
from imagenet_operator.sdk.errors import NotFound
from imagenet_spec.door import VOLUME
from imagenet_spec.names import DOOR_PORT, EXIT_PERMANENT
from imagenet_spec.resource import ImageNetJob, Manifest

_LOGGER: Final = logging.getLogger(__name__)

START_SECONDS: Final = 900.0
"""How long the pod may take to start: a cluster may have to add a node for it."""
QUIET_SECONDS = 3.0
"""What an ordinary start takes; only a longer one is explained."""
ERROR_SECONDS = 30.0
"""How long an error of the image or the configuration may last: the kubelet tries again."""
LISTEN_SECONDS: Final = 60.0
"""How long the program may take to listen, if it fetches nothing first."""

_CHARACTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_FOR_MANY: Final = frozenset({"ReadWriteMany", "ReadOnlyMany"})
_AGAIN: Final = "type the same command again: it goes on with what has arrived"
_OWN_CODES: Final = (1, EXIT_PERMANENT)
"""Of errors that imagenet-door explains."""
_REMEDY: Final = (
    "name an image with --image that has imagenet-door: the preparation image of this release"
)


@dataclass(frozen=True)
class DoorPods:
    """Opens doors to the claims of a namespace; `say` gets what is waited for when that changes."""

    client: Client
    namespace: str
    poll_seconds: float
    say: Callable[[str], None] = lambda said: None

    @asynccontextmanager
    async def opened(
        self,
        served: str | door.Uploaded,
        *,
        writable: bool = False,
        job: ImageNetJob | None = None,
        image: str | None = None,
    ) -> AsyncIterator[Door]:
        """Serve a claim, or uploaded results of a job, during a block.

        The image is, in this order, the given one, that of the job's pods, or that of this release.

        Raises:
            NotFound: There is no such claim.
            ClusterError: The pod does not start, or is gone.
            ApiError: A right is missing, or there is no answer.
        """
        if isinstance(served, str):
            what, node = f"the claim {served}", await self._node(served)
            listen_seconds = LISTEN_SECONDS
        else:
            # It listens when it has fetched all.
            what, node, listen_seconds = served.url, None, float(door.DEADLINE_SECONDS)
        image = image or await self._image(job)
        await self._delete_ended()
        manifest = door.door_pod(
            f"{door.APPLICATION}-{random_suffix()}",
            self.namespace,
            served,
            image,
            writable=writable,
            job=job,
            node=node,
        )
        name = manifest["metadata"]["name"]
        try:
            try:
                await self.client.create(POD.path(self.namespace), manifest)
            except ApiError as error:
                if error.code == FORBIDDEN and waiting.classified(error.message)[1]:
                    refused = waiting.refused(Refusal(error.message)).message
                    raise ClusterError(f"the pod {name} for {what}: {refused}") from error
                raise
            await self._wait_until_started(name)
            connector = PortForward(self.client, self.namespace, name, DOOR_PORT)
            async with aiohttp.ClientSession(connector=connector) as session:
                found = Door(session, f"http://127.0.0.1:{DOOR_PORT}")
                await self._wait_until_it_listens(name, found, connector, listen_seconds)
                yield found
        except ApiError as error:
            if error.code == NOT_FOUND and f'"{name}" not found' in error.message:
                raise ClusterError(
                    f"the pod {name}, which serves {what}, is gone; {_AGAIN}"
                ) from error
            raise
        except PodEnded as error:
            raise ClusterError(
                f"the pod {name}, which serves {what}, has ended: {_end_of(error.pod)}; {_AGAIN}"
            ) from error
        finally:
            await self._delete(name)

    async def _node(self, claim: str) -> door.Node | None:
        """Return the node on which a claim for one node is mounted; None if any node will do."""
        try:
            found = await self.client.get(
                BY_NAME["PersistentVolumeClaim"].path(self.namespace, claim)
            )
        except ApiError as error:
            if error.code != NOT_FOUND:
                raise
            raise NotFound(
                f"the namespace {self.namespace!r} has no PersistentVolumeClaim {claim!r}"
            ) from error
        if _FOR_MANY & set(found["spec"].get("accessModes") or ()):
            return None
        async for page in self.client.pages(POD.path(self.namespace)):
            for pod in page["items"]:
                spec = pod["spec"]
                is_there = spec.get("nodeName") and pod["status"].get("phase") not in ENDED
                if is_there and claim in observe.mounted_claims(pod):
                    return door.Node(spec["nodeName"], tuple(spec.get("tolerations") or ()))
        return None

    async def _image(self, job: ImageNetJob | None) -> str:
        """Return the image of a pod of the job that prepares, or trains by a program of ours."""
        if job is not None:
            selector = f"{labels.JOB_NAME}={job.metadata.name}"
            images: dict[bool, str] = {}
            async for page in self.client.pages(POD.path(self.namespace), labelSelector=selector):
                for pod in page["items"]:
                    program = pod["spec"]["containers"][0]
                    is_member = labels.ATTEMPT in pod["metadata"]["labels"]
                    if str((program.get("command") or [""])[0]).startswith("imagenet-"):
                        images.setdefault(is_member, program["image"])
            if images:
                return images[min(images)]
        return DEFAULTS.preparation_image

    async def _delete_ended(self) -> None:
        """Delete doors whose programs were killed before they could."""
        selector = f"{labels.APPLICATION}={door.APPLICATION}"
        async for page in self.client.pages(POD.path(self.namespace), labelSelector=selector):
            for pod in page["items"]:
                if pod["status"].get("phase") in ENDED:
                    await self._delete(pod["metadata"]["name"])

    async def _delete(self, name: str) -> None:
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        try:
            await self.client.delete(POD.path(self.namespace, name), options)
        except ApiError as error:
            if error.code != NOT_FOUND:
                _LOGGER.warning("the pod %s may remain, and ends by itself: %s", name, error)

    async def _wait_until_started(self, name: str) -> None:
        begin = time.monotonic()
        error_since: float | None = None
        events = ObjectEvents(self.client)
        words = "it is pending"
        while True:
            pod = await self.client.get(POD.path(self.namespace, name))
            phase = pod["status"].get("phase")
            if phase in ENDED:
                raise ClusterError(f"the pod {name} has ended: {_end_of(pod, _REMEDY)}")
            if phase == "Running":
                return
            now, passed = datetime.now(UTC), time.monotonic() - begin
            item = observe.waiting_pod(pod, None)
            objects = () if item is None else (item,)
            # The policy is quiet for long, because it writes into a job's status. Here somebody
            # waits.
            later = now + timedelta(minutes=1)
            found_events = await events.read((self.namespace, name), objects, later)
            wait = waiting.find(objects, found_events or {}, later)
            if wait is not None and wait.message != words and passed >= QUIET_SECONDS:
                words = wait.message
                self.say(words)
            if wait is None or not wait.is_error:
                error_since = None
            elif error_since is None:
                error_since = passed
            elif passed > error_since + ERROR_SECONDS:
                raise ClusterError(f"{words}; {_REMEDY}")
            if passed > START_SECONDS:
                raise ClusterError(f"{name} has not started in {START_SECONDS:g} seconds: {words}")
            await asyncio.sleep(self.poll_seconds)

    async def _wait_until_it_listens(
        self, name: str, found: Door, connector: PortForward, seconds: float
    ) -> None:
        begin = time.monotonic()
        while True:
            try:
                async with found.session.get(found.url + VOLUME, timeout=TIMEOUT) as response:
                    await response.read()
                return
            except PodEnded as error:
                said = f"the pod {name} has ended: {_end_of(error.pod, _REMEDY)}"
                raise ClusterError(said) from error
            except (aiohttp.ClientError, TimeoutError) as error:
                if time.monotonic() > begin + seconds:
                    said = f"{name} does not answer: {connector.failure or error}"
                    raise ClusterError(said) from error
            await asyncio.sleep(self.poll_seconds)


def random_suffix() -> str:
    """Return five characters, as the API server appends them to `generateName`."""
    return "".join(secrets.choice(_CHARACTERS) for _ in range(5))


def _end_of(pod: Manifest, remedy: str = "") -> str:
    """Return why the program of a pod has ended, and what helps if it is not imagenet-door."""
    status = pod["status"]
    if status.get("message"):
        # The kubelet has ended it: the pod was evicted, or has lived too long.
        return str(status["message"])
    for item in status.get("containerStatuses") or ():
        ended = (item.get("state") or {}).get("terminated")
        if item["name"] == names.CONTAINER and ended:
            said = (ended.get("message") or "").strip() or ended.get("reason") or ""
            code = ended.get("exitCode")
            helps = f"; {remedy}" if remedy and code not in _OWN_CODES else ""
            return f"exit code {code}: {said}{helps}"
    return str(status.get("reason") or status.get("phase"))
