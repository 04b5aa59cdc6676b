"""The shell of stories: it is in a clone, and uses the story's namespace."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from kind.kubectl import Kubectl
from kind.stories.terminal import Terminal, open_terminal
from support.processes import wait_until

# Prints its arguments and its context; does not end if it watches.
KUBECTL = """#!/bin/sh
echo "$@" $(sed -n 's/.*namespace: //p' "$KUBECONFIG")
case "$*" in *--watch*) exec sleep 600 ;; esac
"""

# Prints the name of the chart at the given path.
HELM = """#!/bin/sh
sed -n 's/^name: //p' "$3/Chart.yaml"
"""


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    kubectl, helm = (tmp_path / name / name for name in ("kubectl", "helm"))
    for program, text in ((kubectl, KUBECTL), (helm, HELM)):
        program.parent.mkdir()
        program.write_text(text)
        program.chmod(0o755)
    kubeconfig = tmp_path / "kubeconfig"
    context = {"name": "kind", "context": {"cluster": "kind", "user": "kind"}}
    kubeconfig.write_text(yaml.safe_dump({"contexts": [context], "current-context": "kind"}))
    folder = tmp_path / "terminal"
    folder.mkdir()
    return open_terminal(Kubectl(str(kubectl), kubeconfig, "vision"), str(helm), folder)


def test_kubectl_means_the_namespace(terminal: Terminal, capfd: pytest.CaptureFixture[str]) -> None:
    terminal.type("kubectl apply -f examples/digits.yaml")
    said = capfd.readouterr().out.splitlines()
    assert said == [
        "$ kubectl apply -f examples/digits.yaml",
        "apply -f examples/digits.yaml vision",
    ]


def test_helm_finds_the_chart(terminal: Terminal, capfd: pytest.CaptureFixture[str]) -> None:
    terminal.type("helm install imagenet-operator charts/imagenet-operator")
    assert capfd.readouterr().out.splitlines()[-1] == "imagenet-operator"


def test_a_file_that_is_typed_into_being_lies_there(terminal: Terminal) -> None:
    terminal.type('.venv/bin/python -c \'import yaml; open("written", "w")\'')
    assert (terminal.folder / "written").exists()
    assert (terminal.folder / "examples" / "synthetic.yaml").is_file()


def test_a_line_that_fails_is_an_error(terminal: Terminal) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        terminal.type("false")


def test_what_never_ends_is_stopped(terminal: Terminal) -> None:
    with terminal.beside("kubectl get inj --watch") as printed:
        wait_until(lambda: "vision" in printed.read_text(), "it says something")
    assert printed.read_text() == "get inj --watch vision\n"
