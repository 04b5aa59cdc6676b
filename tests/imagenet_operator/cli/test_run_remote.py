"""`imagenetctl run` of digits in a bucket, on a server, on hubs: it trains and hides the keys."""

import gzip
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.file_server import FileServer, basic
from support.hugging_face_hub import serve_hub
from support.kaggle_server import serve_kaggle
from support.pictures import tar
from support.pod_subset import REPOSITORY
from support.programs import SCRIPTS, call
from support.remote_preparation import write_secret
from support.s3_server import ACCESS_KEY, SECRET_KEY, serve_s3


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("digits") / "digits.tar"
    call(Path(sys.executable), "-m", "imagenet_workloads.commands.digits", path)
    return path.read_bytes()


@pytest.fixture(params=["s3", "http", "http with a cache", "kaggle", "huggingFace"])
def remote(
    request: pytest.FixtureRequest, archive: bytes, tmp_path: Path
) -> Iterator[tuple[dict[str, Any], dict[str, str]]]:
    """A source, and the keys of its Secret."""
    if request.param == "s3":
        keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
        (tmp_path / "s3").mkdir()
        with serve_s3(tmp_path / "s3") as server:
            server.fill("imagenet", {"digits.tar": archive})
            source = {"bucket": "imagenet", "key": "digits.tar", "endpoint": server.endpoint}
            yield {"s3": source | {"secretName": "keys"}}, keys
    elif request.param == "kaggle":
        keys = {"KAGGLE_API_TOKEN": "KGAT_to-ken"}
        downloads = {"competitions/data/download/digits/digits.tar": archive}
        with serve_kaggle(downloads, "Bearer KGAT_to-ken") as kaggle:
            source = {"competition": "digits", "file": "digits.tar", "secretName": "keys"}
            yield {"kaggle": source | {"endpoint": kaggle.api.url}}, keys
    elif request.param == "huggingFace":
        keys = {"HF_TOKEN": "hf_to-ken"}
        with serve_hub({"digits.tar": archive}, "owner/digits", keys["HF_TOKEN"]) as hub:
            source = {"dataset": "owner/digits", "endpoint": hub.api.url, "secretName": "keys"}
            yield {"huggingFace": source}, keys
    else:
        keys = {"username": "rea-der", "password": "pass-word", "link": "sig=na-ture"}
        is_cached = request.param != "http"
        content = {f"/digits.tar?{keys['link']}": gzip.compress(archive) if is_cached else archive}
        login = basic(keys["username"], keys["password"])
        with FileServer(content, login, knows_ranges=not is_cached).running() as files:
            file = {"name": "digits.tar", "url": f"{files.url}/digits.tar", "queryKey": "link"}
            cache = {"cache": {"claimName": "archives"}} if is_cached else {}
            yield {"http": {"files": [file], "secretName": "keys", **cache}}, keys


@pytest.mark.costly
def test_it_trains_and_leaves_no_trace_of_the_keys(
    remote: tuple[dict[str, Any], dict[str, str]], tmp_path: Path
) -> None:
    source, keys = remote
    manifest = yaml.safe_load((REPOSITORY / "examples" / "digits-single.yaml").read_text())
    manifest["spec"]["dataset"]["source"] = source
    manifest["spec"]["training"] |= {"epochs": 1, "optimizer": {"learningRate": 0.05}}
    job, workdir = tmp_path / "job.yaml", tmp_path / "work"
    job.write_text(yaml.safe_dump(manifest))
    secret = write_secret(tmp_path / "secret", **keys)
    (workdir / "volumes" / "archives").mkdir(parents=True)
    command = ("run", job, "--workdir", workdir, "--secret", f"keys={secret}", "--output", "json")
    output = call(SCRIPTS / "imagenetctl", *command)

    result = json.loads(output.splitlines()[-1])
    assert result["validation"]["images"] == 180
    job_file = json.loads(next(workdir.glob("**/job.json")).read_text())
    dataset = job_file["job"]["status"]["dataset"]
    for step in ("listing", "packing"):
        assert (step not in dataset) is ("cache" in str(source))
        assert step not in dataset or dataset[step]["requests"] > 0
    assert bool(list(workdir.glob("volumes/archives/fetched/*"))) is ("cache" in str(source))
    texts = [output, *(file.read_text("latin-1") for file in workdir.rglob("*") if file.is_file())]
    for text in texts:
        assert not any(key in text for key in keys.values())


def cifar(images: int) -> bytes:
    """Return an archive as cifar-10-binary.tar.gz, with so many images of a class in each file."""
    batch = b"".join(bytes((label,)) + bytes((25 * label,)) * 3072 for label in range(10)) * images
    names = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
    files = {f"cifar-10-batches-bin/{name}.bin": batch for name in names}
    classes = "".join(f"class {number}\n" for number in range(10)).encode()
    return gzip.compress(tar({**files, "cifar-10-batches-bin/batches.meta.txt": classes}))


@pytest.mark.costly
def test_cifar_10_is_fetched_once_and_trained_twice(tmp_path: Path) -> None:
    manifest = yaml.safe_load((REPOSITORY / "examples" / "cifar10.yaml").read_text())
    (file,) = manifest["spec"]["dataset"]["source"]["http"]["files"]
    content = cifar(images=2)
    file["checksum"] = f"md5:{hashlib.md5(content, usedforsecurity=False).hexdigest()}"
    manifest["spec"]["dataset"]["preprocessing"]["minImagesPerClass"] = 1
    training = manifest["spec"]["training"]
    training |= {
        "epochs": 1,
        "batchSize": 20,
        "model": {"network": "lenet", "imageShape": [3, 28, 28]},
    }
    training["optimizer"] = {"learningRate": 0.05}
    del training["workers"]
    claim = tmp_path / "archives"
    claim.mkdir()
    with FileServer({"/cifar-10-binary.tar.gz": content}).running() as server:
        file["url"] = f"{server.url}/cifar-10-binary.tar.gz"
        job = tmp_path / "job.yaml"
        job.write_text(yaml.safe_dump(manifest))
        asked = []
        for run in ("first", "second"):
            command = ("run", job, "--workdir", tmp_path / run, "--volume", f"archives={claim}")
            output = call(SCRIPTS / "imagenetctl", *command, "--output", "json")
            result = json.loads(output.splitlines()[-1])
            assert result["validation"]["images"] == 20
            asked.append(len(server.requests))
    assert 0 < asked[0] == asked[1]
