"""`imagenetctl compare`: trainings in text, JSON and a plot."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from imagenet_operator.cli import compare, result
from imagenet_operator.cli.main import build_parser, main
from imagenet_operator.clusters.kubernetes import objects
from imagenet_operator.clusters.local.machine import Volumes
from imagenet_spec.events import EpochFinished, Event, Progress, Started, Validated, to_line
from imagenet_spec.resource import ImageNetJob
from support import job_table
from support.asynchronous import asynchronous
from support.fake_api_server import FakeApiServer
from support.sentences import assert_says

DOCS = Path(__file__).parents[3] / "docs" / "running-locally.md"
START = 1_800_000_000
UID = "0f1e2d3c-0000-4000-8000-000000000000"
FAST = ((0.5, 2.0), (0.75, 1.0), (0.875, 0.5))
SLOW = ((0.25, 2.0), (0.5, 1.5), (0.75, 1.0))


def events(
    attempt: int, at: float, first: int, epochs: tuple[tuple[float, float], ...]
) -> list[tuple[float, Event]]:
    """The log of an attempt: epochs of 100 s and 1,000 images, with these accuracies and losses."""
    found: list[tuple[float, Event]] = [(at, Started(attempt, 4, first, 0, batches_per_epoch=10))]
    for number, (top1, loss) in enumerate(epochs, start=first):
        at += 100
        found += [
            (at, Progress(number, 10, 10.0, loss, top1, None, 0.5)),
            (at, EpochFinished(number, 100.0, 10.0, loss, top1)),
            (at, Validated(number, 50, top1, loss=loss + 0.25)),
        ]
    return found


def time(seconds: float) -> str:
    return datetime.fromtimestamp(START + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def add(
    workdir: Path,
    name: str,
    attempts: list[list[tuple[float, Event]]],
    phases: Mapping[str, float],
    **changes: Any,
) -> None:
    """Add a job to a working directory, whose dataset took 60 s, with the logs of its attempts."""
    manifest = job_table.manifest()
    manifest["metadata"] = {"name": name, "uid": UID, "creationTimestamp": time(-60)}
    manifest["spec"]["training"]["epochs"] = 3
    account = {
        "phases": {"preparing": 60.0, **phases},
        "gpuHours": sum(phases.values()) / 3600 * 4,
        "countedUntil": time(sum(phases.values())),
    }
    training = {"attempt": len(attempts) - 1, "imagesPerSecond": 10.0}
    manifest["status"] = {"phase": "Succeeded", "training": training, "time": account, **changes}
    file = workdir / "jobs" / name / "job.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"job": manifest}))
    job = ImageNetJob.model_validate(manifest)
    results = result.folder_of(job, Volumes(workdir / "volumes", {}))
    for number, lines in enumerate(attempts):
        folder = results / "attempts" / f"r{number}"
        folder.mkdir(parents=True)
        text = "".join(f"{to_line(event, START + at)}\n" for at, event in lines)
        (folder / "metrics.jsonl").write_text(text)


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    """The fast job loses its second epoch, and waits 50 s until it trains it again."""
    lost = events(0, 0, 0, FAST[:2])
    phases = {"stepping": 400.0, "restarting": 50.0}
    add(tmp_path, "fast", [lost, events(1, 250, 1, FAST[1:])], phases, restarts=1)
    add(tmp_path, "slow", [events(0, 0, 0, SLOW)], {"stepping": 300.0})
    return tmp_path


TEXT = """\
job   epochs  images     time  GPU-hours  cost   top-1    best    loss  val. loss  images/s  restarts
fast     3/3   4,000  0:07:30       0.50  1.00  0.8750  0.8750  0.5000     0.7500      10.0         1
slow     3/3   3,000  0:05:00       0.33  0.67  0.7500  0.7500  1.0000     1.2500      10.0         0

fast trained 1,000 of its images again after restarts

to reach validation top-1 0.7500, the highest that all reached:
job   epoch  images     time  GPU-hours  cost
fast      2   3,000  0:05:50       0.38  0.75
slow      3   3,000  0:05:00       0.33  0.67
"""  # noqa: E501


def test_two_trainings_and_what_an_accuracy_cost(
    workdir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The lost epoch and the back-off are costs; the preparation of the dataset is not."""
    command = ["compare", "fast", "slow", "--workdir", str(workdir), "--price-per-gpu-hour", "2"]
    assert main(command) == 0
    assert capsys.readouterr().out == TEXT


