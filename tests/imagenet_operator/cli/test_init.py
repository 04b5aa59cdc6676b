"""`imagenetctl init`: from images to a manifest that trains as it is."""

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import yaml

from imagenet_operator.cli import files, init
from imagenet_operator.cli.main import main
from imagenet_operator.sdk import submission
from imagenet_spec.resource.job import LOCAL_PATH
from support import pictures
from support.file_server import FileServer
from support.hugging_face_hub import serve_hub
from support.kaggle_server import serve_kaggle
from support.pictures import Pixels, jpeg, tar, zipped
from support.programs import SCRIPTS, VARIABLES, call
from support.remote_preparation import write_secret
from support.s3_server import ACCESS_KEY, SECRET_KEY, serve_s3

NOT_MEASURED = ("--gpus", "1:V100")
"""GPUs elsewhere: no step is taken here."""

PHOTOGRAPHS = {
    f"{name}/{number}.jpg": jpeg(1000 * place + number, 90, 120)
    for place, name in enumerate(("cat", "dog", "fox"))
    for number in range(60)
}


def manifest_of(file: Path) -> dict[str, Any]:
    """The manifest in a file, which must be valid."""
    (document,) = files.documents(str(file))
    assert submission.problems(document) == []
    return document


def write(folder: Path, content: dict[str, bytes]) -> Path:
    """A folder of these files."""
    for name, data in content.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


@pytest.mark.parametrize(
    ("text", "name", "source"),
    [
        (
            "https://example.com/a/My%20photos.tar",
            "my-photos",
            {"http": {"files": [{"name": "My-photos.tar", "url": None}]}},
        ),
        (
            "https://example.com/a/train-{0..9}.tar",
            "train",
            {"http": {"folder": {"url": "https://example.com/a/", "names": ["train-{0..9}.tar"]}}},
        ),
        (
            "s3://bucket/a/photos.zip",
            "photos",
            {"s3": {"bucket": "bucket", "key": "a/photos.zip"}},
        ),
        ("s3://bucket/a/b/", "b", {"s3": {"bucket": "bucket", "prefix": "a/b"}}),
        ("hf://datasets/owner/name", "name", {"huggingFace": {"dataset": "owner/name"}}),
        (
            "hf://datasets/owner/name@v1/data",
            "name",
            {"huggingFace": {"dataset": "owner/name", "revision": "v1", "path": "data"}},
        ),
        (
            "https://huggingface.co/datasets/owner/name/tree/main/data",
            "name",
            {"huggingFace": {"dataset": "owner/name", "revision": "main", "path": "data"}},
        ),
        ("kaggle://datasets/owner/name", "name", {"kaggle": {"dataset": "owner/name"}}),
        ("https://www.kaggle.com/datasets/a/name", "name", {"kaggle": {"dataset": "a/name"}}),
        ("https://www.kaggle.com/c/dogs", "dogs", {"kaggle": {"competition": "dogs"}}),
    ],
)
def test_addresses(text: str, name: str, source: dict[str, Any]) -> None:
    found, read, folder = init.source_of(text)
    for file in read.get("http", {}).get("files", ()):
        assert file["url"] == text
        file["url"] = None
    assert (found, read, folder) == (name, source, None)


def test_a_secret_and_an_endpoint_are_fields_of_the_source() -> None:
    _, source, _ = init.source_of("s3://bucket/photos/", "keys", "http://localhost:9000")
    fields = {"secretName": "keys", "endpoint": "http://localhost:9000"}
    assert source == {"s3": {"bucket": "bucket", "prefix": "photos", **fields}}


