"""The table of a cluster's training, from the output volume or the logs of rank 0."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from imagenet_operator.manifests import names
from imagenet_operator.sdk import metrics
from imagenet_operator.sdk.cluster import AsyncClient
from imagenet_operator.sdk.errors import NotFound
from imagenet_spec.events import EpochFinished, Event, Started, Validated, to_line
from support.asynchronous import asynchronous
from support.client_jobs import AT, add_pod, manifest, set_status, user_client
from support.door_cluster import DoorKubelet, door_cluster
from support.fake_api_server import FakeApiServer

CLAIM = "digits-dataset"
UNRELATED = ("warming up", "2026-01-02 03:04:05,000 INFO an epoch takes about 2.0 h on this CPU")


def records(table: Any) -> list[dict[str, Any]]:
    """The rows, without the fields that an event does not have."""
    rows = table if isinstance(table, list) else table.to_dict("records")
    return [{name: value for name, value in row.items() if value == value} for row in rows]


async def train(server: FakeApiServer, attempt: int, epochs: range, *, pod: int = 0) -> None:
    """Add the pod of rank 0 of an attempt, whose log has these epochs."""
    name = f"digits-r{attempt}-worker-{pod}"
    await add_pod(server, name, "terminated")
    texts = [*UNRELATED, f"{AT} INFO {Started(attempt, 2, epochs.start, 0).sentence()}"]
    for epoch in epochs:
        texts += [
            f"{AT} INFO {EpochFinished(epoch, 2.0, 50.0, 0.5 - epoch / 10, 0.5).sentence()}",
            f"{AT} INFO {Validated(epoch, 36, 0.6 + epoch / 10, loss=0.25).sentence()}",
        ]
    texts = [text.replace(AT, "2026-01-02 03:04:05,678") for text in texts]
    server.timed_logs[name] = [
        (f"2026-01-01T00:00:{second:02}Z", text) for second, text in enumerate(texts)
    ]


@asynchronous
async def test_each_epoch_of_the_log_is_a_row() -> None:
    async with user_client() as (server, client):
        await client.submit(manifest())
        await set_status(server, phase="Running", training={"attempt": 0})
        await train(server, 0, range(2))
        first, *rows = records(await client.metrics("digits", from_volume=False))
        started = 1767225602.0
        assert first == {
            "attempt": 0,
            "time": started,
            "event": "started",
            "workers": 2,
            "epoch": 0,
            "batch": 0,
        }
        assert rows[-2:] == [
            {
                "attempt": 0,
                "time": started + 3,
                "event": "epoch",
                "epoch": 1,
                "seconds": 2.0,
                "imagesPerSecond": 50.0,
                "loss": 0.4,
                "top1": 0.5,
            },
            {
                "attempt": 0,
                "time": started + 4,
                "event": "validation",
                "epoch": 1,
                "images": 36,
                "top1": 0.7,
                "loss": 0.25,
            },
        ]


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[tuple[DoorKubelet, AsyncClient, Path]]:
    """A cluster with a job in its attempt 1, and the folder of its results."""
    async with door_cluster(folder) as (kubelet, client):
        job = await client.submit(manifest())
        await kubelet.claim(CLAIM)
        await set_status(kubelet.server, phase="Running", training={"attempt": 1})
        yield kubelet, client, folder / CLAIM / names.output_folder("digits", job.metadata.uid)


def write(results: Path, attempt: int, *events: Event) -> None:
    """Add what rank 0 of an attempt leaves after these events, one a second."""
    lines = [f"{to_line(event, 100 + second)}\n" for second, event in enumerate(events)]
    folder = results / f"attempts/r{attempt}"
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text("".join(lines))


@asynchronous
async def test_each_event_of_all_attempts_is_a_row_as_in_a_working_directory(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as (kubelet, client, folder):
        write(folder, 0, Started(0, 2, 0, 0), EpochFinished(0, 2.0, 50.0, 1 / 3, 0.5))
        write(folder, 1, Started(1, 2, 1, 0, "epoch-0001"), Validated(1, 36, 2 / 3, loss=0.25))
        with (folder / "attempts/r1/metrics.jsonl").open("a") as file:
            file.write("[" * 100_000 + '\n{"time": 5, "event": "val')
        (folder / "attempts/r1/train.log").write_text("epoch 1")
        await train(kubelet.server, 1, range(3))
        shown = records(await client.metrics("digits"))
        assert shown == metrics.of_files(folder)
        assert [(row["attempt"], row["event"]) for row in shown] == [
            (0, "started"),
            (0, "epoch"),
            (1, "started"),
            (1, "validation"),
        ]
        assert shown[1] == {
            "attempt": 0,
            "time": 101,
            "event": "epoch",
            "epoch": 0,
            "seconds": 2.0,
            "imagesPerSecond": 50.0,
            "loss": 1 / 3,
            "top1": 0.5,
        }
        (pod,) = kubelet.created
        assert pod["metadata"]["ownerReferences"][0]["name"] == "digits"
        assert kubelet.programs == {}


@asynchronous
async def test_a_job_without_events_has_no_table(tmp_path: Path) -> None:
    async with running(tmp_path) as (kubelet, client, _):
        with pytest.raises(NotFound, match="has not trained yet: it is Running"):
            await client.metrics("digits", image="mine:2")
        assert kubelet.created[0]["spec"]["containers"][0]["image"] == "mine:2"
        await set_status(kubelet.server, phase="Preparing", training=None)
        for from_volume in (True, False):
            with pytest.raises(NotFound, match="has not trained yet: it is Preparing"):
                await client.metrics("digits", from_volume=from_volume)
        assert len(kubelet.created) == 1, "no pod is needed to say so"
        with pytest.raises(NotFound, match="no job 'other'"):
            await client.metrics("other")
