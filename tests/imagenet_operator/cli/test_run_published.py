"""`imagenetctl run` on a dataset in a bucket and on a server, and of one that is published."""

import hashlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.file_server import FileServer, basic
from support.pod_subset import REPOSITORY
from support.programs import SCRIPTS, VARIABLES, call
from support.published import BUCKET, files, publish_to
from support.remote_preparation import write_secret
from support.s3_server import ACCESS_KEY, SECRET_KEY, S3Server, serve_s3
from support.tiny_dataset import write_dataset

KEYS = {"username": "rea-der", "password": "pass-word", "sas": "sig=na-ture"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with serve_s3(tmp_path_factory.mktemp("s3")) as running:
        dataset = write_dataset(tmp_path_factory.mktemp("data"), train=640, validation=100)
        publish_to(running, dataset.folder, "digits")
        yield running


def run(
    folder: Path, example: str, prepared: dict[str, Any], secret: Path, **workers: Any
) -> tuple[dict[str, Any], str]:
    """Train an epoch; return the result, and all that was written."""
    manifest = yaml.safe_load((REPOSITORY / "examples" / example).read_text())
    manifest["spec"]["dataset"] = {"source": {"prepared": prepared}}
    training = manifest["spec"]["training"]
    training |= {"epochs": 1, "output": {"volume": {"size": "1Gi"}}}
    training["workers"] = training.get("workers", {}) | workers
    job, workdir = folder / "job.yaml", folder / "work"
    job.write_text(yaml.safe_dump(manifest))
    command = ("run", job, "--workdir", workdir, "--secret", f"keys={secret}", "--output", "json")
    output = call(SCRIPTS / "imagenetctl", *command)
    texts = [file.read_text("latin-1") for file in workdir.rglob("*") if file.is_file()]
    return json.loads(output.splitlines()[-1]), "".join([output, *texts])


def test_two_workers_train_from_a_bucket(server: S3Server, tmp_path: Path) -> None:
    source = {"bucket": BUCKET, "prefix": "digits", "endpoint": server.endpoint}
    result, written = run(
        tmp_path,
        "digits.yaml",
        {"s3": source | {"secretName": "keys"}},
        server.secret(tmp_path / "secret"),
        cache={"size": "100Mi"},
    )
    assert result["validation"]["images"] == 100
    assert not any(key in written for key in (ACCESS_KEY, SECRET_KEY))


def test_a_worker_trains_from_a_server(server: S3Server, tmp_path: Path) -> None:
    content = {
        f"/digits/{name}?{KEYS['sas']}": one for name, one in files(server, "digits").items()
    }
    with FileServer(content, basic(KEYS["username"], KEYS["password"])).running() as served:
        source = {"url": f"{served.url}/digits", "secretName": "keys", "queryKey": "sas"}
        secret = write_secret(tmp_path / "secret", **KEYS)
        result, written = run(tmp_path, "digits-single.yaml", {"http": source}, secret)
    assert result["validation"]["images"] == 100
    assert not any(key in written for key in KEYS.values())


def test_a_job_publishes_its_dataset(server: S3Server, tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path / "volume" / "digits", train=64, validation=10)
    manifest = yaml.safe_load((REPOSITORY / "examples" / "digits-single.yaml").read_text())
    bucket = {"bucket": BUCKET, "prefix": "by-a-job", "endpoint": server.endpoint}
    manifest["spec"]["dataset"] = {
        "source": {"prepared": {"claimName": "data", "path": "digits"}},
        "publish": {"s3": bucket | {"secretName": "keys"}},
    }
    manifest["spec"]["training"] |= {"epochs": 1}
    job = tmp_path / "job.yaml"
    job.write_text(yaml.safe_dump(manifest))
    secret = server.secret(tmp_path / "secret")
    call(
        SCRIPTS / "imagenetctl",
        *("run", job, "--workdir", tmp_path / "work"),
        *("--secret", f"keys={secret}", "--volume", f"data={tmp_path / 'volume'}"),
    )
    published = files(server, "by-a-job")
    for path in dataset.folder.iterdir():
        assert published[path.name] == path.read_bytes()


@pytest.mark.costly
def test_a_job_uploads_its_model_with_the_keys_of_a_later_run(
    server: S3Server, tmp_path: Path
) -> None:
    manifest = yaml.safe_load((REPOSITORY / "examples" / "digits-single.yaml").read_text())
    write_dataset(tmp_path / "volume" / "digits", train=64, validation=10)
    manifest["spec"]["dataset"] = {"source": {"prepared": {"claimName": "data", "path": "digits"}}}
    bucket = {"bucket": BUCKET, "prefix": "models", "endpoint": server.endpoint}
    upload = {"upload": {"s3": bucket | {"secretName": "keys"}}}
    manifest["spec"]["training"] |= {"epochs": 1, "output": upload}
    job, workdir = tmp_path / "job.yaml", tmp_path / "work"
    job.write_text(yaml.safe_dump(manifest))

    def finished(secret: Path) -> tuple[str, dict[str, Any]]:
        command: list[str | Path] = [SCRIPTS / "imagenetctl", "run", job, "--workdir", workdir]
        command += ["--secret", f"keys={secret}", "--volume", f"data={tmp_path / 'volume'}"]
        ended = subprocess.run(command, capture_output=True, text=True, env=VARIABLES)
        output = ended.stdout + ended.stderr
        assert ended.returncode == 0, output
        (stored,) = workdir.glob("jobs/*/job.json")
        status: dict[str, Any] = json.loads(stored.read_text())["job"]["status"]
        return output, status

    wrong = write_secret(
        tmp_path / "wrong", AWS_ACCESS_KEY_ID="nobody", AWS_SECRET_ACCESS_KEY="nothing"
    )
    output, status = finished(wrong)
    assert "refuses the keys" in output
    assert status["phase"] == "Succeeded"
    assert status["upload"] == {"failures": 1}
    former = status["model"]
    assert former["claimName"] == "data"
    assert files(server, "models") == {}

    output, status = finished(server.secret(tmp_path / "secret"))
    assert "interrupted" not in output
    model = status["model"]
    assert model == {
        "bucket": BUCKET,
        "path": former["path"].replace("jobs/", "models/"),
        "framework": "MXNet",
        "sha256": former["sha256"],
    }
    assert f"s3://{BUCKET}/{model['path']}" in output
    found = files(server, model["path"])
    assert hashlib.sha256(found["result.json"]).hexdigest() == model["sha256"]
    for name, listed in json.loads(found["result.json"])["files"].items():
        assert hashlib.sha256(found[name]).hexdigest() == listed["sha256"], name
    attempt = tmp_path / "volume" / former["path"]
    for path in (*attempt.glob("checkpoints/*/*"), attempt / "metrics.jsonl"):
        assert found[path.relative_to(attempt).as_posix()] == path.read_bytes()
    assert not any("thumbnail" in name or name.startswith("evaluation") for name in found)

    # Another job goes on from there, without the volume of the first.
    place = {"bucket": BUCKET, "prefix": model["path"].partition("/attempts/")[0]}
    place |= {"endpoint": server.endpoint, "secretName": "keys"}
    manifest["spec"]["training"] |= {
        "checkpoint": {"initFromRemote": {"s3": place}},
        "output": {"volume": {"size": "1Gi"}},
    }
    job.write_text(yaml.safe_dump(manifest))
    finished(server.secret(tmp_path / "again"))
    (log,) = (workdir / "volumes").glob("*-output/jobs/*/attempts/r0/metrics.jsonl")
    begun = json.loads(log.read_text().splitlines()[0])
    assert Path(begun["resumedFrom"]).name == "epoch-0001-batch-00000000"
