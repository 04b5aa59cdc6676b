"""The account of a worker's time: every second is in one phase."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from imagenet_spec.metrics import Phase, TimePhase
from imagenet_workloads.environment import Environment
from imagenet_workloads.telemetry.registry import Registry
from imagenet_workloads.telemetry.training import TimeAccount, TrainingRecorder


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
