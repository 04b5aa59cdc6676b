"""`imagenetctl completion`: bash completes with it, the others have its commands and options."""

import argparse
import subprocess
from pathlib import Path

import pytest

from imagenet_operator.cli import completion
from imagenet_operator.cli.main import build_parser, main

COMPLETE = """
source "$1"; shift
function=$(complete -p imagenetctl | sed 's/.*-F \\([^ ]*\\).*/\\1/')
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
$function
printf '%s\\n' "${COMPREPLY[@]}"
"""


def commands() -> set[str]:
    (subparsers,) = (
        action
        for action in build_parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    return set(subparsers.choices)


@pytest.fixture
def script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["completion", "bash"]) == 0
    file = tmp_path / "imagenetctl.bash"
    file.write_text(capsys.readouterr().out)
    return file


def completed(script: Path, *words: str) -> list[str]:
    command = ["bash", "-c", COMPLETE, "bash", str(script), "imagenetctl", *words]
    finished = subprocess.run(
        command, cwd=script.parent, check=True, capture_output=True, text=True
    )
    assert finished.stderr == ""
    return finished.stdout.split()


def test_bash_completes_commands(script: Path) -> None:
    assert set(completed(script, "")) == commands()
    assert completed(script, "comple") == ["completion"]


def test_bash_completes_options_values_and_files(script: Path) -> None:
    (script.parent / "photo.jpg").touch()
    assert completed(script, "run", "--se") == ["--set", "--secret"]
    assert completed(script, "predict", "--output", "") == ["text", "json", "csv"]
    assert completed(script, "predict", "pho") == ["photo.jpg"]
    assert completed(script, "dataset", "pub") == ["publish"]


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_each_shell_has_all_commands(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    output = capsys.readouterr().out
    assert [name for name in commands() if name not in output] == []
    assert "metrics-port" in output
