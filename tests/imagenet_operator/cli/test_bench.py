"""`imagenetctl bench`, as a process, on stand-ins and on the real programs."""

import json
from pathlib import Path
from typing import Any

import yaml

from support import stand_ins
from support.programs import SCRIPTS, call
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


def test_the_slower_part_is_named(workplace: Workplace) -> None:
    finished = bench(workplace)

    assert finished.code == 0, finished.errors
    *rows, sentence = finished.output.splitlines()
    assert [row.split()[-1] for row in rows[-3:]] == ["500.0", "600.0", "450.0"]
    assert sentence.startswith("Reading is the bottleneck")
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


def test_real_programs_are_measured(tmp_path: Path) -> None:
    manifest = tmp_path / "tiny.yaml"
    manifest.write_text(yaml.safe_dump(TINY))
    options = ("--batches", "2", "--workdir", tmp_path, "--output", "json")

    output = call(SCRIPTS / "imagenetctl", "bench", manifest, *options)

    last = json.loads(output.splitlines()[-1])
    assert set(last) == {"type", "imagesPerSecond", "bottleneck", "cause", "sentence"}
    assert min(last["imagesPerSecond"][run] for run in ("reading", "network", "both")) > 0
    (read,) = tmp_path.glob("volumes/*/jobs/tiny-bench-reading-*/attempts/r0/result.json")
    assert json.loads(read.read_text())["reading"]["images"] == 2 * 20
