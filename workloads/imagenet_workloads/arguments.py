"""What the command lines of the preparing programs share: options, and the types of arguments.

argparse turns a type's ArgumentTypeError into `error: argument --shards: …` and exit code 2.
"""

import math
import os
import re
from argparse import ArgumentParser, ArgumentTypeError
from pathlib import Path

from imagenet_workloads.environment import Environment

CGROUP = Path("/sys/fs/cgroup")

_CHECKSUM = re.compile(r"sha256:[0-9a-f]{64}|md5:[0-9a-f]{32}")


def add_dataset(parser: ArgumentParser, *, required: bool = True) -> None:
    """Adds the options that say which planned dataset, for the programs that work on one."""
    parser.add_argument(
        "--data", type=path, required=required, metavar="FOLDER", help="the dataset volume"
    )
    parser.add_argument(
        "--key", type=key, required=required, help="the dataset's key, as imagenet-index says it"
    )


def add_threads(parser: ArgumentParser) -> None:
    """Adds `--threads`, which decides the speed alone."""
    parser.add_argument(
        "--threads",
        type=count,
        metavar="N",
        help="cores to keep busy (default: those that this process may use)",
    )


def path(text: str) -> Path:
    """A path; an empty one would be the working directory."""
    if not text:
        raise ArgumentTypeError("is empty; give a path")
    return Path(text)


def text(value: str) -> str:
    """A text that is not empty."""
    if not value:
        raise ArgumentTypeError("is empty")
    return value


def natural(text: str) -> int:
    """A whole number of at least 0."""
    return _whole(text, 0, None)


def count(text: str) -> int:
    """A whole number of at least 1."""
    return _whole(text, 1, None)


def quality(text: str) -> int:
    """A JPEG quality."""
    return _whole(text, 1, 100)


def edge(text: str) -> int:
    """A length in pixels that a JPEG can have."""
    return _whole(text, 1, 16384)


def fraction(text: str) -> float:
    """A number from 0 to 1."""
    try:
        value = float(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0 <= value <= 1:
        raise ArgumentTypeError(f"must be from 0 to 1, not {text}")
    return value


def image_shape(text: str) -> tuple[int, int, int]:
    """`3,H,W`: three channels, height and width in pixels."""
    parts = text.split(",")
    if len(parts) != 3 or parts[0].strip() != "3":
        raise ArgumentTypeError(f"must be 3,HEIGHT,WIDTH as in 3,224,224, not {text!r}")
    return 3, edge(parts[1].strip()), edge(parts[2].strip())


def _whole(text: str, lowest: int, highest: int | None) -> int:
    # int() takes more than digits ("1_0", " 7"), and a manifest never means those.
    if not (text.isascii() and text.isdigit()):
        raise ArgumentTypeError(f"{text!r} is not a whole number of at least {lowest}")
    value = int(text)
    if value < lowest or (highest is not None and value > highest):
        span = f"at least {lowest}" if highest is None else f"from {lowest} to {highest}"
        raise ArgumentTypeError(f"must be {span}, not {text}")
    return value


def checksum(text: str) -> str:
    """A checksum of a file: sha256:DIGITS or md5:DIGITS."""
    if not _CHECKSUM.fullmatch(text):
        raise ArgumentTypeError(f"{text!r} is neither sha256:DIGITS nor md5:DIGITS")
    return text


def key(text: str) -> str:
    """A dataset's key: the name of a folder, in hexadecimal."""
    if not text or set(text) - set("0123456789abcdef"):
        raise ArgumentTypeError(f"{text!r} is not a key: lower-case hexadecimal digits")
    return text


def available_cores(cgroup: Path = CGROUP, at_most: int | None = None) -> int:
    """How many cores this process may use, at least 1; a limit of 1.5 counts as 2.

    A pod sees all cores of its node. Threads beyond its CPU limit would only be throttled. Without
    a limit, those beyond its request would take time from the other pods of the node. Without
    both, the pods of one Job on a node divide its cores, and `at_most` so many are taken.
    """
    allowed = len(os.sched_getaffinity(0))
    environment = Environment.from_mapping(os.environ)
    bounds = [one for one in (_cpu_limit(cgroup), environment.cpus) if one is not None]
    if not bounds:
        share = math.ceil(allowed / max(1, environment.pods_on_node or 1))
        return share if at_most is None else min(share, at_most)
    return max(1, min([allowed, *map(math.ceil, bounds)]))


def throttled_seconds(cgroup: Path = CGROUP) -> float | None:
    """For how long the CPU limit has stopped this pod's threads; None if no cgroup says it."""
    versions = (("cpu.stat", "throttled_usec", 1e6), ("cpu/cpu.stat", "throttled_time", 1e9))
    for file, key, unit in versions:
        try:
            lines = (cgroup / file).read_text().splitlines()
            return int(dict(line.split(maxsplit=1) for line in lines)[key]) / unit
        except (OSError, ValueError, KeyError):
            continue
    return None


def _cpu_limit(cgroup: Path) -> float | None:
    """The CPU limit in cores by cgroup v2 (cpu.max) or v1 (cpu.cfs_*); None without one."""
    try:
        quota, period = (cgroup / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota = (cgroup / "cpu" / "cpu.cfs_quota_us").read_text().strip()
            period = (cgroup / "cpu" / "cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    if not (quota.isdigit() and period.isdigit() and int(period)):
        return None  # "max", or -1: no limit
    return int(quota) / int(period)
