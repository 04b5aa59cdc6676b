"""Real schedulers, servers and workers on this machine."""

import json
import signal
import socket
from pathlib import Path
from typing import Any

import cv2
import mxnet as mx
import numpy as np
import pytest
from numpy.typing import NDArray

from imagenet_workloads.telemetry.events import CheckpointWritten, Started, read_events
from imagenet_workloads.telemetry.names import TRAINING
from support import plain_mxnet
from support.processes import wait_until
from support.tiny_dataset import write_dataset, write_shard
from support.training_cluster import TrainingCluster, free_port, train

MEAN, STD = (78.0, 78.0, 78.0), (96.0, 96.0, 96.0)
NAMES = [metric.name for metric in TRAINING]
SMALL = ["--image-shape", "3,28,28", "--warmup-epochs", "0", "--lr-step-epochs", ""]


def result(output: Path, attempt: int = 0) -> dict[str, Any]:
    text = (output / f"attempts/r{attempt}/result.json").read_text()
    document: dict[str, Any] = json.loads(text)
    return document


def pixels(record: Path) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """A record file's images as the network sees them, (images, 3, 28, 28), and their labels."""
    reader = mx.recordio.MXIndexedRecordIO(str(record.with_suffix(".idx")), str(record), "r")
    images, labels = [], []
    for key in reader.keys:
        header, encoded = mx.recordio.unpack(reader.read_idx(key))
        rgb = cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR)[:, :, ::-1]
        images.append((rgb.astype(np.float64) - MEAN) / STD)
        labels.append(int(header.label))
    return np.stack(images).transpose(0, 3, 1, 2), np.array(labels)


def sgd_by_hand(
    weights: dict[str, NDArray[np.float64]],
    momenta: dict[str, NDArray[np.float64]],
    images: NDArray[np.float64],
    labels: NDArray[np.int64],
    rate: float,
) -> None:
    """One step of the mlp on all images at once: momentum 0.9, decay 1e-2 of weights."""
    flat = images.reshape(len(images), -1)
    first = np.maximum(flat @ weights["fc1_weight"].T + weights["fc1_bias"], 0)
    second = np.maximum(first @ weights["fc2_weight"].T + weights["fc2_bias"], 0)
    scores = second @ weights["fc3_weight"].T + weights["fc3_bias"]
    exponents = np.exp(scores - scores.max(axis=1, keepdims=True))
    error = exponents / exponents.sum(axis=1, keepdims=True)
    error[np.arange(len(labels)), labels] -= 1
    gradients = {}
    for layer, below in (("fc3", second), ("fc2", first), ("fc1", flat)):
        gradients[f"{layer}_weight"] = error.T @ below / len(images)
        gradients[f"{layer}_bias"] = error.sum(axis=0) / len(images)
        error = (error @ weights[f"{layer}_weight"]) * (below > 0)
    for name, gradient in gradients.items():
        decay = 1e-2 * weights[name] if name.endswith("_weight") else 0
        momenta[name] = 0.9 * momenta[name] - rate * (gradient + decay)
        weights[name] += momenta[name]


@pytest.mark.parametrize(
    ("kv_store", "workers", "batch", "runs"),
    # Where the servers have the momentum, a training cannot go on as if never interrupted.
    [("dist_sync", 2, 16, (2, 3)), ("dist_async", 1, 32, (3,))],
)
def test_workers_take_the_steps_that_numpy_takes_over_all_batches(
    tmp_path: Path, kv_store: str, workers: int, batch: int, runs: tuple[int, ...]
) -> None:
    data = write_dataset(tmp_path / "data", train=32, validation=0, shards=1)
    random = np.random.default_rng(1)
    sizes = {"fc1": (128, 3 * 28 * 28), "fc2": (64, 128), "fc3": (10, 64)}
    weights = {f"{name}_weight": random.normal(0, 0.05, size) for name, size in sizes.items()}
    weights |= {f"{name}_bias": random.normal(0, 0.05, size[0]) for name, size in sizes.items()}
    start = {f"arg:{name}": mx.nd.array(array) for name, array in weights.items()}
    mx.nd.save(str(tmp_path / "given-0000.params"), start)
    arguments = [*SMALL, "--dataset", str(data.folder), "--output", str(tmp_path / "out")]
    arguments += ["--network", "mlp", "--batch-size", str(batch), "--wd", "0.01"]
    # For the 32 images of an update it is 0.1, after the first of 2 updates of warm-up.
    arguments += ["--lr", "0.2", "--lr-scaling", "linear", "--lr-scaling-base", "64"]
    arguments += ["--warmup-epochs", "2"]
    arguments += ["--model-prefix", str(tmp_path / "given"), "--load-epoch", "0"]
    for epochs in runs:
        with TrainingCluster(
            tmp_path / f"members-{epochs}",
            kv_store,
            [*arguments, "--num-epochs", str(epochs)],
            workers,
            by_name=workers == 1,
        ) as cluster:
            assert set(cluster.wait().values()) == {0}, cluster.output("worker-0")

    images, labels = pixels(data.folder / "train-00000-of-00001.rec")
    momenta = {name: np.zeros_like(array) for name, array in weights.items()}
    for epoch, rate in ((1, 0.05), (2, 0.1), (3, 0.1)):
        sgd_by_hand(weights, momenta, images, labels, rate)
        _, trained, _ = mx.model.load_checkpoint(str(tmp_path / "given"), epoch)
        for name, array in weights.items():
            np.testing.assert_allclose(trained[name].asnumpy(), array, atol=2e-6, err_msg=name)


