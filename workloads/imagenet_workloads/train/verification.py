"""Trains from a checkpoint to a receipt that follows it again, for `imagenet-verify`.

`imagenet-train` of the same environment runs in a scratch folder, with the command line that had
led from the checkpoint to the receipt, and ends there. All workers run on this machine.
"""

import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count, zip_longest
from pathlib import Path

from imagenet_spec.names import (
    CHECKPOINTS_FOLDER,
    IMAGENET_ATTEMPT,
    IMAGENET_JOB_UID,
    IMAGENET_SPEC_HASH,
    TRAIN_PROGRAM,
    attempt_folder,
)
from imagenet_spec.program.option import written
from imagenet_spec.program.train import OPTIONS, Options, values_of
from imagenet_workloads.checkpoint import CheckpointManifest, Position
from imagenet_workloads.errors import InputError, WorkloadError
from imagenet_workloads.fields import Fields
from imagenet_workloads.process import parent_death_signal
from imagenet_workloads.rendezvous import LocalMember, local_members
from imagenet_workloads.train.description import FrameworkDescription
from imagenet_workloads.train.receipts import FILE_NAME, Launch, Receipt, read_chain

PROGRAMS = Path(sys.executable).parent
_POLL_SECONDS = 0.1
# The kernel gives these ports to any client, before a member listens.
_EPHEMERAL_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
# Of a sum over more workers, the bits depend on its order.
_MOST_IN_ANY_ORDER = 2
# A training that decides by its validations begins with the one that a checkpoint has not. No step
# depends on it.
_NO_DECISIONS = {
    "early_stopping_metric": None,
    "early_stopping_patience": None,
    "early_stopping_min_delta": None,
    "checkpoint_best": None,
}


@dataclass(frozen=True)
class Target:
    """A receipt that follows a checkpoint by `steps` updates; maybe that of the next checkpoint.

    `checkpoint` is the folder to begin from; `launch` is the file with the command line that led
    from there to the receipt, which has the hex SHA-256 of each part.
    """

    checkpoint: Path
    steps: int
    position: Position
    state: Mapping[str, str]
    launch: Path
    is_checkpoint: bool


