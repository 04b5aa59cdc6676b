"""The codecs by name, and what `planes` does at its edges."""

import ctypes
import gc
import json
import logging
import mmap
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simplejpeg

from imagenet_workloads.dataset import read_dataset
from imagenet_workloads.errors import InputError, WorkloadError
from imagenet_workloads.prepare import codecs
from imagenet_workloads.prepare.codecs import choose_faster
from imagenet_workloads.prepare.codecs.codec import Jpeg, Recipe, reduction, sample_step
from imagenet_workloads.prepare.codecs.planes import LibraryMissingError, Planes, TurboJpeg, load
from imagenet_workloads.prepare.transcode import transcode
from support.codecs import hide_libturbojpeg, needs_libturbojpeg
from support.pictures import Collection, Pixels, decode, difference, jpeg, pixels, png, write_folder
from support.preparation import finish, prepare, run_index, stamps, start, verify
from support.sentences import assert_says


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
    (line,) = [line for line in log.splitlines() if "libturbojpeg0" in line]
    assert_says(line, "opencv", "libturbojpeg is missing", "libturbojpeg0", "planes", "faster")
    assert_says(line, "2 sampled images", "2 4:2:0", "median 50x40", "resized to 20")
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
    assert_says(log, "imagenet-index: error", "planes codec needs libturbojpeg", "install")
    assert_says(log.splitlines()[-1], "libturbojpeg0", "or", "opencv codec")


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


def header(subsampling: str, height: int = 375, width: int = 500, **more: Any) -> Jpeg:
    return Jpeg(b"", height, width, "YCbCr", subsampling, 1)._replace(**more)


FULL, HALF = header("444"), header("420")
LARGE, SMALL = header("444", 3000, 4000), header("444", 150, 200)


@pytest.mark.parametrize(
    ("headers", "resize", "codec"),
    [
        ([HALF], 96, "planes"), ([HALF], 256, "planes"), ([HALF], 480, "planes"),
        # The 375 rows of colours are averaged to 187 rows and fewer, but not to 188.
        ([FULL], 96, "opencv"), ([FULL], 256, "opencv"), ([FULL], 374, "opencv"),
        ([FULL], 375, "planes"), ([FULL], 384, "planes"), ([FULL], 480, "planes"),
        ([header("422")], 256, "planes"), ([header("440")], 256, "planes"),
        # ILSVRC's files: 76 % are 4:4:4.
        ([FULL] * 24 + [HALF] * 8, 256, "opencv"), ([FULL] * 24 + [HALF] * 8, 480, "planes"),
        ([FULL] * 8 + [HALF] * 24, 256, "opencv"), ([FULL] + [HALF] * 31, 256, "planes"),
        # libjpeg shrinks a large one by 8 while it decodes, and its colours once more.
        ([LARGE], 256, "opencv"), ([LARGE], 480, "opencv"), ([SMALL], 256, "planes"),
        ([header("420", 3000, 4000)], 256, "planes"),
        # `planes` leaves these to `opencv`.
        ([None], 256, "opencv"), ([header("Gray", colours="Gray")], 256, "opencv"),
        ([header("411")], 256, "opencv"), ([header("420", orientation=6)], 256, "opencv"),
        ([None, None, HALF], 256, "planes"),
        ([header("420", 1, 65000)], 480, "opencv"),
    ],
)  # fmt: skip
def test_the_faster_codec_by_size_and_sampling(
    headers: list[Jpeg | None], resize: int, codec: str
) -> None:
    choice = choose_faster(headers, resize, has_planes=True)
    assert choice.codec == codec
    assert choose_faster(headers[::-1], resize, has_planes=True) == choice
    assert choose_faster(headers, resize, has_planes=False).codec == "opencv"


@pytest.mark.parametrize(
    ("sample", "has_planes", "facts"),
    [
        (
            [FULL, FULL, FULL, HALF, None],
            True,
            ("opencv", "5 sampled", "3 4:4:4, 1 4:2:0, 1 others", "500x375", "256"),
        ),
        ([None, None], True, ("opencv", "none of 2 sampled")),
        ([HALF], False, ("opencv", "libturbojpeg0", "planes", "1 sampled image (1 4:2:0;")),
    ],
)
def test_the_reason_names_the_sample(
    sample: list[Jpeg | None], has_planes: bool, facts: tuple[str, ...]
) -> None:
    said = choose_faster(sample, 256, has_planes=has_planes).said
    assert [fact for fact in facts if fact not in said] == []


