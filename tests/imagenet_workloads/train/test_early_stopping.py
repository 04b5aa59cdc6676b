"""Early stopping and the best model, over whole trainings of workers that learn by a script.

The workers are threads. Whatever kills them, at any place, the attempts that follow end at the same
epoch with the same model.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imagenet_spec.evaluation import from_json
from imagenet_spec.events import Finished, Validated, read_events
from imagenet_workloads.checkpoint import CheckpointStore, Identity, read_validations
from imagenet_workloads.data.inputs import plain_inputs
from imagenet_workloads.data.worker_data import Batch, Data
from imagenet_workloads.environment import Environment
from imagenet_workloads.errors import InputError
from imagenet_workloads.process.termination import Termination
from imagenet_workloads.telemetry.server import Registry
from imagenet_workloads.telemetry.training import TrainingRecorder
from imagenet_workloads.train.command_line import parse
from imagenet_workloads.train.framework import Outputs, UpdatePlan
from imagenet_workloads.train.group import Flags
from imagenet_workloads.train.receipts import State
from imagenet_workloads.train.resume import ResumePoint
from imagenet_workloads.train.trainer import Worker, train
from support.framework_doubles import Learner
from support.sentences import assert_says

BATCHES, IMAGES = 2, 10
WEIGHTS = "weights"


class KilledError(Exception):
    """The end of a process."""


@dataclass
class Peers:
    """What the workers of a training share; a rank is killed at `place`, a number of operations."""

    script: Sequence[int]
    workers: int = 1
    collective: bool = True
    place: int | None = None
    validation_images: int = IMAGES
    sums: list[list[int]] = field(default_factory=list)
    steps: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.barrier = threading.Barrier(self.workers)


class Scripted(Learner):
    """Framework, group, learner and data of one worker; its weights are its number of steps."""

    name, images_divisor, ordered_batch = "MXNet", 1, None
    batches_per_epoch, images = BATCHES, BATCHES

    def __init__(self, peers: Peers, rank: int) -> None:
        self.peers, self.rank, self.workers = peers, rank, peers.workers
        self.collective, self.learned, self.operations = peers.collective, 0, 0
        self.seen = list[int]()

    def operate(self) -> None:
        """Count an operation at which the process may end."""
        if self.operations == self.peers.place:
            raise KilledError
        self.operations += 1

    def check(self) -> None:
        pass

    def join(self) -> "Scripted":
        return self

    def wait_to_read(self, batch: Batch) -> None:
        pass

    def open_data(self, accumulation_steps: int, scratch: Path) -> Data:
        validation = Held(self.peers.validation_images)
        return Data(self, validation, plain_inputs((1, 4, 4)), ("a", "b"), 2, "key")

    def epoch(
        self,
        number: int,
        first_batch: int,
        passed: Callable[[], None] = lambda: None,
        first_image: int = 0,
    ) -> Iterator[Batch]:
        for _ in range(first_batch, BATCHES):
            yield Batch(None, np.zeros(1, np.float32), 1)

    def learner(self, data: Data, resume_point: ResumePoint, plan: UpdatePlan) -> "Scripted":
        if resume_point.folder is not None:
            self.load(resume_point.folder)
        return self

    def train(self, batch: Batch, updates: bool, flags: Flags) -> tuple[Flags, Outputs]:
        self.operate()
        if self.collective:
            flags = Flags.of(self.add(flags.numbers()))
        self.learned += 1
        return flags, Outputs.of(np.eye(2, dtype=np.float32)[:1], np.zeros(1, np.float32))

    def predict(self, batch: Batch) -> Outputs:
        """Classify the first images right, as many as the script says."""
        self.operate()
        epoch = self.learned // BATCHES
        first = len(self.seen)
        right = np.arange(first, first + batch.images) < self.peers.script[epoch - 1]
        return Outputs.of(
            np.stack([right, ~right], axis=1).astype(np.float32),
            np.zeros(batch.images, np.float32),
        )

    def snapshot(self) -> "Copied":
        return Copied(self, self.learned)

    def load(self, folder: Path) -> None:
        self.learned = int((folder / WEIGHTS).read_text())

    def export(self, prefix: Path, epoch: int) -> Mapping[str, str]:
        self.operate()
        file = prefix.with_name(f"{prefix.name}-{epoch:04}.params")
        file.write_text(str(self.learned))
        return {"params": file.name}

    def broadcast_from_rank0(self, name: str, numbers: Sequence[int]) -> list[int]:
        return self._all(numbers, lambda sums: sums[0])

    def add(self, numbers: Sequence[int]) -> list[int]:
        return self._all(numbers, lambda sums: [sum(column) for column in zip(*sums, strict=True)])

    def _all(
        self, numbers: Sequence[int], choose: Callable[[list[list[int]]], list[int]]
    ) -> list[int]:
        """Give what is chosen from every rank's numbers to every rank."""
        peers = self.peers
        peers.steps[self.rank] = self.learned
        if self.workers == 1:
            return choose([list(numbers)])
        if peers.barrier.wait() == 0:
            peers.sums = [[] for _ in range(self.workers)]
        peers.barrier.wait()
        peers.sums[self.rank] = list(numbers)
        peers.barrier.wait()
        found = choose(peers.sums)
        peers.barrier.wait()
        return found

    def wait_for_all(self) -> None:
        self._all([0], lambda sums: sums[0])

    def close(self) -> None:
        self.peers.steps[self.rank] = self.learned


