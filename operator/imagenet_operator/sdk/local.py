"""The client of the jobs of a working directory, which `imagenetctl run` runs.

It reads the files of jobs/NAME, whose layout is `clusters.local.state`. A submitted job runs in a
child process that is `imagenetctl run`. The kernel interrupts the child when this interpreter ends,
however that happens, so it saves a checkpoint and no process remains.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

from imagenet_operator.clusters.interface import ClusterError, LocalError
from imagenet_operator.clusters.local.kubelet import tail
from imagenet_operator.clusters.local.state import EVENTS, JobFolder
from imagenet_operator.manifests import names, volumes
from imagenet_operator.reconcile.decide import is_finished
from imagenet_operator.sdk import logs, metrics, results, submission
from imagenet_operator.sdk.background import loop
from imagenet_operator.sdk.errors import NotFound, Rejected
from imagenet_operator.sdk.interface import (
    JobEvent,
    JobList,
    Jobs,
    LogLine,
    Progress,
    Removal,
    Selection,
    Transferred,
    in_words,
)
from imagenet_spec import stored, volume_files
from imagenet_spec.errors import ImageNetJobError, Problem
from imagenet_spec.names import MODEL_LINK, attempt_folder, nearest
from imagenet_spec.resource import ImageNetJob, Manifest

_LOGGER: Final = logging.getLogger(__name__)

_POLL_SECONDS: Final = 0.5
_START_POLL_SECONDS: Final = 0.05
_ERROR_BYTES: Final = 4096
_BLOCK_BYTES: Final = 1 << 16

_CHILD: Final = """
import os, signal, sys
from imagenet_operator.clusters.local.pid1 import PR_SET_PDEATHSIG, prctl
parent = int(sys.argv.pop(1))
prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
if os.getppid() == parent:
    from imagenet_operator.cli.main import main
    sys.exit(main())
