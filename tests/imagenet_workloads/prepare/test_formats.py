"""A dataset in TFRecord: all that holds of one in RecordIO, and the same images in one order."""

import json
from pathlib import Path

import pytest

from imagenet_spec.names import FORMATS
from imagenet_workloads.commands import index, pack, seal
from imagenet_workloads.dataset import Shard, read_dataset
from imagenet_workloads.errors import InputError
from imagenet_workloads.records import format_named
from support import tfrecord
from support.codecs import CODECS
from support.pictures import (
    Collection,
    collection,
    decode,
    jpeg,
    pixels,
    png,
    with_exif,
    write_folder,
    write_tar_of_folders,
    write_tar_of_tars,
)
from support.preparation import (
    contents,
    dataset_of,
    examples,
    killed_at,
    prepare,
    records,
    run_index,
    stamps,
    visible,
)
from support.sentences import says

IMAGES: Collection = collection({"n01": 9, "n02": 9})
TF_RECORD = ("--format", "TFRecord")
OPTIONS = ("--shards", "3", "--validation-per-class", "2")


def arguments(*parts: str | Path | int) -> list[str]:
    return [str(part) for part in parts]


def test_each_format_is_known_by_the_name_that_an_option_gives() -> None:
    assert [format_named(name).name for name in FORMATS] == list(FORMATS)
    with pytest.raises(InputError, match=says("no format", "'HDF5'", "RecordIO or TFRecord")):
        format_named("HDF5")


