"""The codecs by name, and what `planes` does at its edges."""

import ctypes
import gc
import json
import mmap
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest
import simplejpeg

from imagenet_workloads.dataset import read_dataset
from imagenet_workloads.errors import InputError, WorkloadError
from imagenet_workloads.prepare import codecs
from imagenet_workloads.prepare.codecs.codec import Recipe, reduction, sample_step
from imagenet_workloads.prepare.codecs.turbojpeg import (
    LibraryMissingError,
    Planes,
    TurboJpeg,
    load,
)
from imagenet_workloads.prepare.transcode import transcode
from support.codecs import hide_libturbojpeg, needs_libturbojpeg
from support.pictures import Pixels, decode, difference, jpeg, pixels, write_folder
from support.preparation import finish, start


def test_an_unknown_codec_is_an_error() -> None:
    assert codecs.choose("opencv").name == "opencv"
    with pytest.raises(InputError, match="no codec called 'pillow'"):
        codecs.choose("pillow")


def test_without_libturbojpeg_opencv_serves_and_one_line_names_the_package(tmp_path: Path) -> None:
    images = {name: {"1.JPEG": jpeg(1, 40, 50)} for name in "ab"}
    source = write_folder(tmp_path / "source", images)
    hidden = hide_libturbojpeg(tmp_path / "libraries")
    data = ("--data", tmp_path / "data")
    options = (*data, "--shards", "1", "--resize", "20")
    code, result, log = finish(start("index", "--source", source, *options, variables=[hidden]))
    assert code == 0, log
    assert [line for line in log.splitlines() if "libturbojpeg0" in line] == [
        "the codec is opencv, because libturbojpeg is missing; with the Debian package "
        "libturbojpeg0, planes would be faster for 2 sampled images (2 4:2:0; median 50x40), "
        "resized to 20"
    ]
    common = (*data, "--key", json.loads(result)["key"])
    for program, more in (("pack", ("--source", source)), ("seal", ())):
        code, _, log = finish(start(program, *common, *more, variables=[hidden]))
        assert (code, "libturbojpeg0" in log) == (0, False), log
    (dataset,) = (tmp_path / "data/datasets").iterdir()
    assert read_dataset(dataset).writer.codec == "opencv"


def test_without_libturbojpeg_the_planes_codec_is_an_error(tmp_path: Path) -> None:
    source = write_folder(tmp_path / "source", {"a": {"1.JPEG": jpeg(1, 40, 50)}})
    options = ("--data", tmp_path / "data", "--shards", "1", "--codec", "planes")
    hidden = hide_libturbojpeg(tmp_path / "libraries")
    code, _, log = finish(start("index", "--source", source, *options, variables=[hidden]))
    assert code == WorkloadError.exit_code
    assert "imagenet-index: error: the planes codec needs libturbojpeg: " in log
    assert log.endswith("install the package libturbojpeg0, or choose the opencv codec\n")


@pytest.mark.parametrize("name", ["libnothing.so.0", "libc.so.6"])
def test_a_library_that_is_missing_or_another_is_told(name: str) -> None:
    with pytest.raises(LibraryMissingError):
        load(name)


@pytest.mark.parametrize(
    ("height", "width", "target", "factor"),
    [
        (375, 500, (480, 640), 1), (375, 500, (256, 341), 1), (512, 512, (256, 256), 2),
        (511, 511, (256, 256), 2), (510, 510, (256, 256), 1), (4000, 3000, (341, 256), 8),
        (4000, 3000, (640, 480), 4),
    ],
)  # fmt: skip
def test_shrinks_while_decoding_by_powers_of_two(
    height: int, width: int, target: tuple[int, int], factor: int
) -> None:
    assert reduction(height, width, target) == factor


def test_a_sample_is_whole_for_small_images_and_small_for_large_ones() -> None:
    assert [sample_step(edge, 1000) for edge in (1, 16, 31, 32, 480)] == [1, 1, 1, 2, 30]


def guarded(size: int) -> Pixels:
    """Memory whose last byte is the last that may be touched."""
    pages = -(-size // mmap.PAGESIZE)
    memory = np.frombuffer(mmap.mmap(-1, (pages + 1) * mmap.PAGESIZE), np.uint8)
    end = pages * mmap.PAGESIZE
    address = ctypes.c_void_p(memory.ctypes.data + end)
    assert ctypes.CDLL(None).mprotect(address, mmap.PAGESIZE, 0) == 0
    return memory[end - size : end]


@needs_libturbojpeg
@pytest.mark.parametrize(
    ("height", "width"), [(480, 640), (480, 637), (653, 480), (37, 49), (1, 1)]
)
def test_reads_and_writes_nothing_beyond_the_planes(height: int, width: int) -> None:
    turbo, planes = TurboJpeg(load()), Planes(guarded)
    half = (-(-height // 2), -(-width // 2))
    arrays = planes.lay_out((2 * half[0], 2 * half[1]), half)
    for plane, value in zip(arrays, (90, 120, 140), strict=True):
        plane[:] = value
    image = turbo.compress(planes, height, width, 90)
    assert simplejpeg.decode_jpeg_header(image) == (height, width, "YCbCr", "420")
    for plane in arrays:
        plane[:] = 0
    assert turbo.decompress(image, height, width, planes)
    assert [int(plane.mean().round()) for plane in arrays] == [90, 120, 140]
    assert not turbo.decompress(image[:-20], height, width, planes)
    assert turbo.decompress(image, height, width, planes)


@needs_libturbojpeg
def test_the_bytes_do_not_depend_on_threads_or_on_what_came_before() -> None:
    codec = codecs.choose("planes")
    images = [jpeg(seed, 61 + seed, 83 - seed) for seed in range(12)]
    recipe = Recipe(45, 90)
    expected = [transcode(image, recipe, codec).jpeg for image in images]
    found: dict[int, list[bytes]] = {}

    def work(number: int) -> None:
        found[number] = [transcode(image, recipe, codec).jpeg for image in images]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(found.values()) == [expected] * 4


@needs_libturbojpeg
def test_the_handles_of_a_thread_are_freed_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    freed: list[int] = []
    real = weakref.finalize
    monkeypatch.setattr(
        weakref, "finalize", lambda owner, _, address: real(owner, freed.append, address)
    )
    codec = codecs.choose("planes")
    thread = threading.Thread(target=transcode, args=(jpeg(0), Recipe(30, 90), codec))
    thread.start()
    thread.join()
    gc.collect()
    assert len(freed) == 2


@needs_libturbojpeg
def test_an_image_at_its_size_already_is_only_encoded() -> None:
    image = jpeg(1, 48, 64)
    packed = transcode(image, Recipe(48, 95), codecs.choose("planes"))
    assert difference(decode(packed.jpeg), pixels(1, 48, 64)) < 3
