"""Both sides of benchmarks/scaling's comparisons: the same training, cores and threads."""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from benchmarks.scaling import __main__ as program
from benchmarks.scaling import bare_program, here, jobs, speeds

from imagenet_operator.cli.sweep import Here
from imagenet_operator.clusters.interface import LocalError
from imagenet_operator.clusters.local import kubelet
from imagenet_operator.clusters.local.kubelet import Launch, PodProcess
from imagenet_spec.validate import validate
from imagenet_workloads.commands import train
from imagenet_workloads.data.order import batches_per_epoch

Manifest = dict[str, Any]

EPOCHS = 4
DATASET = Path("/volume/datasets/key")
CORES = {4, 7}
# Where a program is and what it is called, and a job's metrics, which are part of its price.
OF_PLACE = {"HOME", "TMPDIR", "POD_NAME", "POD_IP", "CUDA_VISIBLE_DEVICES", "PORT"}
# By these the processes of PyTorch find one another.
OF_TORCHRUN = {
    *("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK"),
    *("LOCAL_WORLD_SIZE", "LOCAL_RANK", "GROUP_RANK"),
}
FRAMEWORKS = list(jobs.ONE_PROCESS)


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The cores of the benchmark, where `make` has said that all programs take one thread."""
    machine = {"cores": CORES | {9}}
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: machine["cores"])
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, taken: machine.update(cores=set(taken)))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return bare_program.take_cores(2)


@pytest.fixture(autouse=True)
def environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environments of frameworks beside this one, without asking which are installed."""
    for name in ("tensorflow", "pytorch"):
        program = tmp_path / f".venv-{name}" / "bin" / "imagenet-train"
        program.parent.mkdir(parents=True)
        program.touch(mode=0o755)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))


class FirstWorker:
    """Runs a job under `imagenetctl run` until it would start a worker.

    Attributes:
        launch: of that worker.
    """

    def __init__(self, strategy: str, workers: int, folder: Path) -> None:
        self._job = jobs.point(strategy, workers, EPOCHS, "bench")
        # It is already prepared.
        dataset = self._job.manifest["spec"]["dataset"]
        self._job.manifest["spec"]["dataset"] = {
            "source": {"prepared": {"claimName": jobs.CLAIM, "path": "datasets/key"}},
            "preprocessing": {"format": dataset["preprocessing"].get("format", "RecordIO")},
        }
        self._folder = folder
        (folder / "volumes" / jobs.CLAIM).mkdir(parents=True)

    def launch(self, monkeypatch: pytest.MonkeyPatch) -> Launch:
        """What the worker would be started with."""
        launches: list[Launch] = []

        class Process(PodProcess):
            def __init__(self, launch: Launch) -> None:
                if "-worker-" in launch.pod:
                    launches.append(launch)
                    raise OSError("enough is known")
                super().__init__(replace(launch, command=("/bin/sleep", "60")))

        monkeypatch.setattr(kubelet, "PodProcess", Process)
        with pytest.raises(LocalError, match="enough is known"):
            Here(here.resources(self._folder), None, "text").run(self._job)
        return launches[0]


def decided(arguments: list[str] | tuple[str, ...]) -> Manifest:
    """What a command line decides, but for where it reads and writes."""
    parsed = train.parse(arguments)
    found = {title: dict(vars(group)) for title, group in parsed._asdict().items()}
    del found["output"]["output"], found["data"]["dataset"]
    return found


def differing(left: Mapping[str, str], right: Mapping[str, str]) -> set[str]:
    return {name for name in left.keys() | right.keys() if left.get(name) != right.get(name)}