"""
"""`imagenetctl` that is interrupted when its parent, whose process id comes first, ends."""


class AsyncLocalClient(Jobs):
    """Jobs of a working directory, for programs that await.

    Args:
        workdir: What `imagenetctl run` has as --workdir.
    """

    poll_seconds = _POLL_SECONDS

    def __init__(self, workdir: Path | str = "imagenet-work") -> None:
        self.workdir = Path(workdir)
        self.place = f"the working directory {self.workdir}"
        self.options = f" --workdir {shlex.quote(str(self.workdir))}"
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def is_passing(self, error: ClusterError) -> bool:
        del error
        return False

    async def submit(
        self, job: ImageNetJob | Manifest | Path | str, *, dry_run: bool = False
    ) -> ImageNetJob:
        wanted = submission.read(job)
        name = wanted.metadata.name
        if not name:
            hint = "write metadata.name, by which a local run is found again"
            problem = Problem("metadata.generateName", "only a cluster generates names", hint)
            raise Rejected([problem])
        try:
            found = await self.get(name)
        except NotFound:
            found = None
        if found is not None and not submission.is_same(wanted, found):
            raise Rejected(
                submission.differences(wanted, found),
                f"{self.place} has another job {name!r}",
                "write another metadata.name, or delete the job that is there: "
                f"imagenetctl delete {name}{self.options}",
            )
        if found is not None and (is_finished(found.status) or self._folder(name).owner()):
            return found
        if dry_run:
            return wanted
        return await self._start(wanted, job if isinstance(job, Path | str) else None)

    async def _start(self, job: ImageNetJob, file: Path | str | None) -> ImageNetJob:
        name = job.metadata.name
        folder = self._folder(name)
        folder.check()
        folder.path.mkdir(parents=True, exist_ok=True)
        output = folder.path / "run.log"

        async def start() -> subprocess.Popen[bytes]:
            # By the thread that lives as long as the interpreter: the kernel tells a child of the
            # end of the thread that has started it.
            with output.open("wb") as written:
                return subprocess.Popen(
                    [
                        *(sys.executable, "-c", _CHILD, str(os.getpid())),
                        *("run", "-" if file is None else str(file)),
                        *("--workdir", str(self.workdir)),
                    ],
                    stdin=subprocess.PIPE,
                    stdout=written,
                    stderr=subprocess.STDOUT,
                    # Ctrl-C in a terminal goes to every process of the group.
                    start_new_session=True,
                )

        child = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(start(), loop()))
        self._children[name] = child
        assert child.stdin is not None
        if file is None:
            child.stdin.write(json.dumps(job.to_manifest()).encode())
        child.stdin.close()
        while child.poll() is None:
            if folder.owner() == child.pid and (folder.path / "job.json").exists():
                break
            await asyncio.sleep(_START_POLL_SECONDS)
        if child.poll():
            said = tail(output, _ERROR_BYTES).strip()
            raise LocalError(f"the run of {name} has ended with {child.returncode}:\n{said}")
        return await self.get(name)

    async def list(self) -> JobList:
        files = sorted((self.workdir / "jobs").glob("*/job.json"))
        found = []
        for file in files:
            try:
                found.append(await self.get(file.parent.name))
            except LocalError as error:
                _LOGGER.warning("left out: %s", error)
            except NotFound:
                # It was deleted since.
                continue
        return JobList(found)

    async def get(self, name: str) -> ImageNetJob:
        file = self._folder(name).path / "job.json"
        try:
            found: Manifest = json.loads(file.read_text(encoding="utf-8"))["job"]
        except FileNotFoundError as error:
            known = sorted(other.parent.name for other in self.workdir.glob("jobs/*/job.json"))
            meant = nearest(name, known)
            remedy = "name another working directory with --workdir, or a cluster with --context"
            raise NotFound(
                f"{self.workdir} has no job {name!r}; "
                + (f"did you mean {meant}?" if meant else remedy)
            ) from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise LocalError(f"cannot read {file}: {error}") from error
        return stored.read(found).job

    async def events(self, name: str) -> tuple[JobEvent, ...]:
        await self.get(name)
        try:
            found = metrics.objects(self._folder(name).path / EVENTS)
        except FileNotFoundError:
            return ()
        return tuple(
            JobEvent(
                datetime.fromisoformat(item["time"]), item["type"], item["reason"], item["message"]
            )
            for item in found
        )

    def logs(
        self,
        name: str,
        selection: Selection = Selection(),  # noqa: B008 - it is immutable
        *,
        follow: bool = False,
        tail: int | None = None,
        image: str | None = None,
        say: Callable[[str], None] = lambda said: None,
    ) -> AsyncIterator[LogLine]:
        del image
        return logs.follow(_FileLogs(self, name), selection, to_the_end=follow, tail=tail, say=say)

    async def suspend(self, name: str) -> None:
        job = await self.get(name)
        owner = self._folder(name).owner()
        if owner is None:
            raise self._not_running(job)
        # A shell lets its background commands ignore SIGINT.
        os.kill(owner, signal.SIGTERM)

    async def resume(self, name: str) -> None:
        await self.get(name)
        raise ImageNetJobError(
            "a job of a working directory goes on with its own command: imagenetctl run FILE"
            f"{self.options}"
        )

    async def removal(self, name: str) -> Removal:
        job = await self.get(name)
        goes = f"the state, the events and the logs of {name}: {self._folder(name).path}"
        found = (volumes.output_claim(job), volumes.dataset_claim(job))
        claims = {claim for claim in found if claim is not None}
        stays = (f"the claim {claim}, with datasets and models" for claim in sorted(claims))
        return Removal((goes,), tuple(stays))

    async def delete(self, name: str) -> None:
        await self.get(name)
        folder = self._folder(name)
        with folder.locked():
            shutil.rmtree(folder.path)

    async def standstill(self, job: ImageNetJob) -> ImageNetJobError | None:
        if is_finished(job.status) or self._folder(job.metadata.name).owner() is not None:
            return None
        # It may have ended between the two looks.
        if is_finished((await self.get(job.metadata.name)).status):
            return None
        return self._not_running(job)

    async def metrics(
        self,
        name: str,
        *,
        from_volume: bool = True,
        image: str | None = None,
        say: Callable[[str], None] = lambda said: None,
    ) -> Any:
        del from_volume, image, say
        job = await self.get(name)
        rows = metrics.of_files(self.results(job))
        if not rows:
            raise NotFound(f"{name} has not trained yet: {in_words(job)}")
        return metrics.table(rows)

    async def upload(
        self,
        source: Path | str,
        claim: str,
        *,
        size: str | None = None,
        path: str = "",
        image: str | None = None,
        progress: Callable[[Progress], None] = lambda progress: None,
        say: Callable[[str], None] = lambda said: None,
    ) -> Transferred:
        del size, path, image, progress, say
        folder = Path(source)
        folder = folder if folder.is_dir() else folder.parent
        raise ImageNetJobError(
            f"upload is for clusters; a local run reads the files where they are: imagenetctl run "
            f"FILE --volume {claim}={shlex.quote(str(folder))}{self.options}"
        )

    async def download(
        self,
        name: str,
        to: Path | str,
        *,
        checkpoint: str | int | None = None,
        image: str | None = None,
        progress: Callable[[Progress], None] = lambda progress: None,
        say: Callable[[str], None] = lambda said: None,
    ) -> Path:
        del image, progress, say
        job, target = await self.get(name), Path(to)
        results.require(job, checkpoint)
        if target.exists():
            raise LocalError(f"{target} exists; name a new folder")
        temporary = target.with_name(f".{target.name}.tmp-{secrets.token_hex(4)}")
        root = self.results(job)
        try:
            # The paths of a job's results begin with jobs/NAME-UID.
            await results.fetch(job, _Copies(root.parent.parent, temporary), checkpoint)
            temporary.rename(target)
        except OSError as error:
            raise LocalError(f"cannot write {target}: {error}") from error
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        return target

    def results(self, job: ImageNetJob) -> Path:
        model = self._folder(job.metadata.name).path / MODEL_LINK
        if model.is_dir():
            # The link to the folder of an attempt, also of a claim whose folder is elsewhere.
            return model.resolve().parents[1]
        mount = volumes.output(job) or volumes.data(job)
        folder = names.output_folder(job.metadata.name, job.metadata.uid)
        return self.workdir / "volumes" / mount.claim / folder

    def _folder(self, name: str) -> JobFolder:
        return JobFolder(self.workdir, name)

    def _not_running(self, job: ImageNetJob) -> LocalError:
        return LocalError(
            f"no process of this user on this machine runs {job.metadata.name} in "
            f"{self.workdir}; it goes on with "
            f"imagenetctl run FILE{self.options}"
        )


def _last_lines(file: BinaryIO, count: int) -> int:
    """Return where the last lines of a file begin; a line that is being written counts as one."""
    size = file.seek(0, os.SEEK_END)
    if not count:
        return size
    # The line break at the end is that of the last line.
    start = max(0, size - 1)
    while start:
        end, start = start, max(0, start - _BLOCK_BYTES)
        file.seek(start)
        block = file.read(end - start)
        place = len(block)
        while (place := block.rfind(b"\n", 0, place)) >= 0:
            count -= 1
            if not count:
                return start + place + 1
    return 0


class _Copies:
    """The volume of a job's results, a folder of this machine, for `results.fetch`."""

    def __init__(self, root: Path, to: Path) -> None:
        self._root = root
        self._to = to

    async def names(self, folder: str) -> list[str]:
        top = self._root / folder
        return await asyncio.to_thread(
            lambda: [str(file.relative_to(top)) for file in top.rglob("*") if file.is_file()]
        )

    async def read(self, path: str) -> bytes:
        return volume_files.read_bytes(self._root / path)

    async def fetch(
        self, folder: str, sums: Mapping[str, str], wanted: Callable[[str], bool]
    ) -> None:
        for name in sorted({*filter(wanted, await self.names(folder)), *sums}):
            await asyncio.to_thread(self._copy, f"{folder}/{name}", name, sums.get(name))

    def _copy(self, path: str, name: str, wanted: str | None) -> None:
        copy = self._to / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(self._root / path, copy)
        if wanted is None:
            return
        with copy.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != wanted:
            raise LocalError(f"{path}: its SHA-256 is {found}, and the training wrote {wanted}")


