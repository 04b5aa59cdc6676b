"""`imagenet-verify`: trains from a checkpoint to the next one again, and compares their receipts.

The next checkpoint of result.json's chain names its command line. `imagenet-train` of the same
environment runs in a scratch folder, and ends at that checkpoint's position.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from imagenet_workloads.train.receipts import Receipt

PROGRAM = "imagenet-verify"
# Receipts differ; 3 is that of an input that cannot be verified.
DIFFERENT = 1
_POLL_SECONDS = 0.1


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of `imagenet-verify`."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Train from a checkpoint to the next one again, and compare every byte.",
    )
    parser.add_argument(
        "result", type=Path, metavar="RESULT", help="a job's folder, an attempt's or a result.json"
    )
    parser.add_argument(
        "--checkpoint",
        metavar="NAME",
        help="where to begin, such as epoch-0003-batch-00000000 (default: the last one that is "
        "there and has a next one)",
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Verify; return the exit code."""
    from imagenet_workloads.process.program import run_program

    options = build_parser().parse_args(arguments)
    return run_program(PROGRAM, lambda: _verify(options))


def _verify(options: argparse.Namespace) -> int:
    from imagenet_workloads.prediction import find_result

    result = find_result(options.result.resolve(), "")
    folder, after, expected = _choose(result, options.checkpoint)
    found = _train_again(folder, after, expected)
    name = expected.position.name
    parts = {**expected.files, "random state": expected.random}
    again = {**found.files, "random state": found.random}
    different = [part for part in sorted(parts | again) if parts.get(part) != again.get(part)]
    for part in sorted(parts | again):
        state = "differs" if part in different else "is the same"
        print(f"{part}: {state}, {again.get(part, 'missing')}")
    outcome = "another state than that of" if different else "the bytes of"
    print(f"from {folder.name}, training has {outcome} {name}")
    return DIFFERENT if different else 0


def _choose(result: Path, name: str | None) -> tuple[Path, Path, "Receipt"]:
    """Return the checkpoint to begin from, the next one, and the receipt of that."""
    import json

    from imagenet_workloads.errors import InputError
    from imagenet_workloads.train.receipts import Receipt

    try:
        chain = [Receipt.read(one) for one in json.loads(result.read_bytes())["checkpoints"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{result}: holds no receipts of checkpoints: {error}") from error
    attempts = result.parent.parent
    folders = [attempts / f"r{one.attempt}/checkpoints/{one.position.name}" for one in chain]
    there = [
        (folder, after, receipt)
        for (folder, after), receipt in zip(pairwise(folders), chain[1:], strict=True)
        if folder.is_dir() and after.is_dir()
    ]
    chosen = [one for one in there if name in (None, one[0].name)]
    if not chosen:
        known = ", ".join(folder.name for folder, *_ in there) or "none; raise checkpoint.keep"
        raise InputError(f"{result}: no checkpoint to begin from; there are: {known}")
    return chosen[-1]


def _require_one_worker(workers: int, after: Path) -> None:
    from imagenet_workloads.errors import InputError

    if workers != 1:
        raise InputError(
            f"{after}: {workers} workers trained, and this program runs one; verify a result of "
            "one worker, or compare the receipts of two runs (receipts.json)"
        )


def _train_again(folder: Path, after: Path, expected: "Receipt") -> "Receipt":
    """Train from a checkpoint to the position of a receipt; return the receipt there."""
    from imagenet_workloads.checkpoint.manifest import CheckpointManifest
    from imagenet_workloads.errors import WorkloadError
    from imagenet_workloads.fields import Fields
    from imagenet_workloads.train.receipts import FILE_NAME, Receipt

    manifest = CheckpointManifest.read(folder)
    manifest.verify(folder)
    written = Fields.read(after / FILE_NAME)
    _require_one_worker(written.integer("workers"), after)
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch)
        shutil.copytree(folder, output / "attempts/r0/checkpoints" / folder.name)
        command = [
            str(Path(sys.executable).parent / "imagenet-train"),
            *map(str, written.values["arguments"]),
            *("--output", scratch, "--checkpoint-every-epochs", "1", "--checkpoint-keep", "100000"),
        ]
        if expected.position.batch:
            command += ["--checkpoint-every-seconds", "0.000001"]
        identity = manifest.identity
        environment = os.environ | {
            "IMAGENET_JOB_UID": identity.job_uid,
            "IMAGENET_SPEC_HASH": identity.spec_hash,
            "IMAGENET_ATTEMPT": "1",
        }
        reached = output / "attempts/r1/checkpoints" / expected.position.name
        training = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        try:
            while training.poll() is None and not reached.exists():
                time.sleep(_POLL_SECONDS)
        finally:
            training.kill()
            training.wait()
        if not reached.exists():
            raise WorkloadError(f"training has ended before {expected.position.name}")
        return Receipt.of(reached)


if __name__ == "__main__":
    sys.exit(main())