@pytest.mark.parametrize(
    ("source", "options", "code", "facts"),
    [
        ("missing", (), 2, ("missing", "no such folder")),
        ("ftp://example.com/photos.tar", (), 2, ("is no address", "hf://")),
        ("s3://bucket", (), 2, ("is no address", "s3://BUCKET/PREFIX")),
        ("https://example.com/a.tar?key=secret", (), 2, ("url", "query")),
        ("kaggle://competitions/dogs", (), 2, ("secretName",)),
        ("empty", (), 2, ("holds no images",)),
        ("one", (), 2, ("two or more classes",)),
        ("flat", (), 2, ("in no folders",)),
        ("few", NOT_MEASURED, 2, ("two classes", "dog 1")),
        ("good", ("--into", "there.yaml"), 2, ("there.yaml exists", "--into", "--overwrite")),
        ("good", ("--pretrained", "none.pth"), 2, ("none.pth",)),
        ("good", ("--pretrained", "weights.pth"), 2, ("says no network", "resnet18")),
        ("good", ("--gpus", "many"), 2, ("8:H100",)),
        ("good", ("--endpoint", "http://localhost"), 2, ("--endpoint",)),
    ],
)
def test_refusals(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    source: str,
    options: tuple[str, ...],
    code: int,
    facts: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "empty", {"notes.txt": b"text"})
    write(tmp_path / "one", {f"cat/{n}.jpg": jpeg(n) for n in range(3)})
    write(tmp_path / "flat", {f"{n}.jpg": jpeg(n) for n in range(3)})
    write(tmp_path / "few", {"dog/1.jpg": jpeg(9), **{f"cat/{n}.jpg": jpeg(n) for n in range(8)}})
    write(tmp_path / "good", PHOTOGRAPHS)
    write(tmp_path, {"there.yaml": b"", "weights.pth": b""})
    try:
        found = main(["init", source, *options])
    except SystemExit as error:  # of argparse
        found = int(str(error.code))
    errors = capsys.readouterr().err
    assert found == code
    for fact in facts:
        assert fact in errors
    assert not (tmp_path / "job.yaml").exists()


def test_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photographs = write(tmp_path / "My photos", PHOTOGRAPHS)
    into = tmp_path / "jobs" / "job.yaml"
    into.parent.mkdir()
    command = ["init", str(photographs), "--into", str(into), *NOT_MEASURED]
    assert main(command) == 0

    manifest = manifest_of(into)
    assert manifest["metadata"]["name"] == "my-photos"
    assert manifest["metadata"]["annotations"] == {LOCAL_PATH: "../My photos"}
    assert manifest["spec"]["dataset"]["source"]["volume"]["path"] == "."
    assert "cat 60, dog 60, fox 60" in into.read_text()
    assert f"imagenetctl run {into}" in capsys.readouterr().out
    assert main([*command, "--overwrite"]) == 0


@pytest.mark.costly
def test_a_tar_is_measured_and_run_finds_it(tmp_path: Path) -> None:
    archive = tmp_path / "photos.tar"
    collection = pictures.collection({"cat": 60, "dog": 60, "fox": 60})
    pictures.write_tar_of_folders(archive, collection)
    into = tmp_path / "job.yaml"
    call(SCRIPTS / "imagenetctl", "init", archive, "--into", into, "--gpus", "0")

    manifest = manifest_of(into)
    assert manifest["metadata"]["annotations"] == {LOCAL_PATH: "."}
    assert manifest["spec"]["dataset"]["source"]["volume"]["path"] == "photos.tar"
    assert "20 real steps" in into.read_text()
    manifest["spec"]["training"]["epochs"] = 1
    into.write_text(yaml.safe_dump(manifest))
    # Another current directory: the path is relative to the manifest.
    work = tmp_path / "work"
    work.mkdir()
    run: list[str | Path] = [SCRIPTS / "imagenetctl", "run", into, "--output", "json"]
    done = subprocess.run(run, cwd=work, capture_output=True, text=True, check=False, env=VARIABLES)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["validation"]["images"] == 36


@pytest.fixture(params=["http", "s3", "huggingFace", "kaggle"])
def remote(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[list[str], FileServer | None]]:
    """The arguments for an archive on a server, and the server of its bytes if it counts them."""
    archive = tar(PHOTOGRAPHS)
    if request.param == "http":
        with FileServer({"/photos.tar": archive}).running() as server:
            yield [f"{server.url}/photos.tar"], server
    elif request.param == "s3":
        keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
        secret = write_secret(tmp_path / "secret", **keys)
        (tmp_path / "s3").mkdir()
        with serve_s3(tmp_path / "s3") as bucket:
            bucket.fill("images", {f"photos/{name}": data for name, data in PHOTOGRAPHS.items()})
            options = ["--secret", f"keys={secret}", "--endpoint", bucket.endpoint]
            yield ["s3://images/photos/", *options], None
    elif request.param == "huggingFace":
        with serve_hub({"photos.tar": archive}, "owner/photos") as hub:
            yield ["hf://datasets/owner/photos", "--endpoint", hub.api.url], hub.store
    else:
        downloads = {"datasets/download/owner/photos@1": zipped(PHOTOGRAPHS)}
        with serve_kaggle(downloads) as kaggle:
            yield ["kaggle://datasets/owner/photos", "--endpoint", kaggle.api.url], kaggle.store