def choose(result: Path, checkpoint: str | None, steps: int | None) -> Target:
    """Return what of a result.json to train to again; InputError lists what there is.

    Without a `checkpoint`'s name it is the last possible one; without `steps`, the receipt is that
    of the next checkpoint.
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
    known: dict[str, list[str]] = {}
    for one in found:
        said = f"{one.steps} (--next-checkpoint)" if one.is_checkpoint else f"{one.steps}"
        known.setdefault(one.checkpoint.name, []).append(said)
    listed = "; ".join(f"{name} with steps {', '.join(later)}" for name, later in known.items())
    raise InputError(
        f"{result}: no {wanted}{after}; there are: {listed or 'none; raise checkpoint.keep'}"
    )


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


def members(
    launch: Launch, path: Path, options: Options, description: FrameworkDescription
) -> Sequence[LocalMember]:
    """Return the processes that train again on this machine.

    InputError: the training has other bits each time; the message names the file of its launch.
    """
    certain = options._replace(cluster=options.cluster.replace(deterministic=True))
    if problem := description.contradiction(certain):
        raise InputError(
            f"{path}: this training has other bits each time; imagenet-train refuses "
            f"--deterministic (training.deterministic) for it: {problem}"
        )
    if launch.workers > _MOST_IN_ANY_ORDER and not options.cluster.deterministic:
        raise InputError(
            f"{path}: {launch.workers} workers trained without --deterministic "
            "(training.deterministic), so the order of sums may differ each time"
        )
    module = description.rendezvous[description.strategy_of(options)]
    return local_members(
        module, launch.workers, max(launch.servers, 1), partial(next, _free_ports())
    )


def _free_ports() -> Iterator[int]:
    first, last = map(int, _EPHEMERAL_PORTS.read_text().split())
    ports = range(10_000, 1 << 16)
    # Some machines give the kernel all of them.
    others = [port for port in ports if not first <= port <= last] or ports
    for port in random.sample(others, len(others)):
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
        yield port


def train_again(
    target: Target, launch: Launch, options: Options, members: Sequence[LocalMember]
) -> Mapping[str, str]:
    """Train from the checkpoint to the receipt; return the SHA-256 of each part there.

    InputError: the checkpoint is damaged. WorkloadError: training ended before.
    """
    manifest = CheckpointManifest.read(target.checkpoint)
    manifest.verify(target.checkpoint)
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch)
        shutil.copytree(
            target.checkpoint,
            output / attempt_folder(0) / CHECKPOINTS_FOLDER / target.checkpoint.name,
        )
        environment = os.environ | {
            IMAGENET_JOB_UID: manifest.identity.job_uid,
            IMAGENET_SPEC_HASH: manifest.identity.spec_hash,
            IMAGENET_ATTEMPT: "1",
        }
        environment.pop("OMP_NUM_THREADS", None)
        if launch.threads is not None:
            environment["OMP_NUM_THREADS"] = launch.threads
        arguments = [
            *written(OPTIONS, {**values_of(options), **_NO_DECISIONS}),
            *("--output", str(output), "--checkpoint-every-epochs", "1"),
            *("--checkpoint-keep", "100000"),
        ]
        if target.is_checkpoint and target.position.batch:
            # So that it writes the next checkpoint too.
            arguments += ["--checkpoint-every-seconds", "0.000001"]
        with _running(members, arguments, environment, len(options.cluster.gpus)) as processes:
            is_over = False
            while _reached(output, manifest.position, target) is None and not is_over:
                time.sleep(_POLL_SECONDS)
                codes = [(member, process.poll()) for member, process in processes]
                # All workers have ended, or any member has failed.
                is_over = any(code for _, code in codes) or all(
                    code is not None for member, code in codes if member.is_worker
                )
        found = _reached(output, manifest.position, target)
    if found is None:
        raise WorkloadError(f"training has ended before {target.position.name}")
    return found


@contextmanager
def _running(
    members: Sequence[LocalMember],
    arguments: Sequence[str],
    environment: Mapping[str, str],
    gpus: int,
) -> Iterator[list[tuple[LocalMember, subprocess.Popen[bytes]]]]:
    wrapper = [sys.executable, "-m", parent_death_signal.__name__, str(os.getpid())]
    workers, processes = count(), []
    try:
        for member in members:
            program = str(PROGRAMS / member.program)
            own = {}
            if member.is_worker and len(members) > 1 and gpus:
                # Its share of this machine's GPUs.
                first = next(workers) * gpus
                visible = os.environ.get("CUDA_VISIBLE_DEVICES")
                devices = visible.split(",") if visible is not None else None
                share = range(first, first + gpus) if devices is None else devices[first:][:gpus]
                own["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, share))
            process = subprocess.Popen(
                [*wrapper, program, *(arguments if member.program == TRAIN_PROGRAM else ())],
                env={**environment, **member.variables, **own},
                stdout=subprocess.DEVNULL,
            )
            processes.append((member, process))
        yield processes
    finally:
        for _, process in processes:
            process.kill()
        for _, process in processes:
            process.wait()


def _reached(output: Path, begun: Position, target: Target) -> Mapping[str, str] | None:
    """Return the SHA-256 of each part at the target; None if training has not got there."""
    attempt = output / attempt_folder(1)
    if target.is_checkpoint:
        folder = attempt / CHECKPOINTS_FOLDER / target.position.name
        if not folder.exists():
            return None
        receipt = Receipt.of(folder)
        return {**receipt.files, "random": receipt.random}
    if not (attempt / FILE_NAME).exists():
        return None
    chain = read_chain(attempt / FILE_NAME, "receipts")
    later = next((one.later for one in chain if one.position == begun), None)
    return None if later is None else later.state
