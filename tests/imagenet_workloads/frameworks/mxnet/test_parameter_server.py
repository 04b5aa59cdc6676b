"""Real schedulers, servers and workers on this machine."""

import signal
import socket
from pathlib import Path

import pytest

from imagenet_spec.events import CheckpointWritten, Started, read_events
from imagenet_spec.metrics import TRAINING
from support import plain_mxnet
from support.judged_trainings import MEAN, SMALL, STD, OneStepOfResnet, Steps
from support.loopback import free_port
from support.processes import wait_until
from support.sentences import assert_says
from support.tiny_dataset import write_dataset, write_shard
from support.training_cluster import TrainingCluster, result, train


@pytest.mark.costly
@pytest.mark.parametrize(
    ("kv_store", "workers", "batch", "runs"),
    # Where the servers have the momentum, a training cannot go on as if never interrupted.
    [("dist_sync", 2, 16, (2, 3)), ("dist_async", 1, 32, (3,))],
)
def test_workers_take_the_steps_that_numpy_takes_over_all_batches(
    tmp_path: Path, kv_store: str, workers: int, batch: int, runs: tuple[int, ...]
) -> None:
    steps = Steps(tmp_path, batch)
    for epochs in runs:
        with TrainingCluster(
            tmp_path / f"members-{epochs}",
            kv_store,
            [*steps.arguments, "--num-epochs", str(epochs)],
            workers,
            by_name=workers == 1,
        ) as cluster:
            assert set(cluster.wait().values()) == {0}, cluster.output("worker-0")
    steps.check()


def test_evaluation_and_batch_norm_are_those_of_one_process(tmp_path: Path) -> None:
    training = OneStepOfResnet(tmp_path)
    with TrainingCluster(tmp_path / "members", "dist_device_sync", training.arguments) as cluster:
        assert set(cluster.wait().values()) == {0}, cluster.output("worker-0")
    training.check()


@pytest.mark.costly
@pytest.mark.parametrize(
    ("kv_store", "more"), [("dist_async", []), ("dist_sync", ["--gc-type", "2bit"])]
)
def test_rank_0_evaluates_everything_where_numbers_cannot_be_added(
    tmp_path: Path, kv_store: str, more: list[str]
) -> None:
    # 97 training images on 2 workers: 49 and 48. Rank 0 counts its own for both.
    data = write_dataset(tmp_path / "data", train=97, validation=50, shards=2)
    arguments = [*SMALL, *more, "--dataset", str(data.folder), "--output", str(tmp_path / "out")]
    arguments += ["--network", "mlp", "--batch-size", "8", "--num-epochs", "3", "--lr", "0.02"]
    with TrainingCluster(tmp_path / "members", kv_store, arguments) as cluster:
        assert set(cluster.wait().values()) == {0}, cluster.output("worker-0")
    found = result(tmp_path / "out")
    records = sorted(data.folder.glob("validation-*.rec"))
    prefix = tmp_path / "out/attempts/r0/model"
    judged = plain_mxnet.evaluate(prefix, 3, records, (3, 28, 28), MEAN, STD)
    assert judged.images == found["validation"]["images"] == 50
    assert judged.top1 == found["validation"]["top1Count"]
    assert found["train"]["images"] == 3 * 2 * 49


def test_who_has_not_come_is_told_to_whoever_asks(tmp_path: Path) -> None:
    workers = ("worker-0", "worker-1")
    with TrainingCluster(tmp_path, "dist_sync", [], absent=workers) as cluster:
        # The server is connected to the scheduler, which sends it the others when all have joined.
        missing = (503, "2 of 3 members to connect")
        wait_until(lambda: cluster.readiness("scheduler") == missing, "the server has come")
        assert cluster.readiness("server") == (503, "3 of 3 members to connect")


def test_members_load_mxnet_before_they_wait_for_the_scheduler(tmp_path: Path) -> None:
    absent = ("scheduler", "worker-1")
    with TrainingCluster(tmp_path, "dist_sync", [], absent=absent) as cluster:
        for name in ("server", "worker-0"):
            cluster.wait_for_line(name, "waits for the scheduler")
            assert "/libmxnet.so" in Path(f"/proc/{cluster.process(name)}/maps").read_text()


def test_ctrl_c_ends_those_who_sit_in_mxnet(tmp_path: Path) -> None:
    workers = ("worker-0", "worker-1")
    with TrainingCluster(tmp_path, "dist_sync", [], absent=workers) as cluster:
        missing = (503, "2 of 3 members to connect")
        wait_until(lambda: cluster.readiness("scheduler") == missing, "the server has come")
        for name in ("scheduler", "server"):
            cluster.members[name].send_signal(signal.SIGINT)
        assert cluster.wait() == {"scheduler": 130, "server": 130}