def test_a_server_is_asked_for_ranges_alone(
    remote: tuple[list[str], FileServer | None], tmp_path: Path
) -> None:
    arguments, server = remote
    into = tmp_path / "job.yaml"
    assert main(["init", *arguments, "--into", str(into), *NOT_MEASURED]) == 0
    manifest = manifest_of(into)
    assert manifest["metadata"] == {"name": "photos"}
    assert manifest["spec"]["dataset"]["preprocessing"]["minImagesPerClass"] == 60
    assert "of 32 decoded images" in " ".join(into.read_text().split())
    if server is not None:
        assert all("Range" in request.headers for request in server.requests)


def striped(seed: int, is_upright: bool) -> Pixels:
    """Stripes of random colours and widths, upright or not, 40 x 60 pixels with noise."""
    random = np.random.default_rng(seed)
    period, phase = random.uniform(4, 9), random.uniform(0, 9)
    place = np.arange(60 if is_upright else 40) / period + phase
    wave = (np.sin(2 * np.pi * place) + 1) / 2
    wave = np.tile(wave, (40, 1)) if is_upright else np.tile(wave[:, None], (1, 60))
    light, dark = random.integers(0, 256, (2, 3))
    colours = wave[..., None] * light + (1 - wave[..., None]) * dark
    noisy = colours + random.normal(0, 12, colours.shape)
    return np.asarray(np.clip(noisy, 0, 255), np.uint8)


def spotted(seed: int) -> Pixels:
    """Smooth spots of random colours."""
    noisy = pictures.pixels(seed, 40, 60) + np.random.default_rng(seed).normal(0, 12, (40, 60, 3))
    return np.asarray(np.clip(noisy, 0, 255), np.uint8)


def photograph(kind: str, seed: int) -> bytes:
    """A JPEG of a class; each third is stored turned, with its EXIF orientation."""
    pixels = spotted(seed) if kind == "spots" else striped(seed, kind == "columns")
    is_turned = seed % 3 == 0
    # Orientation 6: what is stored is to be turned clockwise.
    stored = cv2.rotate(pixels, cv2.ROTATE_90_COUNTERCLOCKWISE) if is_turned else pixels
    data = cv2.imencode(".jpg", cv2.cvtColor(stored, cv2.COLOR_RGB2BGR))[1].tobytes()
    return pictures.with_exif(data, 6) if is_turned else data


@pytest.mark.costly
def test_three_commands_from_photographs_to_predictions(tmp_path: Path) -> None:
    """300 photographs, some turned by EXIF, one in HEIC, one broken, a class of 45."""
    pillow_heif = pytest.importorskip("pillow_heif")
    counts = {"columns": 45, "rows": 120, "spots": 135}
    photographs = {
        f"{kind}/IMG_{number:04}.JPG": photograph(kind, 1000 * place + number)
        for place, (kind, count) in enumerate(counts.items())
        for number in range(count)
    }
    photographs["rows/IMG_0003.JPG"] = photographs["rows/IMG_0003.JPG"][:700]
    folder = write(tmp_path / "photos", photographs)
    pixels = np.ascontiguousarray(striped(99, is_upright=False))
    heic = pillow_heif.from_bytes("RGB", pixels.shape[1::-1], pixels.tobytes())
    heic.save(folder / "rows" / "IMG_9999.HEIC", quality=90)
    held_out = [(kind, photograph(kind, 9000 + number)) for number in range(30) for kind in counts]
    write(tmp_path / "new", {f"{n:03}.jpg": data for n, (_, data) in enumerate(held_out)})

    def imagenetctl(*arguments: str) -> str:
        command: list[str | Path] = [SCRIPTS / "imagenetctl", *arguments]
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, check=False, env=VARIABLES
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    imagenetctl("init", "photos", "--gpus", "0")
    imagenetctl("run", "job.yaml")
    predicted = json.loads(imagenetctl("predict", "new", "--output", "json", "--top", "1"))

    text = (tmp_path / "job.yaml").read_text()
    assert "rows/IMG_0003.JPG" in text
    assert manifest_of(tmp_path / "job.yaml")["spec"]["dataset"]["preprocessing"][
        "minImagesPerClass"
    ] == 45  # fmt: skip
    classes = {Path(one["image"]).name: one["predictions"][0]["class"] for one in predicted}
    right = sum(classes[f"{n:03}.jpg"] == kind for n, (kind, _) in enumerate(held_out))
    majority = max(Counter(kind for kind, _ in held_out).values())
    assert majority == 30
    assert right >= 2 * majority
