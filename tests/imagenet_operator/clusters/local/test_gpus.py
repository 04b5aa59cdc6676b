import os
from pathlib import Path

import pytest

from imagenet_operator.clusters.interface import LocalError
from imagenet_operator.clusters.local.machine import Gpus, find_gpus

LISTING = """GPU 0: NVIDIA H100 (UUID: GPU-1)
  MIG 1g.10gb     Device  0: (UUID: MIG-1)
  MIG 1g.10gb     Device  1: (UUID: MIG-2)
GPU 1: NVIDIA H100 (UUID: GPU-2)
"""


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An nvidia-smi; without a text it does not work."""
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nexit 9\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return program


def test_pods_never_share_a_gpu() -> None:
    shared = Gpus(("0", "1", "2"))

    assert shared.take("a", 2) == ("0", "1")
    assert shared.take("b", 2) is None, "all or none"
    assert shared.take("c", 1) == ("2",)
    shared.release("a")
    assert shared.take("b", 2) == ("0", "1")
    assert shared.take("d", 0) == ()


@pytest.mark.parametrize(
    ("requested", "visible", "expected"),
    [
        (None, "", ()),
        (None, "-1", ()),
        (None, "2, 3", ("2", "3")),
        (1, "2,3", ("2",)),
        (None, "GPU-8f,GPU-90", ("GPU-8f", "GPU-90")),
        (3, None, ("0", "1", "2")),
        (0, "2,3", ()),
    ],
)
def test_what_was_said_counts(
    requested: int | None, visible: str | None, expected: tuple[str, ...], tmp_path: Path
) -> None:
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}

    assert find_gpus(requested, environment, tmp_path) == expected


def test_more_than_is_allowed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="--gpus 3 is more than CUDA_VISIBLE_DEVICES=2,3 allows"):
        find_gpus(3, {"CUDA_VISIBLE_DEVICES": "2,3"}, tmp_path)


def test_the_drivers_tool_is_asked(tool: Path, tmp_path: Path) -> None:
    tool.write_text(f"#!/bin/sh\ncat <<'END'\n{LISTING}END\n")

    assert find_gpus(None, {}, tmp_path) == ("0", "1")


def test_device_nodes_are_counted_where_the_tool_fails(tool: Path, tmp_path: Path) -> None:
    devices = tmp_path / "dev"
    devices.mkdir()
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "null"):
        (devices / name).touch()

    assert find_gpus(None, {}, devices) == ("0", "1")


def test_no_device_folder_is_no_gpu(tool: Path, tmp_path: Path) -> None:
    assert find_gpus(None, {}, tmp_path / "none") == ()
