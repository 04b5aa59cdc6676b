"""Compiled code of one attempt serves the next, and only files of its own are loaded."""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import torch
from torch._dynamo.utils import counters
from torch._inductor.utils import fresh_cache
from torch.compiler._cache import CacheArtifactManager

from imagenet_workloads.checkpoint.manifest import Identity
from imagenet_workloads.frameworks.pytorch import compile_cache
from imagenet_workloads.frameworks.pytorch.compilation import CompiledNetwork
from imagenet_workloads.frameworks.pytorch.compile_cache import CompileCache
from imagenet_workloads.train.networks import NetworkRequest
from support.pytorch_learners import CLASSES, SHAPE, batch, learner, trained

CPU = torch.device("cpu")
JOB = Identity("a uid", "a hash")
COMPILED = partial(CompiledNetwork, is_required=True)
MLP = NetworkRequest("mlp", None, CLASSES, SHAPE)


def of_attempt(output: Path, number: int, identity: Identity = JOB) -> CompileCache:
    """The cache of an attempt, whose folder is made."""
    attempt = output / f"attempts/r{number}"
    attempt.mkdir(parents=True, exist_ok=True)
    return CompileCache(attempt, identity, CPU)


@contextmanager
def new_process() -> Iterator[None]:
    """A block in which PyTorch knows no compiled code."""
    torch._dynamo.reset()
    CacheArtifactManager.clear()
    counters.clear()
    with fresh_cache():
        yield


def train_and_validate(cache: CompileCache) -> None:
    """What an attempt does first."""
    made = trained(2, learner(MLP, compiled=COMPILED, cache=cache))
    made.predict(batch(7))


def test_a_later_attempt_compiles_nothing(tmp_path: Path) -> None:
    with new_process():
        assert not of_attempt(tmp_path, 0).load()
        train_and_validate(of_attempt(tmp_path, 0))
        assert counters["inductor"]["fxgraph_cache_miss"] >= 2
    with new_process():
        later = of_attempt(tmp_path, 1)
        assert later.load()
        train_and_validate(later)
        assert counters["inductor"]["fxgraph_cache_miss"] == 0
        assert counters["inductor"]["fxgraph_cache_hit"] >= 2
    files = sorted(tmp_path.glob("attempts/r0/compiled/*"))
    assert [file.name[-6:] for file in files] == ["-0.bin", "-1.bin"]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert files[0].parent.stat().st_mode & 0o777 == 0o700


def writable_by_others(file: Path) -> None:
    file.chmod(0o620)


def readable_by_others(file: Path) -> None:
    file.chmod(0o644)


def in_a_folder_of_others(file: Path) -> None:
    file.parent.chmod(0o770)


def of_another_user(file: Path) -> None:
    os.chown(file, 12345, -1)


def a_link(file: Path) -> None:
    file.rename(file.with_name("elsewhere"))
    file.symlink_to("elsewhere")


def a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)


def cut_off(file: Path) -> None:
    os.truncate(file, file.stat().st_size - 1)


def changed(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b"x")


@pytest.mark.parametrize(
    "spoil",
    [
        *(writable_by_others, readable_by_others, in_a_folder_of_others, of_another_user),
        *(a_link, a_pipe, cut_off, changed),
    ],
)
def test_what_another_could_have_written_is_ignored_with_one_warning(
    spoil: Callable[[Path], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    loaded: list[bytes] = []
    monkeypatch.setattr(torch.compiler, "load_cache_artifacts", loaded.append)
    monkeypatch.setattr(torch.compiler, "save_cache_artifacts", lambda: (b"artifacts", None))
    of_attempt(tmp_path, 0).save()
    [file] = tmp_path.glob("attempts/r0/compiled/*")
    spoil(file)
    assert not of_attempt(tmp_path, 1).load()
    assert loaded == []
    [said] = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert str(file) in said


def test_code_of_another_job_or_of_another_kind_of_device_is_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.compiler, "load_cache_artifacts", lambda found: found)
    monkeypatch.setattr(torch.compiler, "save_cache_artifacts", lambda: (b"artifacts", None))
    of_attempt(tmp_path, 0).save()
    assert of_attempt(tmp_path, 1).load()
    assert not of_attempt(tmp_path, 1, Identity("another uid", "a hash")).load()
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "older")
    assert not of_attempt(tmp_path, 1).load()


def test_each_device_of_a_worker_has_its_own_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch's keys have the number of the device, so those of another one would not be found."""
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(torch.compiler, "save_cache_artifacts", lambda: (b"artifacts", None))
    for number in (0, 1):
        compile_cache.CompileCache(tmp_path, JOB, torch.device("cuda", number)).save()
    assert sorted(file.stem[-4:] for file in (tmp_path / "compiled").iterdir()) == ["-0-0", "-1-0"]


def test_a_full_volume_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(torch.compiler, "save_cache_artifacts", lambda: (b"artifacts", None))
    (tmp_path / "attempts/r0").mkdir(parents=True)
    (tmp_path / "attempts/r0/compiled").write_text("a file where the folder would be")
    of_attempt(tmp_path, 0).save()
    [said] = [record.getMessage() for record in caplog.records]
    assert "is not saved" in said
