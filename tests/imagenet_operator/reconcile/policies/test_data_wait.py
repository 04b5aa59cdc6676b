"""Data wait: reading compared with the network, and what to change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from imagenet_operator.api import ImageNetJob
from imagenet_operator.api.status import DataWaitStatus, TrainingStatus
from imagenet_operator.reconcile.policies import data_wait
from imagenet_operator.reconcile.sample import Sample
from imagenet_operator.reconcile.step_window import Steps, StepWindow
from support.attempt_members import NOW
from support.job_table import BUCKET, manifest

WINDOW = Steps(of_each=100, steps=800, images=90_000, seconds=80.0, waited=20.0)
"""8 workers in 10 s: 9,000 images/s, a quarter of which they waited."""

CPUS = {"spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "4"}}}]}}
REQUESTED = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": 3}}}]}}
ENOUGH = {"spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "6"}}}]}}
IN_A_BUCKET = {"source": {"prepared": {"s3": BUCKET}}, "volume": None}
ON_A_CLAIM = {"source": {"prepared": {"claimName": "sets", "path": "a"}}, "volume": None}
OUTPUT: dict[str, Any] = {"output": {"volume": {"claimName": "results"}}}


def job(
    *, core: float | None = None, dataset: dict[str, Any] | None = None, **training: Any
) -> ImageNetJob:
    """A job of 8 workers with GPUs, whose pack has measured the speed of a core."""
    workers = {"replicas": 8, "gpus": 1, **training.pop("workers", {})}
    built = manifest(dataset=dataset, training={"workers": workers, **training})
    if built["spec"]["dataset"]["volume"] is None:
        del built["spec"]["dataset"]["volume"]
    if core is not None:
        counts = {"key": "k", "classes": 9, "images": {}, "shards": 1}
        built["status"] = {"dataset": {**counts, "decodedImagesPerSecond": core}}
    return ImageNetJob.model_validate(built)


HEAD = "8 workers read 9,000 images/s, the network takes 12,000: 25 % of GPU time waits; "
THREADS = "spec.training.dataThreads"
LIMIT = "resources.limits.cpu in spec.training.workers.template"
REQUEST = "resources.requests.cpu in spec.training.workers.template"
SMALLER = ", or write spec.dataset.preprocessing.resize"
UNMEASURED = "the cause was not measured; possible changes: "
FASTER = "use a faster volume in spec.dataset.volume"


@pytest.mark.parametrize(
    ("found", "advice"),
    [
        pytest.param(
            job(),
            f"{UNMEASURED}raise {LIMIT}{SMALLER}, or {FASTER}",
            id="core unknown",
        ),
        pytest.param(
            job(dataset={"preprocessing": {"resize": 480}}),
            f"{UNMEASURED}raise {LIMIT}, or write a smaller "
            f"spec.dataset.preprocessing.resize, or {FASTER}",
            id="large images",
        ),
        pytest.param(
            job(dataset={"preprocessing": {"resize": 256}}),
            f"{UNMEASURED}raise {LIMIT}, or {FASTER}",
            id="small images",
        ),
        pytest.param(
            job(core=250.0, dataThreads=4),
            "at 250 images/s a core, decoding needs 6 cores a worker: "
            f"raise {THREADS} from 4 to 6{SMALLER}",
            id="too few threads",
        ),
        pytest.param(
            job(dataThreads=4),
            f"{UNMEASURED}raise {THREADS} and {LIMIT}{SMALLER}, or {FASTER}",
            id="core unknown, threads written",
        ),
        pytest.param(
            job(core=250.0, workers={"template": CPUS}),
            "at 250 images/s a core, decoding needs 6 cores a worker, beside that of training: "
            f"raise {LIMIT} from 4 to 7{SMALLER}",
            id="too few CPUs beside the process that trains",
        ),
        pytest.param(
            job(core=250.0, dataThreads=8, workers={"template": CPUS}),
            "at 250 images/s a core, decoding needs 6 cores a worker: "
            f"raise {LIMIT} from 4 to 6{SMALLER}",
            id="too few CPUs",
        ),
        pytest.param(
            job(core=250.0, dataThreads=4, workers={"template": REQUESTED}),
            "at 250 images/s a core, decoding needs 6 cores a worker: "
            f"raise {THREADS} from 4 to 6 and {LIMIT} from 3 to 6{SMALLER}",
            id="too few of both",
        ),
        pytest.param(
            job(core=250.0, dataThreads=8),
            "at 250 images/s a core, decoding needs 6 cores a worker; "
            f"{UNMEASURED}write {REQUEST}, or {FASTER}",
            id="CPUs unknown",
        ),
        pytest.param(
            job(core=250.0, dataThreads=8, workers={"template": ENOUGH}),
            "at 250 images/s a core, decoding needs 6 cores a worker, which it has; "
            f"{UNMEASURED}{FASTER}",
            id="enough cores",
        ),
        pytest.param(
            job(dataset=IN_A_BUCKET, **OUTPUT),
            f"{UNMEASURED}raise {LIMIT}, or write spec.training.workers.cache",
            id="a bucket without a cache",
        ),
        pytest.param(
            job(dataset=IN_A_BUCKET, workers={"cache": {"size": "9Gi"}}, **OUTPUT),
            f"{UNMEASURED}raise {LIMIT}, or use a faster spec.training.workers.cache",
            id="a bucket with a cache",
        ),
        pytest.param(
            job(dataset=ON_A_CLAIM),
            f"{UNMEASURED}raise {LIMIT}, or use a faster volume in spec.dataset.source",
            id="a prepared dataset",
        ),
    ],
)
def test_a_long_wait_names_what_to_change(found: ImageNetJob, advice: str) -> None:
    expected = DataWaitStatus(
        images_per_second=9000.0,
        network_images_per_second=12000.0,
        share=0.25,
        message=HEAD + advice,
    )
    assert data_wait.compared(found, WINDOW) == expected


def test_an_attempt_with_fewer_workers_is_told_of_these() -> None:
    elastic = job(core=250.0, dataThreads=8, workers={"template": CPUS})
    training = TrainingStatus(workers=6)
    elastic = elastic.model_copy(
        update={"status": elastic.status.model_copy(update={"training": training})}
    )
    found = data_wait.compared(elastic, WINDOW)
    assert found is not None
    assert found.message.startswith("6 workers read 9,000 images/s")
    assert "decoding needs 8 cores a worker" in found.message


@pytest.mark.parametrize(
    ("waited", "workers", "message"),
    [
        (0.0, {}, "8 workers read 9,000 images/s and do not wait for data"),
        (0.2, {"replicas": 1}, "the worker reads 9,000 images/s and does not wait for data"),
        (
            8.0,
            {"gpus": 0},
            "8 workers read 9,000 images/s, the network takes 10,000: "
            "10 % of the workers' time waits",
        ),
        (
            4.0,
            {"replicas": 1},
            "the worker reads 9,000 images/s, the network takes 9,474: 5 % of GPU time waits",
        ),
    ],
)
def test_a_short_wait_needs_no_change(waited: float, workers: dict[str, Any], message: str) -> None:
    found = data_wait.compared(job(workers=workers), replace(WINDOW, waited=waited))
    assert found is not None
    assert not data_wait.is_too_long(found)
    assert found.message == message


@pytest.mark.parametrize(
    "window",
    [
        replace(WINDOW, waited=80.0),
        replace(WINDOW, waited=-1.0),
        replace(WINDOW, images=0.0),
        replace(WINDOW, steps=-800.0),
        replace(WINDOW, seconds=5e-324, waited=0.0),
    ],
)
def test_impossible_values_have_no_comparison(window: Steps) -> None:
    assert data_wait.compared(job(), window) is None


FORMER = DataWaitStatus(images_per_second=1.0, network_images_per_second=2.0, share=0.5)
RUNNING = Sample(NOW, attempt=1, steps=StepWindow(WINDOW, WINDOW))


@pytest.mark.parametrize(
    "sample",
    [
        None,
        Sample(NOW, attempt=1),
        Sample(NOW, attempt=1, steps=StepWindow(WINDOW)),
        replace(RUNNING, attempt=0),
    ],
)
def test_without_a_window_of_this_attempt_the_comparison_stays(sample: Sample | None) -> None:
    assert data_wait.carried(FORMER, job(), 1, sample) == FORMER
    assert data_wait.carried(None, job(), 1, sample) is None


def test_a_window_of_the_attempt_replaces_the_comparison() -> None:
    found = data_wait.carried(FORMER, job(), 1, RUNNING)
    assert found is not None
    assert found.images_per_second == 9000.0


@pytest.mark.parametrize(
    ("before", "after", "is_worth"),
    [
        (None, None, False),
        (None, 0.0, True),
        (0.0, 0.05, False),
        (0.09, 0.11, True),
        (0.3, 0.34, False),
        (0.3, 0.36, True),
    ],
)
def test_what_is_worth_a_write(before: float | None, after: float | None, is_worth: bool) -> None:
    def status(share: float | None) -> DataWaitStatus | None:
        return None if share is None else FORMER.model_copy(update={"share": share})

    def sample(share: float | None) -> Sample:
        window = None if share is None else replace(WINDOW, waited=80 * share)
        return Sample(NOW, steps=StepWindow(WINDOW, window))

    assert data_wait.is_worth_a_write(status(before), status(after)) == is_worth
    assert data_wait.is_visible(sample(before), sample(after)) == is_worth
