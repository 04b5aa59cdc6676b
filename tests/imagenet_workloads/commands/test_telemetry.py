"""Every program of a pod serves its metrics before it does anything that takes time."""

import importlib
from pathlib import Path

import pytest

from imagenet_workloads.environment import Environment
from imagenet_workloads.telemetry import server
from imagenet_workloads.telemetry.registry import Registry


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
