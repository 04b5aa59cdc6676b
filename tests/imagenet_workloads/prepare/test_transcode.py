"""What becomes of every kind of image, by both codecs."""

import io
import sys
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pillow_heif
import pytest
import simplejpeg
from PIL import Image

from imagenet_workloads.dataset import read_dataset
from imagenet_workloads.errors import InputError
from imagenet_workloads.prediction import decode_image
from imagenet_workloads.prepare import transcode as module
from imagenet_workloads.prepare.codecs import choose
from imagenet_workloads.prepare.codecs.codec import Codec, Recipe
from imagenet_workloads.prepare.codecs.opencv import OpenCvCodec
from imagenet_workloads.prepare.stores.blob import DamagedImageError
from imagenet_workloads.prepare.transcode import decode_heif, transcode
from support.codecs import CODECS, needs_libturbojpeg
from support.image_trees import write_folder
from support.pictures import Pixels, decode, difference, jpeg, pixels, png, tiff, webp, with_exif
from support.preparation import prepare, refused
from support.sentences import assert_says, says

AS_IT_IS = Recipe(resize=None, quality=90)

# How OpenCV's own transformations make each orientation out of upright pixels.
STORED: dict[int, Callable[[Pixels], Pixels]] = {
    1: lambda image: image,
    2: lambda image: image[:, ::-1],
    3: lambda image: image[::-1, ::-1],
    4: lambda image: image[::-1],
    5: lambda image: image.transpose(1, 0, 2),
    6: lambda image: np.rot90(image, 1),
    7: lambda image: image[::-1, ::-1].transpose(1, 0, 2),
    8: lambda image: np.rot90(image, -1),
}


@pytest.fixture(params=CODECS)
def codec(request: pytest.FixtureRequest) -> Codec:
    return choose(request.param)


def encode(image: Pixels, subsampling: str = "444") -> bytes:
    encoded: bytes = simplejpeg.encode_jpeg(
        np.ascontiguousarray(image), quality=98, colorsubsampling=subsampling
    )
    return encoded


def progressive(image: Pixels) -> bytes:
    flags = [cv2.IMWRITE_JPEG_PROGRESSIVE, 1, cv2.IMWRITE_JPEG_QUALITY, 95]
    return cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), flags)[1].tobytes()


def is_rgb_jpeg(image: bytes) -> bool:
    return bool(simplejpeg.decode_jpeg_header(image)[2] == "YCbCr")


@pytest.mark.parametrize(
    "image", [jpeg(0), jpeg(0, 1, 1), jpeg(1, 33, 47, "444"), progressive(pixels(2))]
)
def test_an_rgb_jpeg_passes_through_untouched(image: bytes, codec: Codec) -> None:
    packed = transcode(image, AS_IT_IS, codec)
    assert packed.jpeg == image
    assert packed.sample.shape[2] == 3


@pytest.mark.parametrize(
    "image",
    [
        png(pixels(1)),
        png(pixels(1), "RGBA"),
        cv2.imencode(".bmp", cv2.cvtColor(pixels(1), cv2.COLOR_RGB2BGR))[1].tobytes(),
        cv2.imencode(".webp", cv2.cvtColor(pixels(1), cv2.COLOR_RGB2BGR))[1].tobytes(),
        cv2.imencode(".tiff", cv2.cvtColor(pixels(1), cv2.COLOR_RGB2BGR))[1].tobytes(),
    ],
)  # fmt: skip
def test_other_formats_become_rgb_jpegs(image: bytes, codec: Codec) -> None:
    packed = transcode(image, AS_IT_IS, codec)
    assert is_rgb_jpeg(packed.jpeg)
    assert difference(decode(packed.jpeg), pixels(1)) < 4


