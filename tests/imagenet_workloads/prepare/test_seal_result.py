"""The result of imagenet-seal, and that the operator accepts it."""

import json
from pathlib import Path

import pytest

from imagenet_operator.reconcile.preparation import SealResult
from imagenet_workloads.commands import pack, seal
from support.preparation import run_index

SYNTHETIC = (
    *("--synthetic-classes", "2", "--synthetic-images-per-class", "4"),
    *("--synthetic-image-shape", "3,8,8", "--validation-per-class", "1"),
    *("--min-images-per-class", "1", "--shards", "1"),
)


def test_the_counts_of_a_sealed_dataset_are_its_termination_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data, log = tmp_path / "data", tmp_path / "termination-log"
    data.mkdir()
    common = ["--data", str(data), "--key", run_index(None, data, *SYNTHETIC)["key"]]
    assert pack.main(common) == 0
    monkeypatch.setenv("IMAGENET_TERMINATION_LOG", str(log))
    for _ in range(2):  # the second time it is sealed already
        capsys.readouterr()
        log.unlink(missing_ok=True)
        assert seal.main(common) == 0
        written = json.loads(log.read_text())
        assert written == {"images": {"train": 6, "validation": 2}, "skipped": 0}
        assert json.loads(capsys.readouterr().out) == written
        assert SealResult.model_validate(written).images.train == 6