def is_of_job(name: str) -> bool:
    """Whether a variable says who and where one is, and nothing of how to train."""
    return name in OF_PLACE | OF_TORCHRUN or name.startswith(("IMAGENET_", "DMLC_"))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_job_and_the_program_by_hand_train_alike(
    framework: str, cores: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.sched_setaffinity(0, cores[:1])
    strategy = jobs.ONE_PROCESS[framework].strategy
    of_job = FirstWorker(strategy, 1, tmp_path).launch(monkeypatch)
    told = bare_program.command(DATASET, EPOCHS, framework)

    assert decided(of_job.command[1:]) == decided(told[1:])
    assert Path(of_job.command[0]) == Path(told[0])
    variables = bare_program.variables(1)
    assert not {name for name in differing(of_job.environment, variables) if not is_of_job(name)}
    assert of_job.environment["OMP_NUM_THREADS"] == variables["OMP_NUM_THREADS"] == "1"


@pytest.mark.parametrize(
    ("strategy", "framework", "option", "values"),
    [
        ("parameterServer:dist_sync", "MXNet", "kv_store", ("dist_sync", "device")),
        (
            *("distributedDataParallel", "PyTorch", "distribution_strategy"),
            ("distributed_data_parallel", "single"),
        ),
    ],
)
def test_each_of_two_workers_trains_like_one_of_two_processes(
    strategy: str,
    framework: str,
    option: str,
    values: tuple[str, str],
    cores: list[int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of_job = FirstWorker(strategy, 2, tmp_path).launch(monkeypatch)
    worker = decided(of_job.command[1:])
    told = bare_program.command(DATASET, EPOCHS, framework)
    alone = decided(told[1:])

    assert Path(of_job.command[0]) == Path(told[0])
    assert (worker["cluster"].pop(option), alone["cluster"].pop(option)) == values
    # Only members of a job wait for others.
    for found in (worker, alone):
        del found["cluster"]["join_timeout"]
    assert worker == alone
    variables = bare_program.variables(2)
    assert not {name for name in differing(of_job.environment, variables) if not is_of_job(name)}
    assert of_job.environment["OMP_NUM_THREADS"] == variables["OMP_NUM_THREADS"] == "1"


@pytest.mark.parametrize("workers", [1, 2])
def test_an_epoch_has_as_many_steps_whatever_the_workers(workers: int) -> None:
    manifest = jobs.point("horovod:MXNet" if workers > 1 else "single", workers, EPOCHS, "bench")
    spec = manifest.manifest["spec"]
    assert validate(manifest.manifest) == []
    synthetic = spec["dataset"]["source"]["synthetic"]
    left = synthetic["imagesPerClass"] - spec["dataset"]["validation"]["split"]["imagesPerClass"]
    images = synthetic["classes"] * left
    assert images == workers * jobs.IMAGES
    assert images % spec["training"]["batchSize"] == 0
    assert batches_per_epoch(images, workers, jobs.BATCH, 1) == jobs.IMAGES // jobs.BATCH
    assert spec["training"]["batchSize"] == workers * jobs.BATCH


def test_cores_are_taken_and_threads_are_not_left_to_the_environment(cores: list[int]) -> None:
    assert cores == sorted(CORES)
    assert os.sched_getaffinity(0) == CORES
    assert "OMP_NUM_THREADS" not in os.environ


def test_too_few_cores_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    with pytest.raises(SystemExit, match="2 cores are needed"):
        bare_program.take_cores(2)


def test_a_speed_is_what_the_program_tells_of_itself(tmp_path: Path) -> None:
    folder = tmp_path / "attempts" / "r0"
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps({"train": {"imagesPerSecond": 750.5}}))
    assert bare_program.speed_of(tmp_path) == 750.5


def test_programs_are_measured_in_turn_and_compared_round_by_round() -> None:
    measured: list[str] = []

    def way(name: str, *speeds: float) -> Any:
        left = iter(speeds)

        def measure() -> float:
            measured.append(name)
            return next(left)

        return measure

    found = speeds.in_turn(3, {"a": way("a", 100, 900, 200), "b": way("b", 90, 990, 190)})
    assert found == {"a": [100, 900, 200], "b": [90, 990, 190]}
    assert "".join(measured) == "abbaab"
    told = speeds.table("both", found, "a", {"b": 0.98})
    assert "| a | 200 | 1.000 |  |  |" in told
    assert "| b | 190 | 0.950 | 0.900 to 1.100 | at least 0.98 |" in told


def test_programs_that_are_measured_at_once_have_their_own_speeds() -> None:
    left = iter([(90.0, 100.0), (30.0, 40.0)])
    found = speeds.in_pairs(2, ("a", "b"), lambda: next(left))
    assert found == {"a": [90, 30], "b": [100, 40]}


class Cores(here.Bench):
    """A bench whose job and bare program are as fast as the number of their core says."""

    def __init__(self) -> None:
        self.at_work: list[int] = []
        self._strategy = "single"

    def job(self, strategy: str, workers: int, epochs: int | None = None) -> float:
        (core,) = os.sched_getaffinity(0)
        assert self.at_work, "the bare program is at work already"
        assert self.at_work != [core], "each has its own core"
        return 10.0 * core

    @contextmanager
    def bare(self, cores: Sequence[int]) -> Iterator[Any]:  # type: ignore[override]
        self.at_work = list(cores)
        yield SimpleNamespace(speed=lambda: sum(self.at_work))
        self.at_work = []


def test_a_job_and_the_program_by_hand_change_cores(cores: list[int]) -> None:
    assert Cores().side_by_side(cores) == (5.5, 10 * 5.5)
    assert os.sched_getaffinity(0) == CORES


class Speeds(Cores):
    """A bench whose jobs are nine tenths as fast as the bare program."""

    def job(self, strategy: str, workers: int, epochs: int | None = None) -> float:
        assert workers == 2
        return 90.0

    def bare_speed(self, cores: Sequence[int]) -> float:
        return 50.0 * len(cores)


def test_each_strategy_of_two_workers_has_its_aim(cores: list[int]) -> None:
    strategies = ["multiWorkerMirrored", "distributedDataParallel"]
    *_, first, second = here.of_two_workers(Speeds(), 1, strategies, cores).splitlines()
    ratio = "90 | 0.900 | 0.900 to 0.900"
    assert first == f"| two workers, multiWorkerMirrored | {ratio} | at least 0.90 |"
    assert second == f"| two workers, distributedDataParallel | {ratio} | at least 0.93 |"


def test_strategies_are_compared_with_processes_of_their_own_framework() -> None:
    strategies = ["horovod:TensorFlow", "distributedDataParallel", "horovod:MXNet", "mirrored"]
    assert jobs.by_framework(strategies) == {
        "TensorFlow": ["horovod:TensorFlow", "mirrored"],
        "PyTorch": ["distributedDataParallel"],
        "MXNet": ["horovod:MXNet"],
    }


def test_the_wait_for_data_is_a_part_of_the_steps() -> None:
    phases = {"starting": 50.0, "data": 0.5, "stepping": 24.5, "evaluating": 3.0}
    assert here.waiting_share({"time": {"phases": phases}}) == 0.02


def test_a_framework_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "elsewhere" / ".venv"))
    with pytest.raises(LocalError, match="make install-pytorch"):
        bare_program.command(DATASET, EPOCHS, "PyTorch")


def test_the_command_line() -> None:
    assert not program.parser().parse_args([]).kind
    assert program.parser().parse_args(["--kind", "--runs", "5"]).runs == 5


def test_what_was_started_by_hand_ends_with_an_interrupted_measurement(tmp_path: Path) -> None:
    endless = [sys.executable, "-c", "import time; time.sleep(3600)"]
    with (
        pytest.raises(KeyboardInterrupt),
        bare_program.BareProgram(tmp_path, endless, sorted(os.sched_getaffinity(0))[:1]) as started,
    ):
        assert started.lives()
        raise KeyboardInterrupt
    assert not started.lives()