def test_the_comparison_for_scripts(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["compare", "fast", "slow", "--workdir", str(workdir), "--output", "json"]
    assert main([*command, "--to", "0.8"]) == 0
    found = json.loads(capsys.readouterr().out)
    fast, slow = found["jobs"]
    assert [(item["epoch"], item["attempt"]) for item in fast["curve"]] == [(1, 0), (2, 1), (3, 1)]
    assert [item["seconds"] for item in fast["curve"]] == [100.0, 350.0, 450.0]
    assert fast["curve"][-1] == {
        "epoch": 3,
        "attempt": 1,
        "images": 4000,
        "seconds": 450.0,
        "gpuHours": 0.5,
        "loss": 0.5,
        "top1": 0.875,
        "validation": {"top1": 0.875, "loss": 0.75},
        "learningRate": 0.5,
    }
    assert (fast["lostImages"], slow["lostImages"]) == (1000, 0)
    assert "cost" not in slow
    page = DOCS.read_text().partition("`imagenetctl compare --output json` writes")[2]
    documented = re.findall(r'"(\w+)"', page.partition("\n\n")[0])
    assert set(documented) == {
        *found,
        *fast,
        *fast["curve"][0],
        *found["reached"],
        *found["reached"]["jobs"][0],
    }
    assert found["reached"] == {
        "top1": 0.8,
        "isCommon": False,
        "jobs": [
            {"name": "fast", "epoch": 3, "images": 4000, "seconds": 450.0, "gpuHours": 0.5},
            {"name": "slow", "epoch": None, "images": None, "seconds": None, "gpuHours": None},
        ],
    }


def test_an_accuracy_that_was_not_reached(
    workdir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "fast", "slow", "--workdir", str(workdir), "--to", "0.8"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "to reach validation top-1 0.8000:" in lines
    assert lines[-1].split() == ["slow", "not", "reached"]


def test_a_job_without_validation_has_no_costs_of_an_accuracy(
    workdir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    started = events(0, 0, 0, ())
    add(workdir, "new", [started], {"starting": 10.0})
    assert main(["compare", "fast", "new", "--workdir", str(workdir)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split()[:5] == ["new", "-/3", "-", "10.0", "s"]
    assert_says(lines[-1], "no accuracy is compared", "new has no validation")
    add(workdir, "newer", [started], {"starting": 10.0})
    assert main(["compare", "fast", "new", "newer", "--workdir", str(workdir)]) == 0
    assert_says(capsys.readouterr().out.splitlines()[-1], "new, newer have no validation")


def test_an_attempt_that_only_validates_has_no_loss_of_its_own(
    workdir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = events(0, 0, 0, FAST)[:-1]
    checked = events(1, 320, 3, ())
    checked.append((330.0, Validated(2, 50, 0.875, loss=0.75)))
    add(workdir, "late", [trained, checked], {"stepping": 330.0})
    assert main(["compare", "late", "slow", "--workdir", str(workdir), "--output", "json"]) == 0
    late = json.loads(capsys.readouterr().out)["jobs"][0]
    assert (late["loss"], late["top1"], late["images"]) == (0.5, 0.875, 3000)
    assert late["curve"][-1]["seconds"] == 330.0


def test_without_an_epoch_there_is_no_plot(
    workdir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("new", "other"):
        add(workdir, name, [events(0, 0, 0, ())], {"starting": 10.0})
    command = ["compare", "new", "other", "--workdir", str(workdir), "--plot", "x.png"]
    assert main(command) == 3
    assert "--plot: no job has finished an epoch" in capsys.readouterr().err


def test_a_plot(workdir: Path) -> None:
    picture = workdir / "compared.png"
    command = ["compare", "fast", "slow", "--workdir", str(workdir), "--plot", str(picture)]
    assert main(command) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_results_on_a_mapped_volume_are_found_by_the_link_of_the_model(
    workdir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = tmp_path / "elsewhere"
    (workdir / "volumes").rename(elsewhere)
    for name in ("fast", "slow"):
        (attempt,) = elsewhere.glob(f"*/jobs/{name}-*/attempts/r0")
        (workdir / "jobs" / name / "model").symlink_to(attempt)
    command = ["compare", "fast", "slow", "--workdir", str(workdir), "--price-per-gpu-hour", "2"]
    assert main(command) == 0
    assert capsys.readouterr().out == TEXT


def test_of_a_cluster_there_is_the_status() -> None:
    status = {
        "phase": "Running",
        "restarts": 2,
        "disruptions": 1,
        "dataset": {
            "key": "k",
            "images": {"train": 1000, "validation": 9},
            "classes": 9,
            "shards": 2,
        },
        "training": {
            "attempt": 3,
            "finishedEpochs": "5/90",
            "loss": 0.5,
            "accuracy": {"validation": 0.625},
            "imagesPerSecond": 99.5,
        },
        "time": {
            "phases": {"queueing": 50.0, "stepping": 60.0, "restarting": 40.0},
            "gpuHours": 2.0,
            "countedUntil": time(0),
        },
    }
    metadata = {**job_table.manifest()["metadata"], "creationTimestamp": time(-150)}
    job = ImageNetJob.model_validate(
        {**job_table.manifest(), "metadata": metadata, "status": status}
    )
    found = compare.document([job, job], [None, None], price=1.5)
    assert found["reached"] is None
    known = {
        "epochs": 5,
        "images": 5000,
        "seconds": 100.0,
        "gpuHours": 2.0,
        "cost": 3.0,
        "top1": 0.625,
        "loss": 0.5,
        "imagesPerSecond": 99.5,
        "restarts": 2,
        "disruptions": 1,
    }
    assert found["jobs"][0].items() >= known.items()
    assert found["jobs"][0]["bestTop1"] is found["jobs"][0]["lostImages"] is None
    assert_says(compare.text(found).splitlines()[-1], "need the logs", "a status has none")


@asynchronous
async def test_jobs_on_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with FakeApiServer() as server:
        server.verbs[objects.JOB.group, objects.JOB.plural] |= {"create"}
        context = {"cluster": "here", "namespace": "vision"}
        config = {
            "contexts": [{"name": "here", "context": context}],
            "clusters": [{"name": "here", "cluster": {"server": server.url}}],
        }
        (tmp_path / "config").write_text(yaml.safe_dump(config))
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
        for name, top1 in (("a", 0.5), ("b", 0.75)):
            manifest = job_table.manifest()
            manifest["metadata"]["name"] = name
            manifest["metadata"].pop("uid", None)
            await server.add(manifest)
            training = {"attempt": 0, "accuracy": {"validation": top1}}
            status = {"phase": "Running", "training": training}
            await server.change("ImageNetJob", name, partial(dict.update, status=status))
        parsed = build_parser().parse_args(["compare", "a", "b", "--context", "here"])
        assert await asyncio.to_thread(compare.run, parsed) == 0
        lines = [line.split() for line in capsys.readouterr().out.splitlines()]
        place = lines[0].index("top-1")
        assert [(line[0], line[place]) for line in lines[1:3]] == [("a", "0.5000"), ("b", "0.7500")]


@pytest.mark.parametrize(
    ("arguments", "code", "facts"),
    [
        (["fast"], 2, ("at least two different jobs",)),
        (["fast", "fast"], 2, ("at least two different jobs",)),
        (["fast", "slw"], 3, ("has no job 'slw'", "mean slow?")),
        (["fast", "other-job"], 3, ("has no job 'other-job'", "another working directory")),
        (["fast", "slow", "--plot", "no/x.png"], 3, ("--plot: imagenet-plot: ", "cannot write")),
    ],
)
def test_a_mistake_is_explained(
    arguments: list[str],
    code: int,
    facts: tuple[str, ...],
    workdir: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["compare", *arguments, "--workdir", str(workdir)]) == code
    assert_says(capsys.readouterr().err, *facts)


@pytest.mark.parametrize("option", [["--to", "0.5"], ["--plot", "x.png"]])
def test_what_a_cluster_lacks_is_refused(
    option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "fast", "slow", "--context", "production", *option]) == 2
    facts = ("a cluster", "no earlier epochs", "leave the option out", "imagenet-plot")
    assert_says(capsys.readouterr().err, f"{option[0]}: ", *facts)


@pytest.mark.parametrize("share", ["75", "-0.1", "most"])
def test_an_accuracy_is_a_share(share: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["compare", "fast", "slow", f"--to={share}"])
    assert_says(capsys.readouterr().err, "not a share", "from 0 to 1", "write 0.75")
