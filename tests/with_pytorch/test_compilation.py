"""torch.compile: the same training, and one sentence where there is no compiler."""

import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch._dynamo.exc import BackendCompilerFailed
from torch._dynamo.utils import counters
from torch._inductor.utils import fresh_cache
from torch.compiler._cache import CacheArtifactManager

from imagenet_workloads.checkpoint import Identity
from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.pytorch import compilation
from imagenet_workloads.frameworks.pytorch.compilation import CompileCache, CompiledNetwork
from imagenet_workloads.train.networks import NetworkRequest
from support.ddp_processes import DdpProcesses
from support.pytorch_learners import CLASSES, SHAPE, batch, learner, trained
from support.sentences import says

MLP = NetworkRequest("mlp", None, CLASSES, SHAPE)
COMPILED = partial(CompiledNetwork, is_required=True)
BY_DEFAULT = partial(CompiledNetwork, is_required=False)


def test_a_compiled_network_learns_and_validates_the_same() -> None:
    torch._dynamo.reset()
    counters.clear()
    found, expected = trained(2, learner(MLP, compiled=COMPILED)), trained(2, learner(MLP))
    assert counters["stats"]["unique_graphs"] == 1
    # Names of a compiled module would have a prefix.
    values = found.network.state_dict()
    torch.testing.assert_close(dict(values), dict(expected.network.state_dict()))
    seen = [one.predict(batch(5)).probabilities for one in (found, expected)]
    np.testing.assert_allclose(seen[0], seen[1], rtol=1e-4)


def failing(graph: object, inputs: object) -> NoReturn:
    raise RuntimeError("no such instruction\nand more")


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that cannot be compiled, which is noticed at the first batch."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=failing))


def test_by_default_a_network_that_cannot_be_compiled_trains_as_it_is(
    broken: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found, expected = trained(2, learner(MLP, compiled=BY_DEFAULT)), trained(2, learner(MLP))
    torch.testing.assert_close(
        dict(found.network.state_dict()), dict(expected.network.state_dict())
    )
    assert (
        found.predict(batch(5)).probabilities.tolist()
        == expected.predict(batch(5)).probabilities.tolist()
    )
    [said] = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert "no such instruction" in said
    assert "training.compile: false" in said
    assert (found.compiled, expected.compiled) == (False, None)
    found.snapshot().save(tmp_path)
    # Later attempts begin without compiled code.
    assert not compilation.choose(None, tmp_path, torch.device("cuda"), certain=False)


def test_a_network_and_its_average_fall_back_together_with_one_warning(
    broken: None, caplog: pytest.LogCaptureFixture
) -> None:
    found = trained(2, learner(MLP, "--ema-decay", "0.5", compiled=BY_DEFAULT))
    expected = trained(2, learner(MLP, "--ema-decay", "0.5"))
    assert (
        found.predict(batch(5)).probabilities.tolist()
        == expected.predict(batch(5)).probabilities.tolist()
    )
    assert len([one for one in caplog.records if one.levelno >= logging.WARNING]) == 1


def test_what_a_user_asked_for_is_compiled_or_an_error(broken: None) -> None:
    with pytest.raises(BackendCompilerFailed, match="no such instruction"):
        trained(1, learner(MLP, compiled=COMPILED))


def test_by_default_a_missing_compiler_is_one_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    assert compilation.choose(None, None, torch.device("cuda"), certain=False) is False
    [said] = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert "no-such-compiler" in said


def test_a_folder_of_another_user_is_not_used_for_what_is_loaded_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    own = compilation.folder_of_this_user()
    assert own.stat().st_mode & 0o777 == 0o700
    assert compilation.folder_of_this_user() == own
    own.chmod(0o777)
    assert compilation.folder_of_this_user().stat().st_mode & 0o777 == 0o700
    assert compilation.folder_of_this_user() != own


@pytest.mark.parametrize(
    ("asked", "recorded", "device", "certain", "expected"),
    [
        (None, None, "cuda", False, True),
        (None, None, "cuda", True, None),
        (None, None, "cpu", False, None),
        (True, None, "cpu", False, True),
        (False, None, "cuda", False, None),
        (None, True, "cpu", False, True),
        # It went on without.
        (None, False, "cuda", False, False),
        # It began before compiling was the default.
        (None, "absent", "cuda", False, None),
        (True, False, "cuda", False, True),
    ],
)
def test_a_training_is_compiled_on_a_gpu_and_goes_on_as_it_began(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    asked: bool | None,
    recorded: bool | str | None,
    device: str,
    certain: bool,
    expected: bool | None,
) -> None:
    monkeypatch.setattr(compilation, "missing_compiler", lambda device: None)
    if isinstance(recorded, bool):
        compilation.record(tmp_path, recorded)
    resumed = None if recorded is None else tmp_path
    found = compilation.choose(asked, resumed, torch.device(device), certain=certain)
    assert found is expected


# Two batches an update: the first pass, which is compiled first, exchanges nothing.
TWO_PROCESSES = (
    *("--benchmark", "1", "--num-examples", "128", "--num-classes", "10", "--network", "mlp"),
    *("--image-shape", "3,28,28", "--batch-size", "8", "--macrobatch-size", "32"),
    *("--num-epochs", "1", "--warmup-epochs", "0", "--lr", "0.1", "--wd", "0"),
)


def test_compiled_processes_exchange_the_same_gradients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "compiled"))

    def train(name: str, *more: str) -> dict[str, torch.Tensor]:
        output = tmp_path / name
        options = [*TWO_PROCESSES, "--output", str(output), *more]
        with DdpProcesses(tmp_path / f"members-{name}", options) as running:
            assert set(running.wait().values()) == {0}, running.output("pod-0")
        return load_file(output / "attempts/r0/model-0001.safetensors")

    found = train("found", "--compile", "1")
    assert list((tmp_path / "compiled").rglob("*.so"))
    expected = train("expected")
    torch.testing.assert_close(found, expected)
    found = train("recomputed", "--compile", "1", "--activation-checkpointing", "1")
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(("device", "variable"), [("cpu", "CXX"), ("cuda", "CC")])
def test_a_missing_compiler_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, device: str, variable: str
) -> None:
    monkeypatch.setenv(variable, "no-such-compiler")
    message = says("the compiler no-such-compiler", "missing", f"set {variable}")
    with pytest.raises(InputError, match=message):
        compilation.require_compiler(torch.device(device))


CPU = torch.device("cpu")
JOB = Identity("a uid", "a hash")


def of_attempt(output: Path, number: int, identity: Identity = JOB) -> CompileCache:
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
        compilation.CompileCache(tmp_path, JOB, torch.device("cuda", number)).save()
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