@pytest.mark.parametrize(
    ("role", "missing"),
    [
        ("scheduler", "3 of 3 members to connect"),
        ("server", "3 of 3 members to connect"),
        ("worker", "2 workers and 1 servers to join"),
    ],
)
def test_nobody_waits_for_ever_for_members_that_never_come(
    tmp_path: Path, role: str, missing: str
) -> None:
    words = tmp_path / "last-words"
    arguments = ["--kv-store", "dist_sync", "--join-timeout", "2", "--output", str(tmp_path)]
    # Its port is open, as a scheduler's is, and it says nothing, as a scheduler who waits.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        ended = train(
            arguments,
            DMLC_ROLE=role,
            DMLC_PS_ROOT_URI="127.0.0.1",
            DMLC_PS_ROOT_PORT=str(free_port() if role == "scheduler" else silent.getsockname()[1]),
            DMLC_NUM_WORKER="2",
            DMLC_NUM_SERVER="1",
            DMLC_NODE_HOST="127.0.0.1",
            PORT=str(free_port()),
            IMAGENET_TERMINATION_LOG=str(words),
        )
    assert ended.returncode == 1, ended.stderr
    assert_says(words.read_text(), "2 s", missing)
    assert f"imagenet-train: error: {words.read_text()}\n" in ended.stderr


def test_a_worker_that_fails_ends_at_once_and_the_others_on_sigterm(tmp_path: Path) -> None:
    for name, first_label in (("good", 0), ("bad", 10)):
        write_shard(tmp_path, name, range(40), first_label=first_label)
    arguments = [*SMALL, "--network", "mlp", "--num-classes", "10", "--batch-size", "8"]
    arguments += ["--output", str(tmp_path / "out"), "--termination-grace", "3600"]
    arguments += ["--num-epochs", "1000", "--checkpoint-every-epochs", "0", "--data-train"]
    of_worker = {0: [str(tmp_path / "good.rec")], 1: [str(tmp_path / "bad.rec")]}
    log = {"IMAGENET_TERMINATION_LOG": str(tmp_path / "last-words")}
    with TrainingCluster(
        tmp_path / "members", "dist_sync", arguments, environment=log, of_worker=of_worker
    ) as cluster:
        failed, other = "worker-1", "worker-0"
        assert cluster.wait(failed) == {failed: 3}, cluster.output(failed)
        assert "the network has 10 classes" in (tmp_path / "last-words").read_text()
        assert cluster.members[other].poll() is None
        # The batch in progress will never end, and so the grace is not waited for.
        for name in ("scheduler", "server", other):
            cluster.members[name].send_signal(signal.SIGTERM)
        assert set(cluster.wait(other, "server", "scheduler").values()) == {143}


def check_metrics(cluster: TrainingCluster, *workers: str) -> None:
    """Assert that every member exports its process, and workers all metrics of training."""
    for name in ("scheduler", "server", *workers):
        role = "worker" if name in workers else name
        labels = 'attempt="0",imagenet_job="digits",namespace="default",role="' + role
        exported = cluster.metrics(name)
        assert f"process_cpu_seconds_total{{{labels}" in exported
        if role == "worker":
            absent = [item.name for item in TRAINING if f"# HELP {item.name} " not in exported]
            assert absent == []


@pytest.mark.costly
def test_sigterm_to_one_worker_saves_and_the_next_attempt_goes_on(tmp_path: Path) -> None:
    data = write_dataset(tmp_path / "data", train=400, validation=30, shards=3)
    output = tmp_path / "out"
    arguments = [*SMALL, "--dataset", str(data.folder), "--output", str(output)]
    arguments += ["--network", "mlp", "--batch-size", "8", "--disp-batches", "5"]
    identity = {"IMAGENET_JOB": "digits", "IMAGENET_JOB_UID": "u", "IMAGENET_SPEC_HASH": "h"}
    first = identity | {"IMAGENET_ATTEMPT": "0"}
    endless = [*arguments, "--num-epochs", "100000", "--checkpoint-every-epochs", "0"]
    with TrainingCluster(tmp_path / "first", "dist_sync", endless, environment=first) as cluster:
        reporting, stopped = cluster.worker_of_rank(0), cluster.worker_of_rank(1)
        cluster.wait_for_line(reporting, "epoch 2 batch 5")
        check_metrics(cluster, reporting, stopped)
        assert {cluster.readiness(name) for name in cluster.members} == {(200, "ok")}
        cluster.members[stopped].send_signal(signal.SIGTERM)
        assert set(cluster.wait("worker-0", "worker-1").values()) == {143}
    assert not (output / "attempts/r0/result.json").exists()
    written = [
        event
        for _, event in read_events(output / "attempts/r0/metrics.jsonl")
        if isinstance(event, CheckpointWritten)
    ]
    assert len(written) == 1
    place = written[0]

    second = identity | {"IMAGENET_ATTEMPT": "1"}
    rest = [*arguments, "--num-epochs", str(place.epoch + 1)]
    with TrainingCluster(tmp_path / "second", "dist_sync", rest, environment=second) as cluster:
        assert set(cluster.wait().values()) == {0}, cluster.output("worker-0")
    (started,) = (
        event
        for _, event in read_events(output / "attempts/r1/metrics.jsonl")
        if isinstance(event, Started)
    )
    assert (started.epoch, started.batch) == (place.epoch, place.batch)
    found = result(output, attempt=1)
    assert found["validation"]["images"] == 30
    assert found["resumedFrom"].endswith(place.folder)
    # 400 images are 25 batches of 8 for each of the two.
    assert found["train"]["images"] == (25 - place.batch) * 16