@dataclass
class Copied:
    """A copy of the number of steps."""

    worker: Scripted
    learned: int

    def save(self, folder: Path) -> None:
        self.worker.operate()
        (folder / WEIGHTS).write_text(str(self.learned))

    def state(self) -> State:
        return {WEIGHTS: {"": np.array([self.learned])}}


@dataclass
class Held:
    """Validation images, all in the first rank's one batch."""

    images: int

    def batches(self, rank: int, ranks: int) -> Iterator[Batch]:
        if rank == 0:
            yield Batch(None, np.zeros(self.images, np.float32), self.images)


def arguments(folder: Path, *more: str) -> list[str]:
    fixed = ["--output", str(folder), "--batch-size", "1", "--warmup-epochs", "0"]
    return [*fixed, *more]


def run(folder: Path, peers: Peers, attempt: int, *more: str) -> list[int | Exception]:
    """Run an attempt; return each rank's exit code, or what has ended it."""
    options = parse(arguments(folder, *more), {})
    ends: list[int | Exception] = [-1] * peers.workers

    def work(rank: int) -> None:
        environment = Environment(job="digits", role="worker", attempt=attempt)
        identity = Identity("uid", "hash")
        store = CheckpointStore(folder, attempt, identity, options.output.checkpoint_keep)
        worker = Worker(
            options,
            environment,
            store,
            identity,
            TrainingRecorder(Registry(environment)),
            Termination(grace=1),
            Scripted(peers, rank),
        )
        try:
            ends[rank] = train(worker)
        except (KilledError, InputError) as error:
            ends[rank] = error
            peers.barrier.abort()
        except threading.BrokenBarrierError as error:
            ends[rank] = error

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(peers.workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ends


def outcome(folder: Path, attempt: int) -> dict[str, Any]:
    """What a training left that does not depend on its attempts."""
    place = folder / f"attempts/r{attempt}"
    found = json.loads((place / "result.json").read_text())
    kept = ("epochs", "plannedEpochs", "best", "earlyStop", "validation", "model")
    evaluation = from_json((place / "evaluation.json").read_bytes())
    assert f"model-{evaluation.epoch:04}.params" == found["model"]["params"]
    assert evaluation.right == found["validation"]["top1Count"]
    receipts = [(one["epoch"], one["batch"]) for one in found["checkpoints"]]
    model = (place / found["model"]["params"]).read_text()
    return {name: found[name] for name in kept} | {"last": receipts[-1], "weights": model}


STOPPING = ("--num-epochs", "9", "--early-stopping-metric", "top1")
PATIENT = (*STOPPING, "--early-stopping-patience", "2")
BEST = ("--checkpoint-best", "top1", "--checkpoint-keep", "1")
SCRIPT = (3, 7, 5, 7, 8, 9, 9, 9, 9)


@pytest.mark.parametrize("collective", [True, False])
@pytest.mark.parametrize("workers", [1, 3])
def test_all_ranks_stop_at_the_end_of_one_epoch(
    tmp_path: Path, workers: int, collective: bool
) -> None:
    peers = Peers(SCRIPT, workers, collective)
    assert run(tmp_path, peers, 0, *PATIENT, *BEST) == [0] * workers
    assert outcome(tmp_path, 0) == {
        "epochs": 4,
        "plannedEpochs": 9,
        "best": {"metric": "top1", "epoch": 2, "value": 0.7},
        "earlyStop": {"metric": "top1", "epoch": 2, "value": 0.7},
        "validation": {
            "images": IMAGES,
            **{"top1Count": 7, "top5Count": IMAGES, "top1": 0.7, "top5": 1.0},
            "loss": pytest.approx(0.3 * -np.log(1e-12)),
        },
        "model": {"params": "model-0002.params"},
        "last": (2, 0),
        "weights": str(2 * BATCHES),
    }
    # Ranks that validate have loaded the best model since.
    trained = 4 * BATCHES
    others = 2 * BATCHES if collective else trained
    assert peers.steps == {rank: others if rank else 2 * BATCHES for rank in range(workers)}
    events = [event for _, event in read_events(tmp_path / "attempts/r0/metrics.jsonl")]
    assert [event.epoch for event in events if isinstance(event, Validated)] == [0, 1, 2, 3]
    (finished,) = (event for event in events if isinstance(event, Finished))
    facts = ("epoch 4 of 9", "top1 has not improved", "epoch 2 (0.7000)")
    assert_says(finished.early_stop or "", "early stopping", *facts)
    assert "the model is that of epoch 2" in finished.sentence()


def test_the_last_epoch_may_be_the_best(tmp_path: Path) -> None:
    assert run(tmp_path, Peers((1, 2, 3)), 0, "--num-epochs", "3", *BEST) == [0]
    found = outcome(tmp_path, 0)
    assert (found["epochs"], found["model"]) == (3, {"params": "model-0003.params"})
    assert found["earlyStop"] is None


def test_a_training_without_both_is_as_before(tmp_path: Path) -> None:
    assert run(tmp_path, Peers((3, 2)), 0, "--num-epochs", "2") == [0]
    found = outcome(tmp_path, 0)
    assert (found["best"], found["earlyStop"]) == (None, None)
    assert (found["model"], found["last"]) == ({"params": "model-0002.params"}, (2, 0))


def test_keep_never_deletes_the_best(tmp_path: Path) -> None:
    script = (5, 9, 1, 2, 3, 4)
    assert run(tmp_path, Peers(script), 0, "--num-epochs", "6", *BEST) == [0]
    kept = sorted(path.name for path in (tmp_path / "attempts/r0/checkpoints").iterdir())
    assert kept == ["epoch-0002-batch-00000000", "epoch-0006-batch-00000000"]


def test_the_best_epoch_is_saved_between_those_that_are_saved_anyway(tmp_path: Path) -> None:
    more = ("--num-epochs", "5", "--checkpoint-every-epochs", "4", "--checkpoint-best", "top1")
    assert run(tmp_path, Peers((5, 4, 9, 1, 1)), 0, *more) == [0]
    kept = sorted(path.name for path in (tmp_path / "attempts/r0/checkpoints").iterdir())
    assert [name[:10] for name in kept] == ["epoch-0003", "epoch-0004", "epoch-0005"]
    assert outcome(tmp_path, 0)["weights"] == str(3 * BATCHES)


def test_a_damaged_best_gives_way_to_the_next_best(tmp_path: Path) -> None:
    more = ("--num-epochs", "3", "--checkpoint-best", "top1")
    assert run(tmp_path, Peers((9, 8, 1)), 0, *more) == [0]
    (tmp_path / "attempts/r0/checkpoints/epoch-0001-batch-00000000" / WEIGHTS).write_text("7")
    assert run(tmp_path, Peers((9, 8, 1)), 1, *more) == [0]
    found = outcome(tmp_path, 1)
    assert found["best"] == {"metric": "top1", "epoch": 2, "value": 0.8}
    assert (found["weights"], found["validation"]["top1"]) == (str(2 * BATCHES), 0.8)


@pytest.mark.parametrize("more", [PATIENT, BEST])
def test_a_training_without_validation_images_is_refused(
    tmp_path: Path, more: tuple[str, ...]
) -> None:
    (end,) = run(tmp_path, Peers(SCRIPT, validation_images=0), 0, *more)
    assert isinstance(end, InputError)
    assert "(earlyStopping.metric) need validation images" in str(end)


def test_a_kill_between_checkpoint_and_validation(tmp_path: Path) -> None:
    """After the fourth epoch: 8 steps, 4 checkpoints, 3 validations, in the order of the loop."""
    more = (*PATIENT, *BEST)
    for place in range(8 + 3, 100):
        killed = tmp_path / f"killed-{place}"
        (end,) = run(killed, Peers(SCRIPT, place=place), 0, *more)
        last = killed / "attempts/r0/checkpoints/epoch-0004-batch-00000000"
        if end == 0 or (last.exists() and len(read_validations(last)) == 3):
            break
    assert isinstance(end, KilledError)
    assert not (killed / "attempts/r0/result.json").exists()
    peers = Peers(SCRIPT)
    assert run(killed, peers, 1, *more) == [0]
    run(tmp_path / "whole", Peers(SCRIPT), 0, *more)
    assert outcome(killed, 1) == outcome(tmp_path / "whole", 0)
    # Not a step more: the validation that was missing has ended it.
    events = [event for _, event in read_events(killed / "attempts/r1/metrics.jsonl")]
    assert [event.epoch for event in events if isinstance(event, Validated)] == [3]


def test_a_pod_that_starts_after_an_early_stop_ends_at_once(tmp_path: Path) -> None:
    more = (*PATIENT, "--checkpoint-every-epochs", "5", "--checkpoint-best", "top1")
    assert run(tmp_path, Peers(SCRIPT), 0, *more) == [0]
    assert run(tmp_path, Peers(SCRIPT), 1, *more) == [0]
    assert outcome(tmp_path, 1) == outcome(tmp_path, 0)
    assert json.loads((tmp_path / "attempts/r1/result.json").read_text())["train"]["images"] == 0


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(0, IMAGES), min_size=6, max_size=6),
    st.lists(st.integers(0, 25), max_size=4),
    st.integers(1, 3),
    st.sampled_from([1, 2, 4]),
    st.booleans(),
)
def test_killed_anywhere_it_ends_as_if_uninterrupted(
    script: list[int], places: list[int], patience: int, every: int, within: bool
) -> None:
    more = ["--num-epochs", "6", "--early-stopping-metric", "top1", *BEST]
    more += ["--early-stopping-patience", str(patience), "--checkpoint-every-epochs", str(every)]
    # Within epochs too, after each step.
    more += ["--checkpoint-every-seconds", "0.000001"] if within else []
    with TemporaryDirectory() as scratch:
        whole, cut = Path(scratch, "whole"), Path(scratch, "cut")
        assert run(whole, Peers(script), 0, *more) == [0]
        attempt = 0
        for place in places:
            (end,) = run(cut, Peers(script, place=place), attempt, *more)
            attempt += 1
            if end == 0:
                break
        assert run(cut, Peers(script), attempt, *more) == [0]
        assert outcome(cut, attempt) == outcome(whole, 0)
