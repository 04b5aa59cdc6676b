"""The bytes that pack writes, and the key of a dataset, on every Python, NumPy and OpenCV.

recorded_outputs.json has what OpenCV 4.9.0 and 5.0.0 write, on NumPy 1.26 and 2.4. If a version of
a library writes other bytes, shards of one key would differ: increment WRITER_VERSION in
prepare/plan.py, and record the new bytes.
"""

import base64
import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from imagenet_workloads.prepare.codecs import choose
from imagenet_workloads.prepare.codecs.codec import Recipe
from imagenet_workloads.prepare.plan import WRITER_VERSION
from imagenet_workloads.prepare.transcode import transcode
from support.preparation import prepare

RECORDED = json.loads(Path(__file__).with_name("recorded_outputs.json").read_text())
IMAGES = {name: base64.b64decode(row["bytes"]) for name, row in RECORDED["images"].items()}


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_becomes_the_recorded_bytes(name: str) -> None:
    for size, recorded in RECORDED["images"][name]["outputs"].items():
        written = transcode(IMAGES[name], Recipe(int(size) or None, 90), choose("opencv")).jpeg
        assert sha256(written) == recorded, f"resize {size}"


def test_a_dataset_has_the_recorded_key_and_shards(tmp_path: Path) -> None:
    source = tmp_path / "images.tar"
    with tarfile.open(source, "w") as tar:
        for number, image in enumerate(IMAGES.values()):
            member = tarfile.TarInfo(f"{'ab'[number % 2]}/{number}.jpg")
            member.size, member.mtime = len(image), 1_600_000_000
            tar.addfile(member, io.BytesIO(image))
    options = (
        "--shards",
        "1",
        "--codec",
        "opencv",
        "--resize",
        "24",
        "--validation-per-class",
        "1",
    )
    dataset = prepare(source, tmp_path / "data", *options)
    shards = {path.name: sha256(path.read_bytes()) for path in sorted(dataset.glob("*.rec"))}
    assert {"writer": WRITER_VERSION, "key": dataset.name, "shards": shards} == RECORDED["dataset"]