def test_a_png_of_16_bits_becomes_one_of_8(codec: Codec) -> None:
    deep = cv2.cvtColor(pixels(1), cv2.COLOR_RGB2BGR).astype(np.uint16) * 257
    packed = transcode(cv2.imencode(".png", deep)[1].tobytes(), AS_IT_IS, codec)
    assert difference(decode(packed.jpeg), pixels(1)) < 4


def test_grey_becomes_rgb(codec: Codec) -> None:
    grey = cv2.cvtColor(pixels(1), cv2.COLOR_RGB2GRAY)
    expected = np.repeat(grey[:, :, None], 3, axis=2).astype(np.uint8)
    stored: bytes = simplejpeg.encode_jpeg(
        grey[:, :, None], quality=98, colorspace="GRAY", colorsubsampling="Gray"
    )
    for image in (stored, png(pixels(1), "GRAY")):
        packed = transcode(image, AS_IT_IS, codec)
        assert is_rgb_jpeg(packed.jpeg)
        assert difference(decode(packed.jpeg), expected) < 4


def test_cmyk_becomes_rgb_as_opencv_reads_it(codec: Codec) -> None:
    rgb = pixels(1)
    black = np.full((*rgb.shape[:2], 1), 200, np.uint8)
    stored: bytes = simplejpeg.encode_jpeg(
        np.concatenate([rgb, black], axis=2), quality=98, colorspace="CMYK", colorsubsampling="444"
    )
    assert simplejpeg.decode_jpeg_header(stored)[2] in ("CMYK", "YCCK")
    packed = transcode(stored, AS_IT_IS, codec)
    assert is_rgb_jpeg(packed.jpeg)
    expected = (rgb.astype(np.float64) * 200 / 255).round().astype(np.uint8)
    assert difference(decode(packed.jpeg), expected) < 5
    assert difference(decode(packed.jpeg), decode(stored)) < 5


@pytest.mark.parametrize("orientation", range(2, 9))
@pytest.mark.parametrize("resize", [None, 30])
def test_an_orientation_is_applied_and_gone(
    orientation: int, resize: int | None, codec: Codec
) -> None:
    upright = pixels(5, 48, 80)
    image = with_exif(encode(STORED[orientation](upright)), orientation)
    packed = transcode(image, Recipe(resize, 95), codec)
    assert b"Exif" not in packed.jpeg
    expected = upright if resize is None else np.asarray(cv2.resize(upright, (50, 30)), np.uint8)
    assert difference(decode(packed.jpeg), expected) < 4


@pytest.mark.parametrize("orientation", range(2, 9))
def test_the_orientation_of_a_webp_and_one_of_type_long_are_applied(
    orientation: int, codec: Codec
) -> None:
    upright = pixels(5, 48, 80)
    stored = np.ascontiguousarray(STORED[orientation](upright))
    for image in (
        webp(stored, tiff(orientation)),
        with_exif(encode(stored), orientation, ">", long=True),
    ):
        assert difference(decode(transcode(image, Recipe(None, 95), codec).jpeg), upright) < 4


def test_an_upright_orientation_changes_nothing(codec: Codec) -> None:
    image = with_exif(jpeg(0), 1)
    assert transcode(image, AS_IT_IS, codec).jpeg == image