class _FileLogs:
    """The logs of a job's pods, for `logs.follow`."""

    def __init__(self, client: AsyncLocalClient, name: str) -> None:
        self.poll_seconds = client.poll_seconds
        self._client = client
        self._name = name
        self._folder = JobFolder(client.workdir, name)

    async def job(self) -> ImageNetJob:
        return await self._client.get(self._name)

    async def started(self) -> set[str]:
        return {file.stem for file in self._folder.logs.glob("*.log")}

    async def is_over(self, job: ImageNetJob) -> bool:
        return is_finished(job.status) or self._folder.owner() is None

    async def read(
        self, pod: str, *, follow: bool, tail: int | None = None
    ) -> AsyncIterator[LogLine]:
        with (self._folder.logs / f"{pod}.log").open("rb") as file:
            rest = b""
            if tail is not None:
                file.seek(_last_lines(file, tail))
            while True:
                # Asked before the file is read, so that its last lines are not missed.
                has_ended = not follow or await self._has_ended(pod)
                while block := file.read(1 << 20):
                    *lines, rest = (rest + block).split(b"\n")
                    for line in lines:
                        yield LogLine(pod, line.decode("utf-8", "replace"))
                if has_ended:
                    break
                await asyncio.sleep(self.poll_seconds)
            if rest:
                yield LogLine(pod, rest.decode("utf-8", "replace"))

    async def kept(self, job: ImageNetJob, attempt: int) -> AsyncIterator[LogLine]:
        folder = self._client.results(job) / attempt_folder(attempt)
        for line in logs.kept_lines(folder, names.member(self._name, attempt, "worker", 0)):
            yield line

    async def _has_ended(self, pod: str) -> bool:
        job = await self.job()
        member, training = logs.member_of(self._name, pod), job.status.training
        if await self.is_over(job):
            return True
        return training is not None and (member is None or member.attempt < training.attempt)
