"""The jobs of `imagenetctl bench`, and the part that limits training."""

from typing import Any

import pytest

from imagenet_operator.api.fields import JOB_NAME_MAXIMUM
from imagenet_operator.cli import files
from imagenet_operator.scaling.bottleneck import RUNS, Speeds, job_name, job_of, judge
from support import stand_ins


@pytest.mark.parametrize(
    ("reading", "network", "bottleneck", "words"),
    [
        (9000, 12000, "reading", "so the network waits at least 25 % of the time"),
        (12000, 9000, "network", "The network is the bottleneck: reading gives 12,000 images/s"),
        (899, 1000, "reading", "waits at least 10 %"),
        (901, 1000, None, "differ by less than 10 %"),
        (1000, 901, None, "differ by less than 10 %"),
        (1000, 899, "network", "the network takes 899"),
        (1000, 1000, None, "Neither"),
    ],
)
def test_the_slower_part_is_the_bottleneck(
    reading: float, network: float, bottleneck: str | None, words: str
) -> None:
    verdict = judge(Speeds(reading, network, both=min(reading, network)))

    assert verdict.bottleneck == bottleneck
    assert words in verdict.sentence


@pytest.mark.parametrize(
    ("run", "options"),
    [("reading", ["--test-io", "1"]), ("network", ["--benchmark", "1"]), ("both", [])],
)
def test_a_run_is_the_job_with_few_batches_on_the_shared_dataset(
    run: str, options: list[str]
) -> None:
    manifest: dict[str, Any] = stand_ins.job(training={"extraArgs": ["--seed", "1"]})
    manifest["spec"]["training"]["optimizer"] = {"stepEpochs": [5], "warmupEpochs": 3}

    job = job_of(manifest, run, 7)

    training = job["spec"]["training"]
    assert training["extraArgs"] == ["--seed", "1", *options, "--max-batches", "7"]
    assert job["spec"]["dataset"]["volume"] == {"claimName": "digits-dataset"}
    assert files.problems(job) == []
    assert manifest["spec"]["training"]["extraArgs"] == ["--seed", "1"]


def test_names_fit_and_differ() -> None:
    bases = ["a" * JOB_NAME_MAXIMUM, "a" * (JOB_NAME_MAXIMUM - 1) + "b", "digits"]
    found = [job_name(base, run) for base in bases for run in RUNS]
    assert len(set(found)) == len(found)
    assert max(map(len, found)) <= JOB_NAME_MAXIMUM
    assert "digits-bench-reading" in found
