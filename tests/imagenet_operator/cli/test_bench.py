"""`imagenetctl bench`, as a process, on stand-ins and on the real programs."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from imagenet_operator.cli.bench import RUNS, Speeds, explain, job_name, job_of, judge
from imagenet_operator.cli.result import Result
from imagenet_operator.reconcile.policies import data_wait
from imagenet_operator.sdk import submission
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.fields import JOB_NAME_MAXIMUM
from support import job_table, stand_ins
from support.programs import SCRIPTS, call
from support.sentences import assert_says
from support.stand_ins import Finished, Workplace

TINY: dict[str, Any] = {
    "apiVersion": "imagenet.dev/v1alpha1",
    "kind": "ImageNetJob",
    "metadata": {"name": "tiny"},
    "spec": {
        "dataset": {
            "source": {
                "synthetic": {"classes": 2, "imagesPerClass": 60, "imageShape": [3, 32, 32]}
            },
            "validation": {"split": {"imagesPerClass": 10}},
            "preprocessing": {"shards": 1, "parallelism": 1, "minImagesPerClass": 50},
            "volume": {"size": "1Gi"},
        },
        "training": {
            "strategy": {"single": {"kvStore": "local"}},
            "model": {"network": "mlp", "imageShape": [3, 28, 28]},
            "batchSize": 20,
            "epochs": 3,
            "optimizer": {"stepEpochs": [2], "warmupEpochs": 1},
            "dataThreads": 1,
            "workers": {"replicas": 1},
        },
    },
}


def bench(workplace: Workplace, *options: str) -> Finished:
    return workplace.start(
        "bench", workplace.manifest, "--workdir", workplace.workdir, *options
    ).finish()


@pytest.mark.costly
def test_the_slower_part_is_named(workplace: Workplace) -> None:
    finished = bench(workplace)

    assert finished.code == 0, finished.errors
    *rows, sentence = finished.output.splitlines()
    assert [row.split()[-1] for row in rows[-3:]] == ["500.0", "600.0", "450.0"]
    figures = ("500 images/s", "600", "17 %")
    assert_says(sentence, "Reading is the bottleneck", *figures, "faster volume", "dataset.volume")
    packs = [name for name in workplace.pods() if "pack" in name]
    assert len(packs) == 2
    assert all("bench-reading" in name for name in packs)


def test_a_failed_run_ends_it(workplace: Workplace) -> None:
    workplace.behaviour = {"index": "exit 2"}

    finished = bench(workplace, "--output", "json")

    assert finished.code == 1
    assert json.loads(finished.output.splitlines()[-1])["outcome"] == "Failed"
    assert not [name for name in workplace.pods() if "bench-network" in name]


def test_a_program_of_the_user_is_refused(workplace: Workplace) -> None:
    job = stand_ins.job()
    container = {"name": "main", "command": ["train.sh"]}
    job["spec"]["training"]["image"] = "registry.example/mine:1"
    job["spec"]["training"]["workers"]["template"] = {"spec": {"containers": [container]}}
    workplace.write(job)

    finished = bench(workplace)

    assert finished.code == 2
    assert "bench measures imagenet-train" in finished.errors
    assert workplace.started() == []


@pytest.mark.costly
def test_real_programs_are_measured(tmp_path: Path) -> None:
    manifest = tmp_path / "tiny.yaml"
    manifest.write_text(yaml.safe_dump(TINY))
    options = ("--batches", "2", "--workdir", tmp_path, "--output", "json")

    output = call(SCRIPTS / "imagenetctl", "bench", manifest, *options)

    last = json.loads(output.splitlines()[-1])
    assert set(last) == {"type", "imagesPerSecond", "bottleneck", "cause", "sentence"}
    assert min(last["imagesPerSecond"][run] for run in ("reading", "network", "both")) > 0
    (read,) = tmp_path.glob("volumes/*/jobs/tiny-bench-reading-*/attempts/r0/result.json")
    found = json.loads(read.read_text())
    assert found["reading"]["images"] == 2 * 20
    assert found["train"]["measured"]["imagenet_train_decoders_seconds_total"] > 0
    (both,) = tmp_path.glob("volumes/*/jobs/tiny-bench-both-*/attempts/r0/result.json")
    trained = json.loads(both.read_text())["train"]
    assert trained["loopCpuSeconds"] > 0
    # On a CPU, the calls of the framework compute: nothing waits for launches.
    assert "imagenet_train_launched_steps_total" not in trained["measured"]


def speeds_and_cause(
    steps: dict[str, float], network: float = 100.0
) -> tuple[data_wait.Cause | None, str]:
    """What is said of a job on GPUs whose network is slower than its reading of 500 images/s."""
    workers = {"replicas": 1, "gpus": 1}
    job = ImageNetJob.model_validate(job_table.manifest(training={"workers": workers}))
    end = Result(job, 1.0, Path(), None, {"train": {"measured": steps}}, None, None, None)
    speeds = Speeds(500.0, network, network)
    return explain(speeds, judge(speeds).bottleneck, {"network": end})


@pytest.mark.parametrize(
    ("launched", "starved", "cause", "facts"),
    [
        (100, 99, data_wait.Cause.LAUNCHES, ("GPUs wait", "launch steps: ")),
        (100, 2, None, ("in 2% of its steps", "GPUs wait", "launch steps")),
        (0, 0, None, ("GPUs wait", "launch steps", "not measured")),
    ],
)
def test_a_network_that_is_slower_waits_for_launches_or_not(
    launched: int, starved: int, cause: data_wait.Cause | None, facts: tuple[str, ...]
) -> None:
    steps = {
        "imagenet_train_launched_steps_total": float(launched),
        "imagenet_train_starved_steps_total": float(starved),
    }
    found, said = speeds_and_cause(steps if launched else {})
    assert found is cause
    assert_says(said, *facts)


def test_where_neither_part_is_slower_nothing_is_explained() -> None:
    assert speeds_and_cause({}, 500.0) == (None, "")


@pytest.mark.parametrize(
    ("reading", "network", "bottleneck", "words"),
    [
        (9000, 12000, "reading", "waits at least 25 %"),
        (12000, 9000, "network", "reading gives 12,000"),
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
    assert submission.problems(job) == []
    assert manifest["spec"]["training"]["extraArgs"] == ["--seed", "1"]


def test_names_fit_and_differ() -> None:
    bases = ["a" * JOB_NAME_MAXIMUM, "a" * (JOB_NAME_MAXIMUM - 1) + "b", "digits"]
    found = [job_name(base, run) for base in bases for run in RUNS]
    assert len(set(found)) == len(found)
    assert max(map(len, found)) <= JOB_NAME_MAXIMUM
    assert "digits-bench-reading" in found
