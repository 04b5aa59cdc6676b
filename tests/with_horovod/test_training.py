"""Trainings by real slots of Horovod on this machine, with MXNet."""

import os
import signal
from pathlib import Path

import pytest

from imagenet_spec.events import CheckpointWritten, Started, read_events
from imagenet_spec.metrics import TRAINING
from support import loopback, plain_mxnet
from support.horovod_cluster import RENDEZVOUS, HorovodCluster
from support.judged_trainings import MEAN, SMALL, STD, OneStepOfResnet, Steps
from support.processes import is_running, wait_until
from support.tiny_dataset import write_dataset, write_shard
from support.training_cluster import result


@pytest.mark.parametrize(("pods", "slots"), [(2, 1), (1, 2)])
def test_slots_take_the_steps_that_numpy_takes_over_all_batches(
    tmp_path: Path, pods: int, slots: int
) -> None:
    steps = Steps(tmp_path, batch_of_worker=16)
    # Each training goes on from the checkpoint of the one before.
    for epochs in (2, 3):
        arguments = [*steps.arguments, "--num-epochs", str(epochs)]
        with HorovodCluster(tmp_path / f"to-{epochs}", arguments, pods, slots) as cluster:
            assert set(cluster.wait().values()) == {0}, cluster.output("pod-0")
    steps.check()


def test_evaluation_and_batch_norm_are_those_of_one_process(tmp_path: Path) -> None:
    training = OneStepOfResnet(tmp_path)
    with HorovodCluster(tmp_path / "members", training.arguments) as cluster:
        assert set(cluster.wait().values()) == {0}, cluster.output("pod-0")
    training.check()


def test_digits_are_learned_and_the_model_is_plain_mxnets(tmp_path: Path) -> None:
    data = write_dataset(tmp_path / "data", train=600, validation=101, shards=3)
    output = tmp_path / "out"
    arguments = ["--dataset", str(data.folder), "--output", str(output), "--network", "lenet"]
    arguments += ["--image-shape", "3,28,28", "--batch-size", "16", "--num-epochs", "5"]
    arguments += ["--lr", "0.0125", "--lr-scaling", "linear", "--lr-scaling-base", "8"]
    arguments += ["--warmup-epochs", "1"]
    with HorovodCluster(tmp_path / "members", arguments) as cluster:
        assert set(cluster.wait().values()) == {0}, cluster.output("pod-0")
    found = result(output)
    assert found["workers"] == 2
    assert found["train"]["images"] == 5 * 600
    assert found["validation"]["top1"] >= 0.9
    records = sorted(data.folder.glob("validation-*.rec"))
    prefix = output / "attempts/r0/model"
    judged = plain_mxnet.evaluate(prefix, 5, records, (3, 28, 28), MEAN, STD)
    assert judged.images == found["validation"]["images"] == 101
    assert (judged.top1, judged.top5) == (
        found["validation"]["top1Count"],
        found["validation"]["top5Count"],
    )


def endless(folder: Path, output: Path) -> list[str]:
    data = write_dataset(folder / "data", train=400, validation=30, shards=3)
    arguments = [*SMALL, "--dataset", str(data.folder), "--output", str(output)]
    arguments += ["--network", "mlp", "--batch-size", "8", "--disp-batches", "5"]
    return [*arguments, "--checkpoint-every-epochs", "0", "--num-epochs"]


@pytest.mark.parametrize(("pods", "slots"), [(2, 1), (1, 2), (2, 2)])
def test_a_slot_that_is_killed_ends_everyone(tmp_path: Path, pods: int, slots: int) -> None:
    arguments = [*endless(tmp_path, tmp_path / "out"), "100000"]
    with HorovodCluster(tmp_path / "members", arguments, pods, slots) as cluster:
        cluster.wait_for_line("pod-0", "epoch 2 batch 5")
        last = f"pod-{pods - 1}"
        everyone = [pid for number in range(pods) for pid in cluster.slots_of(f"pod-{number}")]
        # The code of the first one, even if the second has ended because of it.
        os.kill(cluster.slots_of(last)[0], signal.SIGKILL)
        codes = cluster.wait()
        assert codes.pop(last) == 128 + signal.SIGKILL
        # Between ranks that live, Gloo may mistake what follows the break, and abort.
        assert set(codes.values()) <= {1, 128 + signal.SIGABRT}, cluster.output("pod-0")
        assert not any(is_running(pid) for pid in everyone)
        # The rendezvous runs until SIGTERM, and then ends immediately.
        assert cluster.get(RENDEZVOUS, "/readyz") == (200, "ok")
        cluster.members[RENDEZVOUS].send_signal(signal.SIGTERM)
        assert cluster.wait(RENDEZVOUS) == {RENDEZVOUS: 143}


