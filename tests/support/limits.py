"""`imagenet-train` under a limit of the system, such as `ulimit -v` sets."""

import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from support.processes import DEADLINE_SECONDS
from support.training_cluster import PROGRAM, plain_environment

_WITHIN = """
import os, resource, sys
limit, most = map(int, sys.argv[1:3])
resource.setrlimit(limit, (most, most))
os.execv(sys.argv[3], sys.argv[3:])
"""

MEMORY = 5 << 30
"""Bytes of addresses: enough for every framework and a batch of images, not for its network."""

LARGE_BATCH = (
    *("--benchmark", "1", "--network", "lenet", "--image-shape", "3,224,224"),
    *("--num-examples", "1024", "--batch-size", "1024", "--num-classes", "10"),
    *("--num-epochs", "1"),
)
"""A training whose first convolution makes 4 GB of its images of 0.6 GB."""

SMALL = (
    *("--benchmark", "1", "--network", "lenet", "--image-shape", "3,28,28"),
    *("--num-examples", "32", "--batch-size", "32", "--num-classes", "10"),
    *("--num-epochs", "1", "--lr", "0.01"),
)
"""A training of one step."""

LACKS_MEMORY = (
    "this machine has too little memory for 1024 images a step of this worker; lower --batch-size "
    "(spec.training.batchSize); --macrobatch-size adds up the smaller steps"
)
"""The advice that all frameworks have in common."""


def train_within(
    limit: int, most: int, arguments: Sequence[str], **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run `imagenet-train` in one process to its end, under a limit.

    Args:
        limit: Which, such as `resource.RLIMIT_FSIZE`.
        most: Its value.
        arguments: of the program.
        environment: further variables.
    """
    return subprocess.run(
        [sys.executable, "-c", _WITHIN, str(limit), str(most), str(PROGRAM), *arguments],
        env=plain_environment(**environment),
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )


def advice_without_memory(output: Path, framework: str, **environment: str) -> str:
    """The termination message of a training that lacks memory, which must fail with 1."""
    message = output / "termination-message"
    ended = train_within(
        resource.RLIMIT_AS,
        MEMORY,
        [*LARGE_BATCH, "--framework", framework, "--output", str(output)],
        IMAGENET_TERMINATION_LOG=str(message),
        **environment,
    )
    assert ended.returncode == 1, ended.stderr
    assert ended.stderr.endswith(f"imagenet-train: error: {message.read_text()}\n")
    return message.read_text()


def check_refused_checkpoints(output: Path, framework: str) -> None:
    """Assert that a training names the limit below which its checkpoint does not fit.

    The weights take 1.7 MB. Above a megabyte, the limit is found only where the file ends.
    """
    for most in (100_000, 1_500_000):
        folder = output / str(most)
        folder.mkdir()
        message = folder / "termination-message"
        ended = train_within(
            resource.RLIMIT_FSIZE,
            most,
            [*SMALL, "--framework", framework, "--output", str(folder)],
            IMAGENET_TERMINATION_LOG=str(message),
        )
        assert ended.returncode == 4, ended.stderr
        said = message.read_text()
        assert "cannot write checkpoint" in said
        assert "File too large: a checkpoint needs more than" in said
        assert "allow larger files, as by `ulimit -f`" in said
        assert not [*folder.glob("attempts/r0/checkpoints/*")]