@pytest.mark.parametrize("subsampling", ["444", "422", "420", "440", "411"])
@pytest.mark.parametrize(
    ("height", "width", "resize"),
    [(48, 64, 30), (64, 48, 31), (47, 33, 100), (33, 33, 33), (375, 500, 256), (801, 333, 41),
     (1, 9, 3), (200, 160, 17)],
)  # fmt: skip
def test_the_shorter_edge_gets_its_length_as_by_im2rec(
    height: int, width: int, resize: int, subsampling: str, codec: Codec
) -> None:
    original = pixels(7, height, width)
    packed = transcode(encode(original, subsampling), Recipe(resize, 95), codec)
    size = (
        (resize, height * resize // width) if height > width else (width * resize // height, resize)
    )
    found = decode(packed.jpeg)
    assert found.shape[:2] == (size[1], size[0])
    assert is_rgb_jpeg(packed.jpeg)
    expected = np.asarray(cv2.resize(original, size, interpolation=cv2.INTER_AREA), np.uint8)
    # The smallest are all edges, and their colours are stored at half or a quarter.
    assert difference(found, expected) < (30 if min(found.shape[:2]) < 30 else 10)


@needs_libturbojpeg
def test_the_codecs_agree_on_pixels_and_on_the_sample() -> None:
    image = encode(pixels(3, 300, 401), "420")
    one, other = (transcode(image, Recipe(200, 95), choose(name)) for name in ("opencv", "planes"))
    assert difference(decode(one.jpeg), decode(other.jpeg)) < 1.5
    assert np.allclose(one.sample.mean((0, 1)), other.sample.mean((0, 1)), atol=2)


def test_quality_is_what_is_asked_for(codec: Codec) -> None:
    image = encode(pixels(3, 200, 200))
    sizes = [len(transcode(image, Recipe(150, quality), codec).jpeg) for quality in (30, 60, 95)]
    assert sizes == sorted(sizes)
    table = simplejpeg.encode_jpeg(pixels(0), quality=60, colorsubsampling="420")
    start = table.index(b"\xff\xdb")
    assert table[start : start + 69] in transcode(image, Recipe(150, 60), codec).jpeg


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        (b"", "is empty"),
        (b"\xff\xd8\xff", "."),
        (b"rubbish" * 50, "is no image"),
        (jpeg(0)[:-200], "Premature end"),
        (jpeg(0)[:40], "."),
        (jpeg(0)[:-100] + b"\xff\xd9", "premature end"),
        (png(pixels(0))[:-1], "the PNG is truncated"),
        (png(pixels(0)).replace(b"IDAT", b"IDAX"), "wrong checksum"),
        (b"GIF89a" + bytes(50), "is no image"),
    ],
)
@pytest.mark.parametrize("recipe", [AS_IT_IS, Recipe(24, 90)])
def test_a_damaged_image_is_refused_with_a_reason(
    image: bytes, reason: str, recipe: Recipe, codec: Codec
) -> None:
    with pytest.raises(DamagedImageError, match=reason):
        transcode(image, recipe, codec)


def of_revision(image: bytes, major: int, minor: int) -> bytes:
    version = image.index(b"JFIF\0") + 5
    return image[:version] + bytes((major, minor)) + image[version + 2 :]


def with_bytes_before(image: bytes, marker: bytes, more: bytes) -> bytes:
    place = image.index(marker)
    return image[:place] + more + image[place:]


SOUND = jpeg(4, 64, 80)
TABLES, FRAME, SCAN = b"\xff\xdb", b"\xff\xc0", b"\xff\xda"


@pytest.mark.parametrize("recipe", [AS_IT_IS, Recipe(32, 90)])
@pytest.mark.parametrize(
    "image",
    [
        of_revision(SOUND, 0, 0),
        of_revision(SOUND, 2, 1),
        with_bytes_before(SOUND, TABLES, b"\0\0\0"),
        with_bytes_before(SOUND, FRAME, b"xmp"),
        with_bytes_before(of_revision(SOUND, 0, 0), SCAN, b"\x12" * 40),
        with_bytes_before(with_bytes_before(SOUND, TABLES, b"a"), FRAME, b"bc"),
    ],
)
def test_two_warnings_of_libjpeg_are_harmless(image: bytes, recipe: Recipe, codec: Codec) -> None:
    packed, sound = transcode(image, recipe, codec), transcode(SOUND, recipe, codec)
    assert (decode(packed.jpeg) == decode(sound.jpeg)).all()
    simplejpeg.decode_jpeg(packed.jpeg)  # without a warning, so training reads it


