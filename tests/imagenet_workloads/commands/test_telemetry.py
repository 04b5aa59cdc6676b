"""Every program of a pod serves its metrics before it does anything that takes time."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from imagenet_workloads.environment import Environment
from imagenet_workloads.telemetry import server
from imagenet_workloads.telemetry.server import Registry


@pytest.mark.parametrize(
    ("program", "arguments"),
    [
        ("index", ["--source", "{folder}/absent.tar", "--data", "{folder}"]),
        ("pack", ["--data", "{folder}", "--key", "0" * 32]),
        ("seal", ["--data", "{folder}", "--key", "0" * 32]),
    ],
)
def test_preprocessing_is_served_before_it_looks_for_its_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, arguments: list[str]
) -> None:
    served: list[int] = []

    def remember(registry: Registry, environment: Environment, *_: object) -> None:
        served.append(environment.metrics_port)

    monkeypatch.setattr(server, "serve", remember)
    monkeypatch.setenv("IMAGENET_METRICS_PORT", "9090")
    main = importlib.import_module(f"imagenet_workloads.commands.{program}").main
    assert main([argument.format(folder=tmp_path) for argument in arguments]) == 3
    assert served == [9090]


@pytest.mark.parametrize("port", ["", "0"])
def test_metrics_that_nobody_asks_for_cost_no_start_up_time(port: str, tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from imagenet_workloads.commands import pack\n"
        f"assert pack.main(['--data', {str(tmp_path)!r}, '--key', '00']) == 3\n"
        "sys.exit('prometheus_client' in sys.modules)"
    )
    variables = {"IMAGENET_METRICS_PORT": port} if port else {}
    finished = subprocess.run([sys.executable, "-c", program], check=False, env=variables)
    assert finished.returncode == 0
