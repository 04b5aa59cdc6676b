"""`imagenetctl ledger`: which folder it checks, against which dataset, with which exit code."""

import json
import os
from pathlib import Path

import pytest

from imagenet_operator.cli import exit_codes, programs
from imagenet_operator.cli.main import main
from imagenet_operator.clusters.interface import LocalError
from imagenet_operator.clusters.local import environments


def job(workdir: Path, name: str, uid: str) -> Path:
    attempt = workdir / f"volumes/digits-output/jobs/{name}-{uid}/attempts/r0"
    attempt.mkdir(parents=True)
    return attempt.parent.parent


def test_the_newest_job_of_a_name(tmp_path: Path) -> None:
    old, new = job(tmp_path, "digits", "00000001"), job(tmp_path, "digits", "00000000")
    job(tmp_path, "digits-large", "00000002")
    os.utime(old / "attempts", (1, 1))
    assert programs.find_output("digits", tmp_path) == new
    assert programs.find_output(str(old), tmp_path) == old
    with pytest.raises(LocalError, match="no job 'lost' has trained in"):
        programs.find_output("lost", tmp_path)


@pytest.mark.parametrize(
    ("ended", "expected"), [(0, exit_codes.SUCCESS), (1, exit_codes.FAILED), (3, exit_codes.FAILED)]
)
def test_the_program_gets_folder_and_dataset(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ended: int,
    expected: int,
) -> None:
    output = job(tmp_path, "digits", "00000001")
    (output / "attempts/r0/result.json").write_text(json.dumps({"dataset": {"key": "ab12"}}))
    dataset = tmp_path / "volumes/digits-data/datasets/ab12"
    dataset.mkdir(parents=True)
    (dataset / "dataset.json").touch()
    called = tmp_path / "called"
    program = tmp_path / "bin/imagenet-ledger"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" > {called}\nexit {ended}\n')
    program.chmod(0o755)
    monkeypatch.setattr(environments, "program_folders", lambda variables: (program.parent,))

    assert main(["ledger", "digits", "--workdir", str(tmp_path)]) == expected

    more = ["--output", "text", "--dataset", str(dataset)]
    assert called.read_text().split() == [str(output), *more]
