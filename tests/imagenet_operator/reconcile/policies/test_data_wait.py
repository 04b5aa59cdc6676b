"""Data wait: reading compared with the network, and what to change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from imagenet_operator.reconcile.policies import data_wait
from imagenet_operator.reconcile.policies.data_wait import Cause
from imagenet_operator.reconcile.sample import Sample
from imagenet_operator.reconcile.windows import Steps, StepWindow
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.status import DataWaitStatus, TrainingStatus
from support.attempt_members import NOW
from support.job_table import BUCKET, manifest
from support.sentences import assert_says

WINDOW = Steps(of_each=100, steps=800, images=90_000, seconds=80.0, waited=20.0)
"""8 workers in 10 s: 9,000 images/s, a quarter of which they waited."""

CPUS = {"spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "4"}}}]}}
REQUESTED = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": 3}}}]}}
EIGHT = {"containers": [{"name": "main", "resources": {"limits": {"cpu": "8"}}}]}
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
SIX = " (decoding needs 6 cores a worker, at 250 images/s a core)"
BESIDE = SIX.replace(" a worker", " a worker beside 1 for each process")
TWO: dict[str, Any] = {
    "framework": "PyTorch",
    "strategy": {"distributedDataParallel": {}},
    "batchSize": 1600,
}
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
            job(core=250.0, dataThreads=4, workers={"template": ENOUGH}),
            f"{UNMEASURED}raise {THREADS} from 4 to 6{SIX}{SMALLER}, or {FASTER}",
            id="too few threads",
        ),
        pytest.param(
            job(core=250.0, dataThreads=3, workers={"template": ENOUGH, "gpus": 2}, **TWO),
            f"{UNMEASURED}{FASTER}",
            id="threads of two processes",
        ),
        pytest.param(
            job(dataThreads=4),
            f"{UNMEASURED}raise {THREADS} and {LIMIT}{SMALLER}, or {FASTER}",
            id="core unknown, threads written",
        ),
        pytest.param(
            job(core=250.0, workers={"template": CPUS}),
            f"{UNMEASURED}raise {LIMIT} from 4 to 7{BESIDE}{SMALLER}, or {FASTER}",
            id="too few CPUs beside the process that trains",
        ),
        pytest.param(
            job(core=250.0, dataThreads=8, workers={"template": CPUS}),
            f"{UNMEASURED}raise {LIMIT} from 4 to 6{SIX}{SMALLER}, or {FASTER}",
            id="too few CPUs",
        ),
        pytest.param(
            job(core=250.0, dataThreads=4, workers={"template": REQUESTED}),
            f"{UNMEASURED}raise {THREADS} from 4 to 6 and raise {LIMIT} from 3 to 6{SIX}{SMALLER}, "
            f"or {FASTER}",
            id="too few of both",
        ),
        pytest.param(
            job(core=250.0, dataThreads=8),
            f"{UNMEASURED}write {REQUEST}: 6{SIX}{SMALLER}, or {FASTER}",
            id="CPUs unknown",
        ),
        pytest.param(
            job(core=250.0, dataThreads=8, workers={"template": ENOUGH}),
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


READS = replace(WINDOW, read_waited=15.0, decode_waited=5.0)
DECODERS = replace(WINDOW, decode_waited=15.0, decoded=300.0, decoded_cpu=290.0)


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        pytest.param(WINDOW, None, id="nothing measured"),
        pytest.param(READS, Cause.READS, id="a slow disk or server"),
        pytest.param(DECODERS, Cause.DECODERS, id="decoders that are busy"),
        pytest.param(replace(DECODERS, decoded_cpu=200.0), Cause.CORES, id="runnable, not running"),
        pytest.param(replace(DECODERS, decoded_cpu=0.0), Cause.DECODERS, id="threads"),
        pytest.param(
            replace(DECODERS, decoded_cpu=0.0, throttled=20.0), Cause.CORES, id="throttled threads"
        ),
        pytest.param(replace(DECODERS, throttled=2.0), Cause.DECODERS, id="hardly throttled"),
        pytest.param(
            replace(WINDOW, read_waited=8.0, decode_waited=8.0), None, id="neither for most of it"
        ),
    ],
)
def test_a_cause_is_what_most_of_the_wait_was_for(window: Steps, expected: Cause | None) -> None:
    assert data_wait.cause(window) is expected


@pytest.mark.parametrize(
    ("found", "window", "advice"),
    [
        pytest.param(job(core=250.0), READS, f"records to be read: {FASTER}", id="a slow disk"),
        pytest.param(
            job(dataset=IN_A_BUCKET, **OUTPUT),
            READS,
            "records to be read: write spec.training.workers.cache",
            id="a slow server",
        ),
        pytest.param(
            job(core=250.0, dataThreads=4, workers={"template": ENOUGH}),
            DECODERS,
            f"decoders, which all have a core: raise {THREADS} from 4 to 6{SIX}{SMALLER}",
            id="too few decoders",
        ),
        pytest.param(
            job(core=250.0, dataThreads=8, workers={"template": CPUS}),
            replace(DECODERS, decoded_cpu=100.0),
            f"decoders that get no core: raise {LIMIT} from 4 to 6{SIX}{SMALLER}",
            id="too few cores",
        ),
        pytest.param(
            job(core=250.0, workers={"template": {"spec": EIGHT}}),
            replace(DECODERS, decoded_cpu=100.0),
            f"decoders that get no core: raise {LIMIT}{SMALLER}",
            id="too few cores although pack was faster",
        ),
    ],
)
def test_a_cause_that_was_measured_is_named_with_what_helps(
    found: ImageNetJob, window: Steps, advice: str
) -> None:
    comparison = data_wait.compared(found, window)
    assert comparison is not None
    assert comparison.message == f"{HEAD}most of it for {advice}"


LAUNCHES = replace(WINDOW, waited=4.0, launched=800.0, starved=500.0)
BATCH = "raise spec.training.batchSize"


@pytest.mark.parametrize(
    ("found", "window", "advice"),
    [
        pytest.param(
            job(compile=False), LAUNCHES, f"remove spec.training.compile, or {BATCH}", id="eager"
        ),
        pytest.param(job(), LAUNCHES, BATCH, id="compiled by default"),
        pytest.param(job(compile=True), LAUNCHES, BATCH, id="compiled"),
        pytest.param(job(deterministic=True), LAUNCHES, BATCH, id="not to be compiled"),
        pytest.param(job(), replace(LAUNCHES, starved=300.0), None, id="in few steps"),
        pytest.param(job(), replace(LAUNCHES, launched=0.0, starved=0.0), None, id="not measured"),
    ],
)
def test_a_gpu_that_waits_for_launches_is_named_where_data_is_not_waited_for(
    found: ImageNetJob, window: Steps, advice: str | None
) -> None:
    comparison = data_wait.compared(found, window)
    assert comparison is not None
    assert comparison.cause == (advice and "Launches")
    assert data_wait.is_worth_an_event(comparison) == (advice is not None)
    speeds, _, said = comparison.message.partition("; ")
    assert speeds.endswith("5 % of GPU time waits")
    assert said == (f"GPUs wait for the program to launch steps: {advice}" if advice else "")


def test_data_that_is_waited_for_comes_before_launches() -> None:
    comparison = data_wait.compared(job(), replace(READS, launched=800.0, starved=800.0))
    assert comparison is not None
    assert comparison.cause == "Reads"


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
    ("waited", "workers", "facts"),
    [
        (0.0, {}, ["8 workers read 9,000 images/s", "do not wait for data"]),
        (0.2, {"replicas": 1}, ["the worker reads 9,000 images/s", "does not wait for data"]),
        (
            8.0,
            {"gpus": 0},
            ["8 workers", "9,000 images/s", "network takes 10,000: ", "10 % of the workers' time"],
        ),
        (
            4.0,
            {"replicas": 1},
            ["the worker", "9,000 images/s", "network takes 9,474: ", "5 % of GPU time"],
        ),
    ],
)
def test_a_short_wait_needs_no_change(
    waited: float, workers: dict[str, Any], facts: list[str]
) -> None:
    found = data_wait.compared(job(workers=workers), replace(WINDOW, waited=waited))
    assert found is not None
    assert not data_wait.is_too_long(found)
    assert_says(found.message, *facts)
    assert ";" not in found.message, "what would help is for a long wait"


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
