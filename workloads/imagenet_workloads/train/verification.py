"""Trains from a checkpoint to a receipt that follows it again, for `imagenet-verify`.

`imagenet-train` of the same environment runs in a scratch folder, with the command line that had
led from the checkpoint to the receipt, and ends there.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from imagenet_workloads.checkpoint.manifest import CheckpointManifest, Identity, Position
from imagenet_workloads.errors import InputError, WorkloadError
from imagenet_workloads.fields import Fields
from imagenet_workloads.train.receipts import FILE_NAME, Launch, Receipt, read_chain

_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Target:
    """A receipt that follows a checkpoint.

    Attributes:
        checkpoint: the folder to begin from.
        steps: updates from there to the receipt.
        position: of the receipt.
        state: the hex SHA-256 of each part.
        launch: the file with the command line that led there.
        is_checkpoint: whether the receipt is that of the next checkpoint.
    """

    checkpoint: Path
    steps: int
    position: Position
    state: Mapping[str, str]
    launch: Path
    is_checkpoint: bool


def choose(result: Path, checkpoint: str | None, steps: int | None) -> Target:
    """Return what to train to again.

    Args:
        result: a result.json.
        checkpoint: the name of the one to begin from; None for the last possible one.
        steps: from there to the receipt; None for those to the next checkpoint.

    Raises:
        InputError: there is no such receipt; the message has those that there are.
    """
    found = list(_targets(result))
    chosen = [
        one
        for one in found
        if checkpoint in (None, one.checkpoint.name)
        and (one.is_checkpoint if steps is None else one.steps == steps)
    ]
    if chosen:
        return chosen[-1]
    wanted = "next checkpoint" if steps is None else f"receipt of {steps} steps later"
    after = "" if checkpoint is None else f" after {checkpoint}"
    raise InputError(f"{result}: no {wanted}{after}; there are: {_described(found)}")


def _described(targets: Sequence[Target]) -> str:
    steps: dict[str, list[str]] = {}
    for one in targets:
        said = f"{one.steps} (--next-checkpoint)" if one.is_checkpoint else f"{one.steps}"
        steps.setdefault(one.checkpoint.name, []).append(said)
    if not steps:
        return "none; raise checkpoint.keep"
    return "; ".join(f"{name} with steps {', '.join(later)}" for name, later in steps.items())


def _targets(result: Path) -> Iterator[Target]:
    """Yield what can be trained to again, in the order of training."""
    chain, attempts = read_chain(result, "checkpoints"), result.parent.parent
    for receipt, following in zip_longest(chain, chain[1:]):
        folder = _folder(attempts, receipt)
        if not folder.is_dir():
            continue
        if following is not None and (after := _folder(attempts, following)).is_dir():
            yield Target(
                folder,
                _updates(after) - _updates(folder),
                following.position,
                {**following.files, "random": following.random},
                after / FILE_NAME,
                is_checkpoint=True,
            )
        if (later := receipt.later) is not None:
            launch = attempts / f"r{later.attempt}" / FILE_NAME
            yield Target(
                folder, later.steps, later.position, later.state, launch, is_checkpoint=False
            )


def _folder(attempts: Path, receipt: Receipt) -> Path:
    return attempts / f"r{receipt.attempt}/checkpoints/{receipt.position.name}"


def _updates(checkpoint: Path) -> int:
    return Fields.read(checkpoint / FILE_NAME).object("random").integer("updates")


def train_again(target: Target) -> Mapping[str, str]:
    """Train from the checkpoint to the receipt; return the SHA-256 of each part there.

    Raises:
        InputError: the checkpoint is damaged, or several workers trained.
        WorkloadError: training ended before.
    """
    manifest = CheckpointManifest.read(target.checkpoint)
    manifest.verify(target.checkpoint)
    launch = Launch.read(target.launch)
    _require_one_worker(launch.workers, target.launch)
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch)
        shutil.copytree(
            target.checkpoint, output / "attempts/r0/checkpoints" / target.checkpoint.name
        )
        training = subprocess.Popen(
            _arguments(launch, output, target),
            env=_environment(launch, manifest.identity),
            stdout=subprocess.DEVNULL,
        )
        try:
            while training.poll() is None and _reached(output, manifest.position, target) is None:
                time.sleep(_POLL_SECONDS)
        finally:
            training.kill()
            training.wait()
        found = _reached(output, manifest.position, target)
    if found is None:
        raise WorkloadError(f"training has ended before {target.position.name}")
    return found


def _require_one_worker(workers: int, launch: Path) -> None:
    if workers != 1:
        raise InputError(
            f"{launch}: {workers} workers trained, and this program runs one; verify a result of "
            "one worker, or compare the receipts of two runs (receipts.json)"
        )


def _environment(launch: Launch, identity: Identity) -> dict[str, str]:
    found = os.environ | {
        "IMAGENET_JOB_UID": identity.job_uid,
        "IMAGENET_SPEC_HASH": identity.spec_hash,
        "IMAGENET_ATTEMPT": "1",
    }
    found.pop("OMP_NUM_THREADS", None)
    return found if launch.threads is None else {**found, "OMP_NUM_THREADS": launch.threads}


def _arguments(launch: Launch, output: Path, target: Target) -> list[str]:
    """Return the command line of the training, which also writes the next checkpoint."""
    found = [
        str(Path(sys.executable).parent / "imagenet-train"),
        *launch.arguments,
        *("--output", str(output), "--checkpoint-every-epochs", "1"),
        *("--checkpoint-keep", "100000"),
    ]
    if target.is_checkpoint and target.position.batch:
        found += ["--checkpoint-every-seconds", "0.000001"]
    return found


def _reached(output: Path, begun: Position, target: Target) -> Mapping[str, str] | None:
    """Return the SHA-256 of each part at the target; None if training has not got there."""
    attempt = output / "attempts/r1"
    if target.is_checkpoint:
        folder = attempt / "checkpoints" / target.position.name
        if not folder.exists():
            return None
        receipt = Receipt.of(folder)
        return {**receipt.files, "random": receipt.random}
    if not (attempt / FILE_NAME).exists():
        return None
    chain = read_chain(attempt / FILE_NAME, "receipts")
    later = next((one.later for one in chain if one.position == begun), None)
    return None if later is None else later.state
