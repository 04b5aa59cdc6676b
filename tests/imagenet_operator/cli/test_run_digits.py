"""The example of handwritten digits, with everything real: archive, MXNet, parameter server."""

import json
from pathlib import Path

import yaml

from support.programs import SCRIPTS, call, run_job

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "digits.yaml"


def test_digits_from_the_archive_to_a_prediction(tmp_path: Path) -> None:
    sample, imagenetctl = tmp_path / "sample.jpg", SCRIPTS / "imagenetctl"

    output = call(imagenetctl, "demo", "--workdir", tmp_path, "--output", "json")
    first = json.loads(output.splitlines()[-1])

    counts = {"images", "top1Count", "top5Count", "top1", "top5", "loss"}
    assert set(first["validation"]) == counts, "as docs/running-locally.md says"
    assert first["validation"]["images"] == 180
    assert first["validation"]["top1"] >= 0.95
    assert first["restarts"] == 0
    assert not first["dataset"]["reused"]
    decision = first["dataset"]["decision"]
    assert decision == {"said": "classFolders: classes are the archives"}
    stored = json.loads((tmp_path / "jobs" / "digits" / "job.json").read_text())
    assert stored["job"]["status"]["dataset"]["decision"] == decision
    dataset = json.loads((Path(first["dataset"]["folder"]) / "dataset.json").read_text())
    assert dataset["droppedClasses"] == {"9": 12}
    model = Path(first["model"]["folder"])
    for name in (first["model"]["symbol"], first["model"]["params"], "metrics.jsonl"):
        assert (model / name).is_file()

    output = call(imagenetctl, "predict", sample, "--workdir", tmp_path, "--output", "json")
    (predicted,) = json.loads(output)
    assert predicted["predictions"][0]["class"] == "0"

    before = snapshot(Path(first["dataset"]["folder"]))
    second = run_job(shorter(tmp_path), tmp_path)
    assert second["dataset"] == {**first["dataset"], "reused": True}
    assert second["uid"] != first["uid"]
    assert snapshot(Path(first["dataset"]["folder"])) == before, "not a byte is rewritten"


def shorter(folder: Path) -> Path:
    """The example with one epoch: what is trained is not what the second run is about."""
    manifest = yaml.safe_load(EXAMPLE.read_text())
    manifest["spec"]["training"] |= {"epochs": 1, "optimizer": {"stepEpochs": []}}
    path = folder / "shorter.yaml"
    path.write_text(yaml.safe_dump(manifest))
    return path


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file's number and time of change."""
    return {
        str(path.relative_to(folder)): (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in folder.rglob("*")
    }
