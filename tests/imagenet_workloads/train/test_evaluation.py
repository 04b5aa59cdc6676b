"""evaluation.json and its thumbnails, of records on a disk."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import simplejpeg

from imagenet_spec.evaluation import CERTAIN, Evaluation, from_json
from imagenet_workloads.data.inputs import plain_inputs
from imagenet_workloads.data.worker_data import Data
from imagenet_workloads.records import image_list, recordio
from imagenet_workloads.records.image_list import ListedImage
from imagenet_workloads.records.split import open_paths
from imagenet_workloads.train.evaluation import (
    MOST_THUMBNAIL_BYTES,
    THUMBNAIL_EDGE,
    thumbnail,
    write_evaluation,
)
from imagenet_workloads.train.predictions import ROW, Rows
from support import pictures
from support.framework_doubles import Images
from support.sentences import assert_says
from support.stored_images import stored_image

CLASSES = ("n01440764", "n02102040", "n03394916")


def data(folder: Path, images: Sequence[tuple[int, bytes]], names: bool = True) -> Data:
    record = folder / "validation-00000-of-00001.rec"
    with record.open("wb") as content, record.with_suffix(".idx").open("wb") as index:
        writer = recordio.FORMAT.writer(content, index)
        writer.append(
            stored_image(jpeg, key, label, CLASSES[label])
            for key, (label, jpeg) in enumerate(images)
        )
    if names:
        lines = (
            image_list.to_line(ListedImage(f"{CLASSES[label]}/{key}.JPEG", "0" * 16, 9, 9, label))
            for key, (label, _) in enumerate(images)
        )
        record.with_name(image_list.name_of(record.name)).write_bytes(b"".join(lines))
    return Data(
        Images(),
        None,
        plain_inputs((3, 28, 28)),
        CLASSES,
        len(CLASSES),
        "key",
        {CLASSES[1]: "English springer"},
        validation_records=lambda: open_paths(str(record)),
    )


def rows(*images: tuple[int, int, float, float]) -> Rows:
    scaled = [
        (label, prediction, round(of_label * CERTAIN), round(of_prediction * CERTAIN))
        for label, prediction, of_label, of_prediction in images
    ]
    return np.array(scaled, ROW)


def written(folder: Path) -> Evaluation:
    return from_json((folder / "evaluation.json").read_bytes())


SOME = rows((0, 0, 0.9, 0.9), (0, 1, 0.01, 0.98), (1, 1, 0.8, 0.8), (2, 0, 0.4, 0.5))


def test_images_that_are_shown_have_names_and_thumbnails(tmp_path: Path) -> None:
    given = data(tmp_path, [(label, pictures.jpeg(label, 480, 640)) for label in (0, 0, 1, 2)])
    returned = write_evaluation(tmp_path, SOME, "flowers", 3, given)
    found = written(tmp_path)
    assert (found.job, found.epoch, list(found.classes)) == ("flowers", 3, list(CLASSES))
    assert list(found.words) == ["", "English springer", ""]
    assert returned is not None
    assert list(found.predictions) == returned.predictions == [0, 1, 1, 0]
    assert [one.index for one in found.mistakes] == [1, 3]
    assert [one.index for one in found.suspects] == [1, 3]
    assert [one.index for one in found.samples] == [0, 2]
    assert [one.name for one in found.mistakes] == ["n01440764/1.JPEG", "n03394916/3.JPEG"]
    sizes = set()
    for one in (*found.mistakes, *found.samples):
        assert one.thumbnail is not None
        content = (tmp_path / "thumbnails" / one.thumbnail).read_bytes()
        sizes.add(simplejpeg.decode_jpeg_header(content)[:2])
        original = pictures.jpeg(found.labels[one.index], THUMBNAIL_EDGE * 3 // 4, THUMBNAIL_EDGE)
        likeness = pictures.difference(pictures.decode(content), pictures.decode(original))
        assert likeness < 12
    assert sizes == {(THUMBNAIL_EDGE * 3 // 4, THUMBNAIL_EDGE)}


def test_a_dataset_of_an_older_version_has_no_names(tmp_path: Path) -> None:
    given = data(tmp_path, [(label, pictures.jpeg(label)) for label in (0, 0, 1, 2)], names=False)
    write_evaluation(tmp_path, SOME, "", 1, given)
    shown = written(tmp_path).mistakes
    assert [one.name for one in shown] == [None, None]
    assert None not in [one.thumbnail for one in shown]


def test_records_that_do_not_fit_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    given = data(tmp_path, [(0, pictures.jpeg(0)), (0, b""), (2, b"no image"), (2, b"\xff\xd8")])
    with caplog.at_level(logging.WARNING):
        write_evaluation(tmp_path, SOME, "", 1, given)
    found = written(tmp_path)
    assert [(one.index, one.name, one.thumbnail) for one in found.mistakes] == [
        (1, None, None),
        (3, None, None),
    ]
    assert len(list((tmp_path / "thumbnails").iterdir())) == 1
    assert_says(caplog.text, "image 2 has no thumbnail", "another order")
    assert found.right == 2


def test_records_that_cannot_be_opened_lose_no_model(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    given = data(tmp_path, [])
    gone = replace(given, validation_records=lambda: open_paths(str(tmp_path / "gone.rec")))
    with caplog.at_level(logging.WARNING):
        write_evaluation(tmp_path, SOME, "", 1, gone)
    assert [one.index for one in written(tmp_path).mistakes] == [1, 3]
    assert "evaluation.json has no thumbnails" in caplog.text


def test_a_later_run_replaces_the_thumbnails(tmp_path: Path) -> None:
    given = data(tmp_path, [(label, pictures.jpeg(label)) for label in (0, 0, 1, 2)])
    for predictions in (SOME, rows(*[(label, label, 1, 1) for label in (0, 0, 1, 2)])):
        write_evaluation(tmp_path, predictions, "", 1, given)
        found = written(tmp_path)
        shown = {one.thumbnail for one in (*found.mistakes, *found.samples)}
        assert {path.name for path in (tmp_path / "thumbnails").iterdir()} == shown
    assert found.mistakes == []
    assert write_evaluation(tmp_path, None, "", 1, given) is None
    assert not (tmp_path / "evaluation.json").exists()


def test_60_thumbnails_of_noise_take_less_than_2_mb(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    noise = simplejpeg.encode_jpeg(random.integers(0, 256, (320, 320, 3), np.uint8), quality=95)
    labels = [number % 3 for number in range(200)]
    given = data(tmp_path, [(label, noise) for label in labels], names=False)
    mistaken = [(label, (label + 1) % 3, index / 400, 0.5) for index, label in enumerate(labels)]
    write_evaluation(tmp_path, rows(*mistaken), "", 1, given)
    sizes = [path.stat().st_size for path in (tmp_path / "thumbnails").iterdir()]
    assert 0 < len(sizes) <= 60
    assert max(sizes) * 60 < MOST_THUMBNAIL_BYTES


GPS = b"GPS 52.5200 N 13.4050 E"


@pytest.mark.parametrize("channels", [1, 3])
def test_a_thumbnail_has_pixels_alone(channels: int) -> None:
    photo = pictures.with_exif(pictures.jpeg(1, 300, 100), 1)
    comment = b"\xff\xfe" + (2 + len(GPS)).to_bytes(2, "big") + GPS
    photo = photo[:2] + comment + photo[2:]
    made = thumbnail(photo, channels)
    assert b"Exif" not in made
    assert GPS not in made
    height, width, colours, _ = simplejpeg.decode_jpeg_header(made)
    assert (height, width) == (THUMBNAIL_EDGE, 53)
    assert (colours == "Gray") == (channels == 1)


@pytest.mark.parametrize(("height", "width"), [(8, 8), (1, 1), (1, 2000), (160, 9)])
def test_a_thumbnail_is_never_larger_than_its_image(height: int, width: int) -> None:
    made = thumbnail(pictures.png(pictures.pixels(0, height, width)), 3)
    found = simplejpeg.decode_jpeg_header(made)[:2]
    assert found == (min(height, 160), min(width, 160))
