"""The metrics of a worker, and its account of time: phases add up to the wall time."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from imagenet_spec import metrics
from imagenet_spec.metrics import Phase, TimePhase
from imagenet_workloads.environment import Environment
from imagenet_workloads.telemetry import training as recorders
from imagenet_workloads.telemetry.preparation import PreparationRecorder
from imagenet_workloads.telemetry.server import Registry
from imagenet_workloads.telemetry.training import TimeAccount, TrainingRecorder
from support.exported_metrics import values


def test_a_worker_s_figures(registry: Registry) -> None:
    training = TrainingRecorder(registry)
    training.plan(epochs=90, batches_per_epoch=156, rank=3)
    training.position(epoch=2, batch=40)
    training.step(images=512, step_seconds=0.5, data_wait_seconds=0.01)
    training.step(images=512, step_seconds=0.7, data_wait_seconds=0.02)
    training.exchange(0.3)
    training.exchange(0.4)
    training.reading(lambda: recorders.ReadingTimes(0.02, 0.01, 2.5, 2.0))
    for starved in (True, False, True):
        training.launched(starved)
    for seconds in (0.5, 0.1, 0.2):
        training.loop_cpu(seconds)
    training.utilization(lambda: 0.93)
    training.speed(853.3)
    training.learning_rate(lambda: 0.1)
    training.accuracy(loss=2.5, top1=0.4, top5=0.7)
    training.validation(top1=0.5, top5=0.8)
    assert values(registry) == {
        "imagenet_train_epochs": 90,
        "imagenet_train_batches_per_epoch": 156,
        "imagenet_train_rank": 3,
        "imagenet_train_epoch": 2,
        "imagenet_train_batch": 40,
        "imagenet_train_phase_work_total": 2,
        "imagenet_train_images_total": 1024,
        "imagenet_train_step_seconds_count": 2,
        "imagenet_train_step_seconds_sum": pytest.approx(1.2),
        "imagenet_train_data_wait_seconds_count": 2,
        "imagenet_train_data_wait_seconds_sum": pytest.approx(0.03),
        "imagenet_train_read_wait_seconds_total": pytest.approx(0.02),
        "imagenet_train_decode_wait_seconds_total": pytest.approx(0.01),
        "imagenet_train_decoders_seconds_total": pytest.approx(2.5),
        "imagenet_train_decoders_cpu_seconds_total": pytest.approx(2.0),
        "imagenet_train_throttled_seconds_total": 3.5,
        "imagenet_train_launched_steps_total": 3,
        "imagenet_train_starved_steps_total": 2,
        "imagenet_train_gpu_utilization_ratio": 0.93,
        "imagenet_train_loop_cpu_seconds": 0.2,
        "imagenet_train_before_exchange_seconds_total": pytest.approx(0.7),
        "imagenet_train_exchanges_total": 2,
        "imagenet_train_images_per_second": 853.3,
        "imagenet_train_learning_rate": 0.1,
        "imagenet_train_loss": 2.5,
        "imagenet_train_top1": 0.4,
        "imagenet_train_top5": 0.7,
        "imagenet_train_validation_top1": 0.5,
        "imagenet_train_validation_top5": 0.8,
        "imagenet_train_seconds_total": 0,
    }


def test_a_utilization_that_is_not_known_any_more_is_absent(registry: Registry) -> None:
    training, measured = TrainingRecorder(registry), [0.0, None, 0.5]
    training.utilization(lambda: measured.pop())
    name = "imagenet_train_gpu_utilization_ratio"
    assert [values(registry).get(name) for _ in range(3)] == [0.5, None, 0.0]


def test_no_step_is_lost_or_counted_twice_between_scrapes(registry: Registry) -> None:
    training, found = TrainingRecorder(registry), []
    for steps in (recorders.MOST_STEPS - 1, 2, 2 * recorders.MOST_STEPS, 0):
        for _ in range(steps):
            training.step(images=2, step_seconds=0.5, data_wait_seconds=0.25)
        shown = values(registry)
        assert (
            shown["imagenet_train_step_seconds_sum"] == 0.25 * shown["imagenet_train_images_total"]
        )
        found.append(shown["imagenet_train_step_seconds_count"])
    most = recorders.MOST_STEPS
    assert found == [most - 1, most + 1, 3 * most + 1, 3 * most + 1]


def test_steps_are_exact_beside_scrapes_of_several_threads(registry: Registry) -> None:
    training, ended = TrainingRecorder(registry), threading.Event()

    def scrape() -> None:
        while not ended.is_set():
            values(registry)

    with ThreadPoolExecutor(2) as scrapers:
        scrapes = [scrapers.submit(scrape) for _ in range(2)]
        for _ in range(20_000):
            training.step(images=2, step_seconds=0.5, data_wait_seconds=0.25)
        ended.set()
        for one in scrapes:
            one.result()
    assert values(registry)["imagenet_train_images_total"] == 40_000


def test_what_is_measured_is_known_as_totals_for_result_json(registry: Registry) -> None:
    training = TrainingRecorder(registry)
    training.reading(lambda: recorders.ReadingTimes(0.02, 0.01, 2.5, None))
    training.launched(False)
    assert training.measured() == {
        "imagenet_train_read_wait_seconds_total": 0.02,
        "imagenet_train_decode_wait_seconds_total": 0.01,
        "imagenet_train_decoders_seconds_total": 2.5,
        "imagenet_train_throttled_seconds_total": 3.5,
        "imagenet_train_launched_steps_total": 1,
        "imagenet_train_starved_steps_total": 0,
    }


def test_rank_0_has_the_seconds_of_steps_since_its_newest_checkpoint(registry: Registry) -> None:
    training = TrainingRecorder(registry)
    training.plan(epochs=90, batches_per_epoch=156, rank=0)
    found = []
    for _ in range(2):
        training.step(images=512, step_seconds=0.5, data_wait_seconds=0.1)
        training.step(images=512, step_seconds=0.7, data_wait_seconds=0.1)
        training.copied()
        training.step(images=512, step_seconds=0.5, data_wait_seconds=0.1)
        found.append(values(registry)["imagenet_train_unsaved_seconds"])
        training.checkpoint(1)
        found.append(values(registry)["imagenet_train_unsaved_seconds"])
    assert found == pytest.approx([1.4, 0.4, 1.8, 0.4])


def test_a_phase_counts_its_own_work(registry: Registry) -> None:
    training = TrainingRecorder(registry)
    training.work()
    training.phase(metrics.Phase.TRAINING)
    training.step(images=512, step_seconds=0.5, data_wait_seconds=0.01)
    training.phase(metrics.Phase.SAVING)
    labelled = {
        (sample.name, sample.labels["phase"]): sample.value
        for family in registry.exported.collect()
        for sample in family.samples
        if sample.name.startswith("imagenet_train_phase") and "phase" in sample.labels
    }
    assert labelled == {
        ("imagenet_train_phase", "training"): 0,
        ("imagenet_train_phase", "saving"): 1,
        ("imagenet_train_phase_work_total", "training"): 2,
        ("imagenet_train_phase_work_total", "saving"): 1,
    }


def test_figures_that_nobody_measures_stay_absent(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorders, "throttled_seconds", lambda: None)
    training = TrainingRecorder(registry)
    training.accuracy(top1=0.4)
    training.validation(top1=0.5)
    assert set(values(registry)) == {
        "imagenet_train_top1",
        "imagenet_train_validation_top1",
        "imagenet_train_seconds_total",
    }


def test_the_recorders_write_every_metric_that_is_named(registry: Registry) -> None:
    training = TrainingRecorder(registry)
    training.plan(1, 1, 0)
    training.phase(metrics.Phase.TRAINING)
    training.position(0, 0)
    training.step(1, 1.0, 1.0)
    training.exchange(1.0)
    training.reading(lambda: recorders.ReadingTimes(1.0, 1.0, 1.0, 1.0))
    training.launched(True)
    training.utilization(lambda: 0.5)
    training.loop_cpu(0.001)
    training.compiled(True)
    training.checkpoint_stall(0.01, 600.0)
    training.speed(1.0)
    training.learning_rate(lambda: 0.1)
    training.accuracy(1.0, 1.0, 1.0)
    training.validation(1.0, 1.0)
    training.checkpoint(1)
    preparation = PreparationRecorder(registry)
    preparation.listing_estimated(1, 100, 1)
    preparation.packing_estimated(1, 100, 1)
    preparation.planned(1)
    preparation.packed(1, 100)
    preparation.decoded(500.0)
    preparation.requested(1, 100)
    preparation.fetch_files(2)
    preparation.fetch_asked()
    preparation.fetch_planned(200)
    preparation.fetched(100)
    written = {name.removesuffix("_sum").removesuffix("_count") for name in values(registry)}
    assert written == {
        metric.name
        for metric in (
            *metrics.TRAINING,
            *metrics.CHECKPOINTS,
            *metrics.MEASURED,
            *metrics.PREPARATION,
        )
    }


def test_a_worker_is_at_work_with_its_first_batch(registry: Registry) -> None:
    training = TrainingRecorder(registry)
    training.plan(epochs=1, batches_per_epoch=2, rank=0)
    training.position(epoch=0, batch=1)
    assert training.readiness() == "no batch is trained yet"
    training.step(images=8, step_seconds=0.1, data_wait_seconds=0.0)
    assert training.readiness() is None


def test_a_worker_that_only_evaluates_is_at_work_with_that(registry: Registry) -> None:
    training = TrainingRecorder(registry)
    training.plan(epochs=1, batches_per_epoch=2, rank=0)
    training.validation(top1=0.5)
    assert training.readiness() is None
    assert values(registry)["imagenet_train_unsaved_seconds"] == 0


class Scene:
    """A recorder whose clock the test sets; the process is 3 seconds old."""

    def __init__(self) -> None:
        self.now = 100.0
        self.registry = Registry(Environment())
        self.account = TimeAccount(3.0, lambda: self.now)
        self.recorder = TrainingRecorder(self.registry, self.account)

    def spend(self, seconds: float, phase: Phase | TimePhase) -> None:
        if isinstance(phase, Phase):
            self.recorder.phase(phase)
        else:
            self.account.enter(phase)
        self.now += seconds

    def step(self, seconds: float, waited: float, redone: bool = False) -> None:
        self.now += seconds
        self.recorder.step(8, seconds, waited, redone)

    def spent(self) -> dict[str, float]:
        return {
            phase.value: seconds for phase, seconds in self.account.seconds().items() if seconds
        }

    def exported(self) -> dict[str, float]:
        return {
            sample.labels["phase"]: sample.value
            for family in self.registry.exported.collect()
            for sample in family.samples
            if sample.name == "imagenet_train_seconds_total" and sample.value
        }


def test_the_phases_add_up_to_the_wall_time() -> None:
    scene = Scene()
    scene.spend(10, TimePhase.JOINING)
    scene.spend(2, TimePhase.STARTING)
    scene.spend(4, Phase.RESUMING)
    scene.spend(1, Phase.TRAINING)
    scene.recorder.begin_steps()
    scene.step(2, 0.5, redone=True)
    scene.step(3, 1)
    scene.spend(5, Phase.SAVING)
    scene.spend(0, Phase.TRAINING)
    scene.recorder.begin_steps()
    scene.step(2, 0)
    scene.spend(6, Phase.EVALUATING)
    scene.spend(7, Phase.EXPORTING)
    scene.spend(1, Phase.ENDING)
    assert scene.spent() == {
        "starting": 5,
        "joining": 10,
        "restoring": 4,
        "data": 2,
        "stepping": 4,
        "redone": 2,
        "checkpointing": 5,
        "evaluating": 6,
        "exporting": 7,
        "ending": 1,
    }
    assert sum(scene.spent().values()) == scene.now - 97
    assert scene.exported() == scene.spent()


def test_a_phase_is_exported_while_it_lasts() -> None:
    scene = Scene()
    scene.spend(10, TimePhase.JOINING)
    assert scene.exported() == {"starting": 3, "joining": 10}
    scene.now += 5
    assert scene.exported() == {"starting": 3, "joining": 15}


def test_a_step_that_hangs_is_no_training() -> None:
    scene = Scene()
    scene.spend(1, Phase.TRAINING)
    scene.recorder.begin_steps()
    scene.step(2, 0)
    scene.now += 1000
    assert scene.exported() == {"starting": 3, "data": 1, "stepping": 2}


@pytest.mark.parametrize("waited", [5.0, 7.0])
def test_a_slow_source_of_data_is_a_wait_for_data(waited: float) -> None:
    scene = Scene()
    scene.spend(0, Phase.TRAINING)
    scene.recorder.begin_steps()
    scene.step(waited, waited)
    assert scene.spent() == {"starting": 3, "data": waited}


def test_a_process_knows_its_age() -> None:
    program = (
        "import sys, time\n"
        "from imagenet_workloads.telemetry.training import process_age\n"
        "now = lambda: time.clock_gettime(time.CLOCK_BOOTTIME)\n"
        "print(now(), process_age(), now(), flush=True)\n"
        "sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        before, age, after = map(float, process.stdout.readline().split())
        ticks = int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19])
    started = ticks / os.sysconf("SC_CLK_TCK")
    assert before - age <= started <= after - age
