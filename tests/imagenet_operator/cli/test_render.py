"""`imagenetctl render`: a stream that a cluster accepts, and placeholders for the unknown."""

import io
from pathlib import Path
from typing import Any

import pytest
import yaml

from imagenet_operator.cli.main import build_parser
from imagenet_spec.errors import ImageNetJobError, UnreadableManifest
from support.job_table import KEY, TABLE, UID

Manifest = dict[str, Any]


def run(*arguments: str) -> int:
    parsed = build_parser().parse_args(["render", *arguments])
    code: int = parsed.run(parsed)
    return code


def file_of(tmp_path: Path, *documents: Manifest) -> str:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    return str(path)


def without(document: Manifest, field: str) -> Manifest:
    metadata = {key: value for key, value in document["metadata"].items() if key != field}
    return {**document, "metadata": metadata}


def comments(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("#")]


def test_everything_is_printed_in_the_order_of_creation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(file_of(tmp_path, TABLE["defaults"])) == 0
    text = capsys.readouterr().out
    assert [(item["kind"], item["metadata"]["name"]) for item in yaml.safe_load_all(text)] == [
        ("PersistentVolumeClaim", "digits-dataset"),
        ("NetworkPolicy", "digits-preparation"),
        ("Job", "digits-index"),
        ("Job", "digits-pack"),
        ("Job", "digits-seal"),
        ("Service", "digits-r0"),
        ("NetworkPolicy", "digits-r0"),
        ("Pod", "digits-r0-scheduler-0"),
        ("Pod", "digits-r0-server-0"),
        ("Pod", "digits-r0-server-1"),
        ("Pod", "digits-r0-worker-0"),
        ("Pod", "digits-r0-worker-1"),
    ]
    assert "&id" not in text


def test_placeholders_are_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(file_of(tmp_path, without(TABLE["defaults"], "uid")))
    text = capsys.readouterr().out
    body = text.replace("\n".join(comments(text)), "")
    for placeholder in ("KEY-FROM-INDEX", "JOB-UID"):
        assert placeholder in body
        assert any(placeholder in line for line in comments(text))
    assert any("--shards" in line for line in comments(text))


def test_a_generated_name_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = without(TABLE["single"], "name")
    document["metadata"]["generateName"] = "digits-"
    run(file_of(tmp_path, document))
    text = capsys.readouterr().out
    assert any(line.startswith("# xxxxx is chosen") for line in comments(text))
    names = [item["metadata"]["name"] for item in yaml.safe_load_all(text)]
    assert "digits-xxxxx-r0-worker-0" in names


def test_what_is_given_takes_the_placeholders_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(file_of(tmp_path, TABLE["defaults"]), "--key", KEY, "--shards", "11", "--attempt", "4")
    text = capsys.readouterr().out
    assert len(comments(text)) == 1
    manifests = {item["metadata"]["name"]: item for item in yaml.safe_load_all(text)}
    assert manifests["digits-pack"]["spec"]["completions"] == 11
    env = manifests["digits-r4-worker-0"]["spec"]["containers"][0]["env"]
    given = {item["name"]: item.get("value") for item in env}
    assert given["IMAGENET_DATASET"] == f"$(IMAGENET_DATA)/datasets/{KEY}"
    assert given["IMAGENET_RESULTS"] == f"$(IMAGENET_OUTPUT)/jobs/digits-{UID[:8]}"


def test_a_prepared_dataset_has_nothing_to_stand_in_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prepared = TABLE["prepared"]
    assert run(file_of(tmp_path, prepared)) == 0
    text = capsys.readouterr().out
    assert len(comments(text)) == 1
    assert "KEY-FROM-INDEX" not in text


def test_every_job_of_a_stream_is_rendered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = yaml.safe_dump_all([TABLE["single"], TABLE["longest name"]])
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    assert run("-") == 0
    names = [item["metadata"]["name"] for item in yaml.safe_load_all(capsys.readouterr().out)]
    assert "digits-r0-worker-0" in names and f"{'a' * 40}-r0-worker-0" in names


def test_a_bad_manifest_prints_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = {**TABLE["defaults"], "spec": {}}
    file = file_of(tmp_path, TABLE["defaults"], bad)
    with pytest.raises(ImageNetJobError, match=f"{file}: document 2: spec.dataset: is required"):
        run(file)
    with pytest.raises(UnreadableManifest):
        run(str(tmp_path / "missing.yaml"))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("arguments", [["--attempt", "-1"], ["--shards", "0"], ["--shards", "x"]])
def test_numbers_are_checked(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        run(file_of(tmp_path, TABLE["defaults"]), *arguments)
    assert caught.value.code == 2
    assert "is not a whole number of at least" in capsys.readouterr().err
