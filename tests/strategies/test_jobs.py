"""The example of handwritten digits in every strategy: whole jobs, with real processes.

make test-strategies
"""

import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from imagenet_operator.scaling.variants import read
from imagenet_spec import events
from imagenet_spec.metrics import (
    TRAIN_BEFORE_EXCHANGE,
    TRAIN_EXCHANGES,
    TRAINING,
    Metric,
)
from imagenet_spec.names import EVENTS_FILE
from support.processes import wait_until
from support.training_cluster import ask
from support.whole_jobs import MANY_WORKERS, STRATEGIES, WholeJob, digits, make_digits

# Two trainings of all processes, beside another test.
pytestmark = pytest.mark.timeout(900)

EPOCHS = 5
"""So many that a job can be killed after the first."""

EXCHANGE = (TRAIN_BEFORE_EXCHANGE, TRAIN_EXCHANGES)
ASYNCHRONOUS = "parameterServer:dist_async"
"""The one that is not expected to learn what one process learns: each worker's gradients are of
weights that the other has changed meanwhile."""

MEASURED = [name for name in MANY_WORKERS if name != ASYNCHRONOUS]
"""The strategies whose workers measure the time before an exchange of gradients."""


@pytest.fixture(scope="module")
def workdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory with the archive, in which the jobs find each other's dataset."""
    folder = tmp_path_factory.mktemp("strategies")
    make_digits(folder)
    return folder


def job(workdir: Path, strategy: str, name: str) -> WholeJob:
    manifest = digits(strategy, name)
    manifest["spec"]["dataset"]["volume"] = {"claimName": "digits-dataset"}
    manifest["spec"]["training"] |= {"epochs": EPOCHS}
    manifest["spec"]["training"]["optimizer"]["stepEpochs"] = [EPOCHS - 1]
    (workdir / "volumes" / "digits-dataset").mkdir(exist_ok=True)
    return WholeJob(workdir, manifest)


def victim(strategy: str) -> str:
    """Who is killed: the last worker; where two strategies are one but for the framework, another.

    A parameter server's other members are killed in tests/imagenet_operator/cli.
    """
    if strategy == "horovod:TensorFlow":
        return "r0-rendezvous-0"
    return f"r0-worker-{int(strategy in MANY_WORKERS)}"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_digits_are_learned_although_somebody_dies_and_told_of_in_the_same_words(
    workdir: Path, strategy: str
) -> None:
    whole = job(workdir, strategy, read(strategy).slug)
    workers = [f"r0-worker-{index}" for index in range(1 + (strategy in MANY_WORKERS))]
    # If workers do not wait for each other, only the first one evaluates.
    told_by = any if strategy == ASYNCHRONOUS else all
    expected = [metric for metric in TRAINING if metric not in EXCHANGE or strategy in MEASURED]

    with whole.running() as process:
        whole.wait_for_checkpoint(0)
        places = [whole.address(worker) for worker in workers]
        wait_until(
            lambda: told_by([tells_of(expected, *place) for place in places]),
            "the workers serve every metric",
        )
        os.kill(whole.program(victim(strategy)), signal.SIGKILL)
        result = whole.finished(process)

    assert result["outcome"] == "Succeeded"
    assert (result["restarts"], result["disruptions"]) == (1, 0)
    assert result["attempt"] == 1
    assert result["validation"]["images"] == 180
    assert result["validation"]["top1"] >= (0.85 if strategy == ASYNCHRONOUS else 0.93)
    assert result["written"]["framework"] == (read(strategy).framework or "MXNet")
    assert result["written"]["epochs"] == EPOCHS
    epochs, batches = position(result["written"]["resumedFrom"])
    assert epochs > 0
    trained = EPOCHS - epochs
    # Of both workers together, in whichever way they share the images out: 1437 an epoch. Workers
    # that end in the middle of one, because another member died, save its batches.
    images = trained * 1437 - batches * whole.manifest["spec"]["training"]["batchSize"]
    assert result["written"]["train"]["images"] == pytest.approx(images, rel=0.06)
    log = Path(result["model"]["folder"]) / EVENTS_FILE
    kinds = [type(event) for _, event in events.read_events(log)]
    assert kinds[0] is events.Started
    assert kinds[-1] is events.Finished
    assert kinds.count(events.Validated) == kinds.count(events.EpochFinished) == trained
    assert events.Progress in kinds
    assert events.CheckpointWritten in kinds


def position(checkpoint: str | None) -> tuple[int, int]:
    """The epochs and the batches before a checkpoint, by its name: epoch-0004-batch-00000002."""
    if checkpoint is None:
        return 0, 0
    _, epoch, _, batch = Path(checkpoint).name.split("-")
    return int(epoch), int(batch)


def tells_of(expected: Sequence[Metric], host: str, port: int) -> bool:
    """Whether a worker serves all of these metrics: some come with the first evaluation."""
    text = ask(host, port, "/metrics")[1]
    return all(f"\n# TYPE {metric.name} " in text for metric in expected)
