"""HEIC images: decoded upright by pillow-heif, or named before the preparation begins."""

import io
import sys
from pathlib import Path

import cv2
import numpy as np
import pillow_heif
import pytest
from PIL import Image

from imagenet_workloads.dataset import read_dataset
from imagenet_workloads.errors import InputError
from imagenet_workloads.prediction import decode_image
from imagenet_workloads.prepare import heif
from imagenet_workloads.prepare.codecs.codec import Recipe
from imagenet_workloads.prepare.codecs.opencv import OpenCvCodec
from imagenet_workloads.prepare.damaged_image import DamagedImageError
from imagenet_workloads.prepare.transcode import transcode
from support.image_trees import write_folder
from support.pictures import Pixels, decode, difference, jpeg, pixels, tiff
from support.preparation import prepare, refused

PICTURE = pixels(1)


def heic(picture: Pixels, mode: str = "RGB", orientation: int = 1) -> bytes:
    """An image as a telephone writes it: the container turns it, and its EXIF says so again."""
    image = Image.fromarray(picture).convert(mode)
    exif = {} if orientation == 1 else {"exif": b"Exif\0\0" + tiff(orientation, "<")}
    target = io.BytesIO()
    pillow_heif.from_pillow(image).save(target, quality=95, **exif)
    return target.getvalue()


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_an_image_becomes_an_rgb_jpeg(mode: str) -> None:
    packed = transcode(heic(PICTURE, mode), Recipe(None, 95), OpenCvCodec())
    assert (packed.height, packed.width) == PICTURE.shape[:2]
    assert difference(decode(packed.jpeg), PICTURE) < 6


@pytest.mark.parametrize(
    ("orientation", "turn"),
    [(3, cv2.ROTATE_180), (6, cv2.ROTATE_90_CLOCKWISE), (8, cv2.ROTATE_90_COUNTERCLOCKWISE)],
)
def test_an_orientation_is_applied_once(orientation: int, turn: int) -> None:
    content = heic(PICTURE, orientation=orientation)
    assert b"irot" in content
    packed = transcode(content, Recipe(None, 95), OpenCvCodec())
    expected = np.asarray(cv2.rotate(PICTURE, turn), np.uint8)
    assert difference(decode(packed.jpeg), expected) < 6
    assert difference(decode_image(content, "x", 3), expected) < 6
    grey = decode_image(content, "x", 1)
    assert grey.shape == (*expected.shape[:2], 1)


@pytest.mark.parametrize("left", [0.02, 0.5, 0.99])
def test_a_truncated_image_is_damaged(left: float) -> None:
    content = heic(PICTURE)
    with pytest.raises(DamagedImageError, match="libheif cannot read it"):
        transcode(content[: int(len(content) * left)], Recipe(None, 95), OpenCvCodec())
    with pytest.raises(InputError, match="x: libheif cannot read it"):
        decode_image(content[: int(len(content) * left)], "x", 3)


def test_an_image_that_claims_too_many_pixels_is_not_decoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(heif, "MOST_PIXELS", PICTURE.shape[0] * PICTURE.shape[1] - 1)
    with pytest.raises(DamagedImageError, match="claims 64x48 pixels; at most"):
        heif.decode(heic(PICTURE))


def test_images_of_a_telephone_are_a_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    files = {"a/IMG_1.HEIC": heic(PICTURE), "a/2.jpg": jpeg(2), "b/3.heif": heic(pixels(3))}
    source = write_folder(tmp_path / "source", files)
    sealed = read_dataset(prepare(source, tmp_path / "data", "--shards", "1"))
    assert sealed.train.per_class == (2, 1)
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    said = refused(capfd, "--source", source, "--data", tmp_path / "none", "--shards", "1")
    assert f"{source}: a/IMG_1.HEIC is a HEIC image, and pillow-heif is missing" in said
    assert "pip install pillow-heif, or convert such images to JPEG" in said
    with pytest.raises(DamagedImageError, match="pillow-heif is missing; pip install"):
        heif.decode(files["b/3.heif"])