@pytest.mark.parametrize("options", [(), ("--resize", "20")])
def test_both_formats_hold_the_same_images_in_the_same_order(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    source = write_tar_of_tars(tmp_path / "x.tar", IMAGES)
    one = prepare(source, tmp_path / "one", *OPTIONS, *options)
    other = prepare(source, tmp_path / "other", *OPTIONS, *options, *TF_RECORD)
    assert one.name != other.name
    stored = [(record.split, record.label, record.jpeg) for record in records(one)]
    assert stored == [
        (split, int(features["image/class/label"][0]) - 1, features["image/encoded"][0])
        for split, features in examples(other)
    ]
    first, second = (json.loads((path / "dataset.json").read_text()) for path in (one, other))
    assert (first.pop("format"), second.pop("format")) == ("RecordIO", "TFRecord")
    for document in (first, second):
        del document["key"], document["options"]["format"]
        for split in document["splits"].values():
            for shard in split["shards"]:
                for name in ("record", "index", "bytes", "sha256"):
                    shard.pop(name, None)
    assert first == second


@pytest.mark.parametrize("write", [write_folder, write_tar_of_tars, write_tar_of_folders])
def test_every_feature_is_there(write: object, tmp_path: Path) -> None:
    assert callable(write)
    images = {
        "n01": {"plain.JPEG": jpeg(1, 24, 33), "turned.JPEG": with_exif(jpeg(2, 24, 33), 6)},
        "n02é": {"n02105855_2933.JPEG": png(pixels(3, 20, 31))},
    }
    source = write(tmp_path / "source", images)
    dataset = prepare(source, tmp_path / "data", "--shards", "1", *TF_RECORD)
    found = {features["image/filename"][0]: features for _, features in examples(dataset)}
    sizes = {b"plain.JPEG": (24, 33), b"turned.JPEG": (33, 24), b"n02105855_2933.JPEG": (20, 31)}
    assert found.keys() == sizes.keys()
    for name, (height, width) in sizes.items():
        features = found[name]
        jpeg_bytes = features["image/encoded"][0]
        assert isinstance(jpeg_bytes, bytes)
        assert decode(jpeg_bytes).shape == (height, width, 3)
        assert (features["image/height"], features["image/width"]) == ([height], [width])
        class_name = b"n01" if name != b"n02105855_2933.JPEG" else "n02é".encode()
        assert features["image/class/label"] == [1 if class_name == b"n01" else 2]
        assert features["image/class/synset"] == features["image/class/text"] == [class_name]
        assert (features["image/format"], features["image/colorspace"]) == ([b"JPEG"], [b"RGB"])
        assert features["image/channels"] == [3]


@pytest.mark.parametrize("codec", CODECS)
def test_height_and_width_are_those_after_the_resize(codec: str, tmp_path: Path) -> None:
    images = {name: {f"{n}.JPEG": jpeg(n, 60 + n, 90 - n) for n in range(3)} for name in "ab"}
    source = write_folder(tmp_path / "source", images)
    options = ("--shards", "1", "--resize", "31", "--codec", codec)
    dataset = prepare(source, tmp_path / "data", *options, *TF_RECORD)
    for _, features in examples(dataset):
        stored = features["image/encoded"][0]
        assert isinstance(stored, bytes)
        height, width, _ = decode(stored).shape
        assert (features["image/height"], features["image/width"]) == ([height], [width])


def test_the_shards_are_as_dataset_json_says(tmp_path: Path) -> None:
    source = write_tar_of_tars(tmp_path / "x.tar", IMAGES)
    dataset = prepare(source, tmp_path / "data", *OPTIONS, *TF_RECORD)
    sealed = read_dataset(dataset)
    assert sealed.format == "TFRecord"
    assert [shard.record for shard in sealed.train.shards] == [
        f"train-{number:05}-of-00003.tfrecord" for number in range(3)
    ]
    for shard in (*sealed.train.shards, *sealed.validation.shards):
        check_shard(dataset, shard)


def check_shard(dataset: Path, shard: Shard) -> None:
    content = (dataset / shard.record).read_bytes()
    assert shard.index == f"{Path(shard.record).stem}.idx"
    assert shard.bytes == len(content)
    assert shard.records == len(list(tfrecord.records(content)))
    lines = (dataset / shard.index).read_text().splitlines()
    offsets = [int(line.split("\t")[1]) for line in lines]
    ends = [*offsets[1:], len(content)]
    for begin, end in zip(offsets, ends, strict=True):
        assert len(list(tfrecord.records(content[begin:end]))) == 1
    assert len(offsets) == shard.records


def test_the_bytes_do_not_depend_on_threads_or_on_the_order_of_shards(tmp_path: Path) -> None:
    source = write_tar_of_tars(tmp_path / "x.tar", IMAGES)
    options = (*OPTIONS, "--resize", "20", *TF_RECORD)
    one = prepare(source, tmp_path / "one", *options, threads=1)
    key = run_index(source, tmp_path / "other", *options)["key"]
    common = arguments("--data", tmp_path / "other", "--key", key)
    for shard, threads in ((3, 5), (1, 2), (0, 8), (2, 1)):
        more = arguments("--source", source, "--shard", shard, "--threads", threads)
        assert pack.main([*common, *more]) == 0
    assert seal.main(common) == 0
    assert contents(one) == contents(dataset_of(tmp_path / "other", key))


def test_a_sealed_dataset_is_reused_by_its_own_format_only(tmp_path: Path) -> None:
    source, data = write_tar_of_tars(tmp_path / "x.tar", IMAGES), tmp_path / "data"
    sealed = prepare(source, data, *OPTIONS, *TF_RECORD)
    before = stamps(sealed)
    assert run_index(source, data, *OPTIONS, *TF_RECORD)["sealed"] is True
    assert run_index(source, data, *OPTIONS)["sealed"] is False
    assert stamps(sealed) == before


@pytest.mark.parametrize("name", ["tfrecord", "RecordIO,TFRecord", ""])
def test_other_names_of_formats_are_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        index.main(arguments("--source", tmp_path, "--data", tmp_path, "--format", name))
    assert ended.value.code == 2
    assert "argument --format: invalid choice" in capsys.readouterr().err


# In the last record: its length, what checks it, its data, what checks that.
@pytest.mark.parametrize(
    ("place", "part"), [("start", "length"), ("start+8", "length"), ("end-9", "data")]
)
def test_seal_sets_a_damaged_shard_aside(
    place: str, part: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source, data = write_tar_of_tars(tmp_path / "x.tar", IMAGES), tmp_path / "data"
    key = run_index(source, data, *OPTIONS, *TF_RECORD)["key"]
    common = arguments("--data", data, "--key", key)
    packing = [*common, "--source", str(source)]
    assert pack.main(packing) == 0
    path = dataset_of(data, key) / "train-00001-of-00003.tfrecord"
    content = bytearray(path.read_bytes())
    last = len(content) - len(list(tfrecord.records(bytes(content)))[-1]) - 16
    content[{"start": last, "start+8": last + 8, "end-9": len(content) - 9}[place]] ^= 1
    path.write_bytes(content)
    assert seal.main(common) == 3
    assert f"the checksum of a record's {part} is wrong" in capfd.readouterr().err
    assert seal.main(common) == 3
    assert "1 of 4 shards are not complete: train-00001-of-00003" in capfd.readouterr().err
    assert pack.main(packing) == 0
    assert seal.main(common) == 0


@pytest.mark.costly
def test_a_kill_while_packing_leaves_only_whole_files(tmp_path: Path) -> None:
    source, data = write_tar_of_tars(tmp_path / "x.tar", IMAGES), tmp_path / "data"
    options = ("--shards", "1", *TF_RECORD)
    expected = contents(prepare(source, tmp_path / "expected", *options))
    key = run_index(source, data, *options)["key"]
    dataset, common = dataset_of(data, key), ("--data", data, "--key", key)
    n = 1
    while killed_at(n, "pack", *common, "--source", source):
        for name, content in visible(dataset).items():
            assert content == expected[name], f"killed at {n}: {name} is not whole"
        n += 1
    assert n > 8
    assert seal.main(arguments(*common)) == 0
    assert contents(dataset) == expected
