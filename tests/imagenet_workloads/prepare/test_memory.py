"""Peak memory of real processes at 1x and 10x the images."""

import struct
from pathlib import Path

import pytest

from imagenet_workloads.prepare.containers.tar import BLOCK
from support.pictures import jpeg, tar
from support.preparation import finish, start

# The peak of the process, printed at its end; wait4's figure includes the test's process.
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


def write_zip_of_empty_images(path: Path, images: int) -> Path:
    """The same as a zip, in a tree whose training folder is found by its names."""
    entries = bytearray()
    with path.open("wb") as file:
        for number in range(images):
            name = b"train/n%08d/%08d.JPEG" % (number * 20 // images, number)
            if number == images - 1:
                name = b"test/1.JPEG"
            common = struct.pack("<HHHHIII", 0, 0, 0, 0x21, 0, 0, 0)
            sizes = struct.pack("<HH", len(name), 0)
            entries += b"PK\1\2\x14\3\x14\0" + common + sizes
            entries += struct.pack("<HHHII", 0, 0, 0, 0, file.tell()) + name
            file.write(b"PK\3\4\x14\0" + common + sizes + name)
        start = file.tell()
        file.write(entries)
        record, size = file.tell(), len(entries)
        file.write(
            b"PK\6\6" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, images, images, size, start)
        )
        file.write(b"PK\6\7" + struct.pack("<IQI", 0, record, 1))
        file.write(b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, *[0xFFFF] * 2, *[2**32 - 1] * 2, 0))
    return path


WRITERS = {"tar": write_empty_images, "zip": write_zip_of_empty_images}


@pytest.mark.costly
@pytest.mark.parametrize(("archive", "validation"), [("tar", "0"), ("tar", "50"), ("zip", "50")])
def test_index_takes_at_most_32_bytes_an_image(
    archive: str, validation: str, tmp_path: Path
) -> None:
    peaks = {}
    for images in (20_000, 200_000):
        source = WRITERS[archive](tmp_path / f"x.{archive}", images)
        within = ("--path-in-archive", "train") if archive == "zip" else ()
        options = ("--shards", "4", "--validation-per-class", validation)
        arguments = ("--source", source, "--data", tmp_path / str(images), *options, *within)
        peaks[images], output = peak("index", *arguments)
        assert '"classes": 20' in output
    assert (peaks[200_000] - peaks[20_000]) / 180_000 <= 32


@pytest.mark.costly
def test_pack_takes_the_same_for_ten_times_the_images(tmp_path: Path) -> None:
    peaks = {}
    image = jpeg(0, 100, 100)
    for images in (300, 3_000):
        source = tmp_path / f"{images}.tar"
        source.write_bytes(tar({f"{number % 2}/{number}.JPEG": image for number in range(images)}))
        data = tmp_path / str(images)
        _, output = peak("index", "--source", source, "--data", data, "--shards", "1")
        key = output.split('"key": "')[1][:32]
        arguments = ("--data", data, "--key", key, "--source", source, "--threads", "2")
        peaks[images], _ = peak("pack", *arguments)
    # Allocators differ by a little from run to run; the images themselves are 20 MiB more.
    assert peaks[3_000] - peaks[300] < 4 * 2**20