def images(subsampling: str, count: int = 6) -> Collection:
    """Images that shrink to less by --resize 30."""
    made = {f"{n}.JPEG": jpeg(n, 48, 64, subsampling) for n in range(count // 2)}
    return dict.fromkeys("ab", made)


def index(source: Path, data: Path, *options: str) -> tuple[str, str]:
    """Run index; return the codec of its plan, and what it says of it."""
    result = run_index(source, data, "--shards", "1", "--resize", "30", *options)
    plan = json.loads((data / "datasets" / result["key"] / "plan/plan.json").read_text())
    return plan["writer"]["codec"], result.get("decision", {}).get("codec", "")


@needs_libturbojpeg
@pytest.mark.parametrize(("subsampling", "codec"), [("444", "opencv"), ("420", "planes")])
def test_auto_takes_the_faster_codec_and_a_named_one_wins(
    subsampling: str, codec: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    source = write_folder(tmp_path / "source", images(subsampling))
    said = (
        f"{codec}, the faster codec for 6 sampled images "
        f"(6 {':'.join(subsampling)}; median 64x48), resized to 30"
    )
    for data in ("one", "other"):
        assert index(source, tmp_path / data) == (codec, said)
    assert f"the codec is {said}" in caplog.text
    dataset = prepare(source, tmp_path / "one", "--shards", "1", "--resize", "30")
    assert read_dataset(dataset).writer.codec == codec
    assert read_dataset(dataset).decision["codec"] == said
    assert index(source, tmp_path / "one") == (codec, said)
    for named in ("opencv", "planes"):
        assert index(source, tmp_path / named, "--codec", named) == (named, "")


def test_images_that_are_only_copied_need_no_choice(tmp_path: Path) -> None:
    source = write_folder(tmp_path / "source", images("420"))
    result = run_index(source, tmp_path / "data", "--shards", "1")
    assert "codec" not in result["decision"]
    dataset = prepare(source, tmp_path / "data", "--shards", "1")
    assert read_dataset(dataset).writer.codec == "opencv"


def test_damaged_and_other_images_are_no_obstacle(tmp_path: Path) -> None:
    damaged = {"bad.JPEG": jpeg(1)[:10], "text.JPEG": b"no image"}
    source = write_folder(tmp_path / "source", {"a": damaged, "b": {"1.png": png(pixels(1))}})
    assert index(source, tmp_path / "data") == (
        "opencv",
        "opencv: planes would convert none of 3 sampled images",
    )


@needs_libturbojpeg
@pytest.mark.parametrize("subsampling", ["444", "420"])
@pytest.mark.parametrize("codec", ["opencv", "planes"])
def test_a_dataset_of_the_other_codec_is_used_as_it_is(
    subsampling: str, codec: str, tmp_path: Path
) -> None:
    source, data = write_folder(tmp_path / "source", images(subsampling)), tmp_path / "data"
    options = ("--shards", "1", "--resize", "30")
    dataset = prepare(source, data, *options, "--codec", codec)
    before = stamps(dataset)
    result = run_index(source, data, *options)
    assert (result["key"], result["sealed"]) == (dataset.name, True)
    said = f"{codec}, with which the dataset is sealed already"
    assert result["decision"]["codec"] == said
    assert stamps(dataset) == before
    assert list(dataset.parent.iterdir()) == [dataset]


@needs_libturbojpeg
def test_a_damaged_dataset_of_the_other_codec_is_mended(tmp_path: Path) -> None:
    source, data = write_folder(tmp_path / "source", images("444")), tmp_path / "data"
    options = ("--shards", "2", "--resize", "30")
    dataset = prepare(source, data, *options, "--codec", "planes")
    whole, untouched = (dataset / f"train-0000{n}-of-00002.rec" for n in range(2))
    content, before = whole.read_bytes(), untouched.stat()
    whole.write_bytes(content[:-4])
    assert verify(dataset) == 3
    assert prepare(source, data, *options) == dataset
    assert whole.read_bytes() == content
    assert untouched.stat() == before


@needs_libturbojpeg
def test_a_dataset_that_is_sealed_by_both_codecs_is_the_one_of_the_faster(tmp_path: Path) -> None:
    source, data = write_folder(tmp_path / "source", images("444")), tmp_path / "data"
    options = ("--shards", "1", "--resize", "30")
    for codec in ("planes", "opencv"):
        prepare(source, data, *options, "--codec", codec)
    result = run_index(source, data, *options)
    assert result["sealed"]
    assert result["decision"]["codec"].startswith("opencv, the faster codec for 6 ")


@needs_libturbojpeg
def test_a_begun_preparation_is_gone_on_with_only_where_its_library_is(tmp_path: Path) -> None:
    source, data = write_folder(tmp_path / "source", images("444")), tmp_path / "data"
    assert index(source, data, "--codec", "planes") == ("planes", "")
    said = "planes, with which the preparation of the dataset has begun"
    assert index(source, data) == ("planes", said)
    hidden = hide_libturbojpeg(tmp_path / "libraries")
    options = ("--source", source, "--data", data, "--shards", "1", "--resize", "30")
    code, output, log = finish(start("index", *options, variables=[hidden]))
    assert code == 0, log
    assert json.loads(output)["decision"]["codec"].startswith("opencv, the faster codec for 6 ")


@needs_libturbojpeg
def test_a_sealed_dataset_needs_no_library(tmp_path: Path) -> None:
    source, data = write_folder(tmp_path / "source", images("420")), tmp_path / "data"
    dataset = prepare(source, data, "--shards", "1", "--resize", "30")
    hidden = hide_libturbojpeg(tmp_path / "libraries")
    options = ("--source", source, "--data", data, "--shards", "1", "--resize", "30")
    code, output, log = finish(start("index", *options, variables=[hidden]))
    assert code == 0, log
    assert (json.loads(output)["key"], json.loads(output)["sealed"]) == (dataset.name, True)