def test_sigterm_to_one_pod_saves_and_the_next_attempt_goes_on(tmp_path: Path) -> None:
    output = tmp_path / "out"
    arguments = endless(tmp_path, output)
    identity = {"IMAGENET_JOB": "digits", "IMAGENET_JOB_UID": "u", "IMAGENET_SPEC_HASH": "h"}
    first = identity | {"IMAGENET_ATTEMPT": "0"}
    members = tmp_path / "first"
    with HorovodCluster(members, [*arguments, "100000"], environment=first) as cluster:
        cluster.wait_for_line("pod-0", "epoch 2 batch 5")
        ready = dict.fromkeys(cluster.members, (200, "ok"))
        wait_until(
            lambda: {name: cluster.get(name, "/readyz") for name in ready} == ready, "all at work"
        )
        for name in ("pod-0", "pod-1"):
            page = cluster.get(name, "/metrics")[1]
            assert [entry.name for entry in TRAINING if f"# HELP {entry.name} " not in page] == []
        cluster.members["pod-1"].send_signal(signal.SIGTERM)
        assert cluster.wait() == {"pod-0": 143, "pod-1": 143}
    events = [event for _, event in read_events(output / "attempts/r0/metrics.jsonl")]
    (place,) = (event for event in events if isinstance(event, CheckpointWritten))
    assert not (output / "attempts/r0/result.json").exists()

    second = identity | {"IMAGENET_ATTEMPT": "1"}
    rest = [*arguments, str(place.epoch + 1)]
    # Two slots in one pod: the same training in another shape of the job.
    with HorovodCluster(tmp_path / "second", rest, 1, 2, environment=second) as cluster:
        assert set(cluster.wait().values()) == {0}, cluster.output("pod-0")
    events = [event for _, event in read_events(output / "attempts/r1/metrics.jsonl")]
    (started,) = (event for event in events if isinstance(event, Started))
    assert (started.epoch, started.batch) == (place.epoch, place.batch)
    assert result(output, attempt=1)["resumedFrom"].endswith(place.folder)
    assert result(output, attempt=1)["train"]["images"] == (25 - place.batch) * 16


def test_a_slot_that_fails_says_why_and_the_others_end(tmp_path: Path) -> None:
    for name, first_label in (("good", 0), ("bad", 10)):
        write_shard(tmp_path, name, range(40), first_label=first_label)
    arguments = [*SMALL, "--network", "mlp", "--num-classes", "10", "--batch-size", "8"]
    arguments += ["--output", str(tmp_path / "out"), "--num-epochs", "1000", "--data-train"]
    of_pod = {0: [str(tmp_path / "good.rec")], 1: [str(tmp_path / "bad.rec")]}
    with HorovodCluster(tmp_path / "members", arguments, of_pod=of_pod) as cluster:
        assert cluster.wait() == {"pod-0": 1, "pod-1": 3}
        assert "the network has 10 classes" in cluster.output("pod-1")
        assert "another slot has ended" in cluster.output("pod-0")


def test_slots_load_horovod_before_they_wait_for_the_rendezvous(tmp_path: Path) -> None:
    arguments = [*endless(tmp_path, tmp_path / "out"), "1"]
    nowhere = {"HOROVOD_GLOO_RENDEZVOUS_ADDR": f"{loopback.network()}.1"}
    members = tmp_path / "members"
    with HorovodCluster(members, arguments, pods=1, slots=2, environment=nowhere) as cluster:
        for rank in range(2):
            cluster.wait_for_line("pod-0", f"slot of rank {rank} waits for the rendezvous")
        for init in cluster.slots_of("pod-0"):
            (slot,) = Path(f"/proc/{init}/task/{init}/children").read_text().split()
            assert "/horovod/mxnet/" in Path(f"/proc/{slot}/maps").read_text()


def test_nobody_waits_for_ever_for_a_pod_that_never_comes(tmp_path: Path) -> None:
    arguments = [*endless(tmp_path, tmp_path / "out"), "1", "--join-timeout", "2"]
    with HorovodCluster(tmp_path / "members", arguments, absent=[1]) as cluster:
        assert cluster.wait("pod-0") == {"pod-0": 1}
        message = "imagenet-train: error: gave up after 2 s of waiting for 2 slots to join"
        assert message in cluster.output("pod-0")
        assert cluster.get(RENDEZVOUS, "/readyz") == (503, "1 of 2 slots to join")
