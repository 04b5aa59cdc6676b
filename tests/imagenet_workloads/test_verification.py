"""Training again on one machine: what is refused, which processes run, and when they are over."""

from pathlib import Path

import pytest

from imagenet_spec.program.train import Options, values_of
from imagenet_workloads.checkpoint import CheckpointStore, Identity, Position
from imagenet_workloads.commands.train import parse
from imagenet_workloads.errors import InputError, WorkloadError
from imagenet_workloads.frameworks import FRAMEWORKS
from imagenet_workloads.rendezvous import LocalMember
from imagenet_workloads.train import verification
from imagenet_workloads.train.receipts import Launch
from imagenet_workloads.train.verification import Target, members, train_again

PATH = Path("receipts.json")


def of(workers: int, *arguments: str, servers: int = 0) -> list[LocalMember]:
    options = parse(arguments)
    launch = Launch(arguments, workers, servers=servers)
    return list(members(launch, PATH, options, FRAMEWORKS[options.cluster.framework]))


@pytest.mark.parametrize(
    ("arguments", "workers", "said"),
    [
        (["--kv-store", "dist_async"], 1, "dist_async applies gradients as they arrive"),
        (["--reader", "ImageRecordIter"], 1, "ImageRecordIter resumes with other images"),
        (["--kv-store", "dist_sync", "--gc-type", "2bit"], 2, "--gc-type keeps rounding errors"),
        (["--kv-store", "dist_sync"], 3, "3 workers trained without --deterministic"),
        (["--kv-store", "horovod"], 4, "4 workers trained without --deterministic"),
    ],
)
def test_a_training_with_other_bits_each_time_is_refused(
    arguments: list[str], workers: int, said: str
) -> None:
    with pytest.raises(InputError, match=f"{PATH}: .*{said}"):
        of(workers, *arguments)


def test_all_members_train_again() -> None:
    assert len(of(1)) == 1
    assert len(of(2, "--kv-store", "dist_sync", servers=2)) == 1 + 2 + 2
    # An older version wrote no number of servers.
    assert len(of(2, "--kv-store", "dist_sync")) == 1 + 1 + 2
    assert len(of(3, "--kv-store", "horovod", "--deterministic", "1")) == 1 + 3


@pytest.fixture
def target(tmp_path: Path) -> Target:
    """A receipt that no training here reaches."""
    position = Position(1, 0)
    store = CheckpointStore(tmp_path, 0, Identity("u", "h"), keep=1)
    with store.begin(position) as folder:
        (folder / "weights").touch()
    return Target(store.folder_of(position), 10, Position(2, 0), {}, PATH, is_checkpoint=False)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a stand-in for `imagenet-train`; its members leave GPUs and arguments there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "imagenet-train"
    program.write_text(
        f'#!/bin/sh\necho "$CUDA_VISIBLE_DEVICES" > {folder}/$MEMBER\n'
        f'printf "%s\\n" "$@" > {folder}/$MEMBER.arguments\n'
        f'[ "$ENDS" = never ] && exec sleep 600\nexit $ENDS\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(verification, "PROGRAMS", folder)
    return folder


def member(name: str, ends: str, *, is_worker: bool = True) -> LocalMember:
    return LocalMember({"MEMBER": name, "ENDS": ends}, is_worker=is_worker)


@pytest.mark.parametrize(
    "group",
    [
        # Servers do not end by themselves.
        [member("server", "never", is_worker=False), member("a", "0"), member("b", "0")],
        [member("server", "3", is_worker=False), member("a", "never")],
        [member("a", "never"), member("b", "1")],
    ],
    ids=["all workers ended", "another member failed", "a worker failed"],
)
def test_a_training_that_is_over_before_the_receipt_is_an_error(
    target: Target, programs: Path, group: list[LocalMember]
) -> None:
    with pytest.raises(WorkloadError, match="training has ended before epoch-0002"):
        train_again(target, Launch([], 2), Options(), group)


@pytest.mark.parametrize(
    ("visible", "expected"), [(None, ["0,1", "2,3"]), ("4,5,6,7", ["4,5", "6,7"])]
)
def test_workers_share_the_gpus_of_this_machine(
    target: Target,
    programs: Path,
    monkeypatch: pytest.MonkeyPatch,
    visible: str | None,
    expected: list[str],
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    group = [member("a", "0"), member("b", "0")]
    with pytest.raises(WorkloadError):
        train_again(target, Launch([], 2), parse(["--gpus", "0,1"]), group)
    assert [(programs / name).read_text().strip() for name in ("a", "b")] == expected


def test_it_is_the_same_training_without_what_validations_decide(
    target: Target, programs: Path
) -> None:
    decisions = ["--early-stopping-metric", "top1", "--early-stopping-patience", "2"]
    arguments = ["--network", "lenet", "--preset", "cifar10", "--lr", "0.3", "--dtype", "float16"]
    trained = parse([*arguments, *decisions, "--checkpoint-best", "loss"])
    with pytest.raises(WorkloadError):
        train_again(target, Launch([], 1), trained, [member("a", "0")])
    again = values_of(parse((programs / "a.arguments").read_text().splitlines()))
    assert {name for name, value in values_of(trained).items() if again[name] != value} == {
        *("early_stopping_metric", "early_stopping_patience", "checkpoint_best"),
        *("output", "checkpoint_keep"),
    }
