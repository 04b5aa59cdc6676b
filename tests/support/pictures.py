"""Raw images and archives of them for the tests of preprocessing, made from a seed."""

import io
import struct
import tarfile
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import cv2
import numpy as np
import numpy.typing as npt
import simplejpeg

Pixels = npt.NDArray[np.uint8]
# By class, by name: the bytes of the images.
Collection = dict[str, dict[str, bytes]]

TIME = 1_500_000_000


def pixels(seed: int, height: int = 48, width: int = 64) -> Pixels:
    """Smooth random colours, height x width x RGB: they survive JPEG nearly unchanged."""
    few = np.random.default_rng(seed).integers(0, 256, (3, 4, 3), dtype=np.uint8)
    return np.asarray(cv2.resize(few, (width, height), interpolation=cv2.INTER_CUBIC), np.uint8)


def jpeg(seed: int, height: int = 48, width: int = 64, subsampling: str = "420") -> bytes:
    """An RGB JPEG."""
    encoded: bytes = simplejpeg.encode_jpeg(
        pixels(seed, height, width), quality=95, colorsubsampling=subsampling
    )
    return encoded


def png(image: Pixels, channels: Literal["RGB", "RGBA", "GRAY"] = "RGB") -> bytes:
    """A PNG of RGB pixels, with other channels if asked for."""
    conversion = {
        "RGB": cv2.COLOR_RGB2BGR,
        "RGBA": cv2.COLOR_RGB2BGRA,
        "GRAY": cv2.COLOR_RGB2GRAY,
    }[channels]
    return cv2.imencode(".png", cv2.cvtColor(image, conversion))[1].tobytes()


def decode(image: bytes) -> Pixels:
    """Any image's pixels as RGB, by OpenCV, as stored."""
    read = cv2.imdecode(
        np.frombuffer(image, np.uint8), cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
    )
    assert read is not None
    return np.asarray(cv2.cvtColor(read, cv2.COLOR_BGR2RGB), np.uint8)


def difference(one: Pixels, other: Pixels) -> float:
    """The mean absolute difference of two images of one size."""
    assert one.shape == other.shape
    return float(np.mean(np.abs(one.astype(np.int16) - other)))


def collection(classes: Mapping[str, int]) -> Collection:
    """Small JPEGs of these classes, all different."""
    made: Collection = {}
    for number, (name, count) in enumerate(sorted(classes.items())):
        made[name] = {
            f"{name}_{image}.JPEG": jpeg(1000 * number + image, 24, 32) for image in range(count)
        }
    return made


def write_folder(root: Path, images: Collection) -> Path:
    """A folder of class folders."""
    for class_name, members in images.items():
        (root / class_name).mkdir(parents=True, exist_ok=True)
        for name, content in members.items():
            (root / class_name / name).write_bytes(content)
    return root


def tar(members: Mapping[str, bytes], format: int = tarfile.GNU_FORMAT) -> bytes:
    """A tar of files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=format) as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(content), TIME
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def write_tar_of_tars(path: Path, images: Collection) -> Path:
    """A tar that holds one tar a class, as ILSVRC2012_img_train.tar."""
    path.write_bytes(tar({f"{name}.tar": tar(members) for name, members in images.items()}))
    return path


def write_tar_of_folders(path: Path, images: Collection) -> Path:
    """A tar of class folders."""
    path.write_bytes(
        tar(
            {
                f"{class_name}/{name}": content
                for class_name, members in images.items()
                for name, content in members.items()
            }
        )
    )
    return path


def zipped(members: Mapping[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    """A zip of files."""
    buffer = io.BytesIO()
    moment = time.gmtime(TIME)[:6]
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name, moment), content, method)
    return buffer.getvalue()


def write_zip_of_folders(path: Path, images: Collection) -> Path:
    """A zip of class folders."""
    path.write_bytes(
        zipped(
            {
                f"{class_name}/{name}": content
                for class_name, members in images.items()
                for name, content in members.items()
            },
            zipfile.ZIP_DEFLATED,
        )
    )
    return path


def write_zip_of_zips(path: Path, images: Collection) -> Path:
    """A zip that holds one zip a class."""
    inner = {f"{name}.zip": zipped(members) for name, members in images.items()}
    path.write_bytes(zipped(inner))
    return path


def tiff(orientation: int, order: str = "<", long: bool = False) -> bytes:
    """The content of an EXIF block that states an orientation, after another tag."""
    entries = struct.pack(order + "HHII", 256, 4, 1, 77)
    if long:
        entries += struct.pack(order + "HHII", 274, 4, 1, orientation)
    else:
        entries += struct.pack(order + "HHIHH", 274, 3, 1, orientation, 0)
    head = {"<": b"II", ">": b"MM"}[order] + struct.pack(order + "HIH", 42, 8, 2)
    return head + entries + struct.pack(order + "I", 0)


def webp(image: Pixels, exif: bytes | None = None) -> bytes:
    """A lossless WebP of RGB pixels, extended by an EXIF chunk if one is given."""
    plain = cv2.imencode(
        ".webp", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_WEBP_QUALITY, 101]
    )[1].tobytes()
    if exif is None:
        return plain
    height, width = ((edge - 1).to_bytes(3, "little") for edge in image.shape[:2])
    chunks: bytes = b"VP8X" + struct.pack("<II", 10, 0x08) + width + height + plain[12:]
    chunks += b"EXIF" + struct.pack("<I", len(exif)) + exif + bytes(len(exif) % 2)
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WEBP" + chunks


def with_exif(image: bytes, orientation: int, order: str = "<", long: bool = False) -> bytes:
    """A JPEG with an EXIF block."""
    block = b"Exif\0\0" + tiff(orientation, order, long)
    return image[:2] + b"\xff\xe1" + struct.pack(">H", 2 + len(block)) + block + image[2:]
