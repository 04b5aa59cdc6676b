"""Peak memory of real processes at 1x and 10x the images."""

from pathlib import Path

import pytest

from imagenet_workloads.prepare.sources.tar import BLOCK
from support.pictures import jpeg, tar
from support.preparation import finish, start

# What the process took at most, told at its end; wait4's figure includes the test's own process.
PEAK = """
import atexit
def tell():
    with open("/proc/self/status") as file:
        print(next(line.split()[1] for line in file if line.startswith("VmHWM")))
atexit.register(tell)
"""


def peak(program: str, *arguments: str | Path) -> tuple[int, str]:
    """Peak memory of a program in bytes, and the rest of its output."""
    code, output, errors = finish(start(program, *arguments, hook=PEAK))
    assert code == 0, errors
    *rest, kilobytes = output.splitlines()
    return int(kilobytes) * 1024, "\n".join(rest)


def write_empty_images(path: Path, images: int) -> Path:
    """A tar of class folders whose images have no bytes, header by header."""
    header = bytearray(tar({"n00000000/ILSVRC2012_00000000.JPEG": b""})[:BLOCK])
    with path.open("wb") as file:
        for number in range(images):
            header[1:9] = b"%08d" % (number * 20 // images)
            header[21:29] = b"%08d" % number
            header[148:156] = b" " * 8
            header[148:156] = b"%06o\0 " % sum(header)
            file.write(header)
        file.write(bytes(2 * BLOCK))
    return path


@pytest.mark.parametrize("validation", ["0", "50"])
def test_index_takes_at_most_32_bytes_an_image(validation: str, tmp_path: Path) -> None:
    peaks = {}
    for images in (20_000, 200_000):
        source = write_empty_images(tmp_path / "x.tar", images)
        options = ("--shards", "4", "--validation-per-class", validation)
        arguments = ("--source", source, "--data", tmp_path / str(images), *options)
        peaks[images], output = peak("index", *arguments)
        assert '"classes": 20' in output
    assert (peaks[200_000] - peaks[20_000]) / 180_000 <= 32


def test_pack_takes_the_same_for_ten_times_the_images(tmp_path: Path) -> None:
    peaks = {}
    image = jpeg(0, 100, 100)
    for images in (300, 3_000):
        source = tmp_path / f"{images}.tar"
        source.write_bytes(tar({f"a/{number}.JPEG": image for number in range(images)}))
        data = tmp_path / str(images)
        _, output = peak("index", "--source", source, "--data", data, "--shards", "1")
        key = output.split('"key": "')[1][:32]
        arguments = ("--data", data, "--key", key, "--source", source, "--threads", "2")
        peaks[images], _ = peak("pack", *arguments)
    # Allocators differ by a little from run to run; the images themselves are 20 MiB more.
    assert peaks[3_000] - peaks[300] < 4 * 2**20