def test_an_orientation_behind_bytes_too_many_is_applied(codec: Codec) -> None:
    segment = with_exif(SOUND, 6)[2 : 2 - len(SOUND)]
    image = with_bytes_before(SOUND, TABLES, b"\0\0" + segment)
    assert transcode(image, AS_IT_IS, codec)[1:3] == (80, 64)


@pytest.mark.parametrize(
    "image",
    [
        of_revision(SOUND[:-300], 0, 0),
        with_bytes_before(SOUND, TABLES, b"\0\0")[:-300],
        of_revision(SOUND[: len(SOUND) // 2] + b"\xff\xd9" * 4 + SOUND[-300:], 0, 0),
        with_bytes_before(SOUND, TABLES, b"\0" * 3)[:40],
        of_revision(SOUND, 0, 0)[:25],
    ],
)
def test_a_harmless_warning_hides_no_damage(image: bytes, codec: Codec) -> None:
    for recipe in (AS_IT_IS, Recipe(32, 90)):
        with pytest.raises(DamagedImageError):
            transcode(image, recipe, codec)


def test_damage_in_the_middle_is_refused(codec: Codec) -> None:
    image = bytearray(encode(pixels(1, 200, 200)))
    middle = len(image) // 2
    image[middle : middle + 40] = b"\xff\xd0" * 20
    for recipe in (AS_IT_IS, Recipe(50, 90)):
        with pytest.raises(DamagedImageError):
            transcode(bytes(image), recipe, codec)


def test_a_header_that_claims_too_many_pixels_is_refused(codec: Codec) -> None:
    image = bytearray(jpeg(0))
    start = image.index(b"\xff\xc0")
    image[start + 5 : start + 9] = b"\xff\x00\xff\x00"
    with pytest.raises(DamagedImageError, match="claims 65280x65280 pixels"):
        transcode(bytes(image), AS_IT_IS, codec)


def test_an_image_that_would_get_too_long_is_refused(codec: Codec) -> None:
    with pytest.raises(DamagedImageError, match="2x1000 pixels would become 480x240000"):
        transcode(encode(pixels(0, 1000, 2)), Recipe(480, 90), codec)


def test_an_image_that_no_record_holds_is_refused(
    codec: Codec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LARGEST_JPEG", 500)
    with pytest.raises(DamagedImageError, match="do not fit into a record"):
        transcode(jpeg(0), AS_IT_IS, codec)


def test_too_little_memory_is_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the image would be skipped."""

    def lacks_memory(*_: object) -> None:
        # More than the addresses of a process.
        cv2.resize(np.zeros((1, 1), np.uint8), (1 << 20, 1 << 30))

    image = png(pixels(40, 30))
    monkeypatch.setattr(cv2, "imdecode", lacks_memory)
    with pytest.raises(MemoryError, match="Failed to allocate"):
        transcode(image, AS_IT_IS, choose("opencv"))


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
    monkeypatch.setattr(
        "imagenet_workloads.prepare.transcode.MOST_PIXELS", PICTURE.shape[0] * PICTURE.shape[1] - 1
    )
    with pytest.raises(DamagedImageError, match="claims 64x48 pixels; at most"):
        decode_heif(heic(PICTURE))


def test_images_of_a_telephone_are_a_dataset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    files = {"a/IMG_1.HEIC": heic(PICTURE), "a/2.jpg": jpeg(2), "b/3.heif": heic(pixels(3))}
    source = write_folder(tmp_path / "source", files)
    sealed = read_dataset(prepare(source, tmp_path / "data", "--shards", "1"))
    assert sealed.train.per_class == (2, 1)
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    said = refused(capfd, "--source", source, "--data", tmp_path / "none", "--shards", "1")
    assert_says(said, f"{source}: a/IMG_1.HEIC", "a HEIC image", "pillow-heif is missing")
    assert_says(said, "pip install pillow-heif", "convert such images to JPEG")
    with pytest.raises(DamagedImageError, match=says("pillow-heif is missing", "pip install")):
        decode_heif(files["b/3.heif"])