def test_evaluation_and_batch_norm_are_those_of_one_process(tmp_path: Path) -> None:
    # 37 validation images: 19 and 18, neither a multiple of the batch; one step an epoch.
    data = write_dataset(tmp_path / "data", train=32, validation=37, shards=1)
    arguments = [*SMALL, "--dataset", str(data.folder), "--output", str(tmp_path / "out")]
    arguments += ["--network", "resnet", "--num-layers", "8", "--batch-size", "16"]
    # The one step is followed by a checkpoint of its own, before the epoch is over.
    arguments += ["--num-epochs", "1", "--top-k", "5", "--checkpoint-every-seconds", "0.001"]
    with TrainingCluster(tmp_path / "members", "dist_device_sync", arguments) as cluster:
        assert set(cluster.wait().values()) == {0}, cluster.output("worker-0")

    attempt = tmp_path / "out/attempts/r0"
    counted = result(tmp_path / "out")["validation"]
    record = data.folder / "validation-00000-of-00001.rec"
    judged = plain_mxnet.evaluate(attempt / "model", 1, [record], (3, 28, 28), MEAN, STD)
    assert judged.images == counted["images"] == 37
    assert (judged.top1, judged.top5) == (counted["top1Count"], counted["top5Count"])

    images, _ = pixels(data.folder / "train-00000-of-00001.rec")
    halves = images[:16], images[16:]
    means = np.mean([half.mean(axis=(0, 2, 3)) for half in halves], axis=0)
    variances = np.mean([half.var(axis=(0, 2, 3)) for half in halves], axis=0)
    checkpoint = attempt / "checkpoints/epoch-0001-batch-00000000/params"
    for saved in (attempt / "model-0001.params", checkpoint):
        found = mx.nd.load(str(saved))
        mean, variance = (found[f"aux:bn_data_moving_{kind}"].asnumpy() for kind in ("mean", "var"))
        np.testing.assert_allclose(mean, 0.1 * means, atol=1e-4)
        np.testing.assert_allclose(variance, 0.9 + 0.1 * variances, atol=1e-3)


@pytest.mark.parametrize(
    ("kv_store", "more"), [("dist_async", []), ("dist_sync", ["--gc-type", "2bit"])]
)
def test_rank_0_evaluates_everything_where_numbers_cannot_be_added(
    tmp_path: Path, kv_store: str, more: list[str]
) -> None:
    # 97 training images on 2 workers: 49 and 48, of which 7 and 6 batches of 8 would be made.
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
    assert found["train"]["images"] == 3 * 2 * 7 * 8


def test_who_has_not_come_is_told_to_whoever_asks(tmp_path: Path) -> None:
    workers = ("worker-0", "worker-1")
    with TrainingCluster(tmp_path, "dist_sync", [], absent=workers) as cluster:
        # The server is connected to the scheduler, which tells it of the others when all are there.
        missing = (503, "2 of 3 members to connect")
        wait_until(lambda: cluster.readiness("scheduler") == missing, "the server has come")
        assert cluster.readiness("server") == (503, "3 of 3 members to connect")


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
    assert words.read_text() == f"gave up after 2 s of waiting for {missing}"
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


def test_sigterm_to_one_worker_saves_and_the_next_attempt_goes_on(tmp_path: Path) -> None:
    data = write_dataset(tmp_path / "data", train=400, validation=30, shards=3)
    output = tmp_path / "out"
    arguments = [*SMALL, "--dataset", str(data.folder), "--output", str(output)]
    arguments += ["--network", "mlp", "--batch-size", "8", "--disp-batches", "5"]
    identity = {"IMAGENET_JOB": "digits", "IMAGENET_JOB_UID": "u", "IMAGENET_SPEC_HASH": "h"}
    first = identity | {"IMAGENET_ATTEMPT": "0"}
    endless = [*arguments, "--num-epochs", "100000", "--checkpoint-every-epochs", "0"]
    with TrainingCluster(tmp_path / "first", "dist_sync", endless, environment=first) as cluster:
        reporting, told = cluster.worker_of_rank(0), cluster.worker_of_rank(1)
        cluster.wait_for_line(reporting, "epoch 1 batch 5")
        for role in ("scheduler", "server", "worker"):
            name = {"worker": told}.get(role, role)
            labels = 'attempt="0",imagenet_job="digits",namespace="default",role="' + role
            assert f"process_cpu_seconds_total{{{labels}" in cluster.metrics(name)
        for worker in (reporting, told):
            exported = cluster.metrics(worker)
            absent = [
                metric.name for metric in TRAINING if f"# HELP {metric.name} " not in exported
            ]
            assert absent == []
        assert {cluster.readiness(name) for name in cluster.members} == {(200, "ok")}
        cluster.members[told].send_signal(signal.SIGTERM)
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
