"""`imagenetctl verify`: what the program gets, and which exit code its own becomes."""

import json
from pathlib import Path

import pytest

from imagenet_operator.cli import exit_codes
from imagenet_operator.cli.main import main
from imagenet_operator.clusters.local import environments
from imagenet_operator.clusters.local.environments import Programs


@pytest.fixture
def called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a stand-in for `imagenet-verify` got; it exits with the content of `exit`."""
    program = tmp_path / "bin/imagenet-verify"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/called\nexit $(cat {tmp_path}/exit)\n')
    program.chmod(0o755)
    (tmp_path / "exit").write_text("0")
    monkeypatch.setattr(environments, "program_folders", lambda variables: (program.parent,))
    return tmp_path / "called"


@pytest.fixture
def result(tmp_path: Path) -> Path:
    path = tmp_path / "attempts/r0/result.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"framework": "MXNet"}))
    return path


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--steps=25"],
        ["--next-checkpoint"],
        ["--checkpoint=epoch-0001-batch-00000000", "--steps=10"],
    ],
)
def test_the_program_gets_the_options(called: Path, result: Path, options: list[str]) -> None:
    assert main(["verify", str(result), *options]) == exit_codes.SUCCESS
    assert called.read_text().split() == [str(result), *options]


@pytest.mark.parametrize(
    ("framework", "strategy", "suffix"),
    [
        ("MXNet", "dist_sync", None),
        ("MXNet", "horovod", "-horovod"),
        ("TensorFlow", "horovod", "-tensorflow"),
        ("PyTorch", "distributed_data_parallel", "-pytorch"),
    ],
)
def test_it_runs_where_the_strategy_trains(
    called: Path,
    result: Path,
    monkeypatch: pytest.MonkeyPatch,
    framework: str,
    strategy: str,
    suffix: str | None,
) -> None:
    result.write_text(json.dumps({"framework": framework, "strategy": strategy}))
    found: list[str | None] = []

    def find(programs: Programs, name: str, *, trains: bool) -> Path:
        assert trains
        found.append(None if programs.training is None else programs.training.suffix)
        return called.parent / "bin" / name

    monkeypatch.setattr(Programs, "find", find)
    assert main(["verify", str(result)]) == exit_codes.SUCCESS
    assert found == [suffix]


@pytest.mark.parametrize("ended", [1, 3])
def test_a_difference_and_a_refusal_fail(called: Path, result: Path, ended: int) -> None:
    (called.parent / "exit").write_text(str(ended))
    assert main(["verify", str(result)]) == exit_codes.FAILED


@pytest.mark.parametrize("options", [["--steps", "0"], ["--steps", "3", "--next-checkpoint"]])
def test_steps_are_a_number_or_those_to_the_next_checkpoint(
    result: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["verify", str(result), *options])
    assert "argument --" in capsys.readouterr().err
