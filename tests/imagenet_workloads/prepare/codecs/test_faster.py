"""Which codec `auto` takes for a source, and that it keeps to one."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from imagenet_workloads.dataset import read_dataset
from imagenet_workloads.prepare.codecs.codec import Jpeg
from imagenet_workloads.prepare.codecs.faster import choose_faster
from support.codecs import hide_libturbojpeg, needs_libturbojpeg
from support.pictures import Collection, jpeg, pixels, png, write_folder
from support.preparation import finish, prepare, run_index, stamps, start, verify


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


def test_the_reason_names_the_sample() -> None:
    sample = [FULL, FULL, FULL, HALF, None]
    assert choose_faster(sample, 256, has_planes=True).said == (
        "opencv, the faster codec for 5 sampled images (3 4:4:4, 1 4:2:0, 1 others; "
        "median 500x375), resized to 256"
    )
    assert choose_faster([None, None], 256, has_planes=True).said == (
        "opencv: planes would convert none of 2 sampled images"
    )
    assert choose_faster([HALF], 256, has_planes=False).said == (
        "opencv, because libturbojpeg is missing; with the Debian package libturbojpeg0, planes "
        "would be faster for 1 sampled image (1 4:2:0; median 500x375), resized to 256"
    )


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
