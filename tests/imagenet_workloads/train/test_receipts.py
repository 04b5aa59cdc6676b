"""Receipts of the state 10 steps after a checkpoint: when they are due, and what changes them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from imagenet_workloads.checkpoint import (
    CheckpointStore,
    Identity,
    Position,
    write_batches_per_epoch,
)
from imagenet_workloads.errors import InputError
from imagenet_workloads.train.receipts import (
    LATER_STEPS,
    Launch,
    Receipt,
    Receipts,
    State,
    earlier,
    read_chain,
)

BATCHES = 8
STATE = {"weights": {"a": np.zeros((2, 3), np.float32), "b": np.ones(2, np.float32)}}


def receipts(*, steps: int = 1, workers: int = 1, attempt: int = 0) -> Receipts:
    return Receipts(7, steps, Launch(["--seed", "7"], workers, "3", 2), attempt, BATCHES)


def save(kept: Receipts, output: Path, position: Position) -> Path:
    """Write a checkpoint as training does; return its folder."""
    store = CheckpointStore(output, kept.attempt, Identity("u", "h"), keep=99)
    with store.begin(position) as folder:
        write_batches_per_epoch(folder, kept.batches_per_epoch)
        kept.write(folder, position)
    kept.add(store.folder_of(position))
    kept.expect_later(position, position)
    return store.folder_of(position)


@pytest.mark.parametrize(
    ("steps", "checkpoint", "due"),
    [
        (1, Position(0, 3), Position(1, 5)),
        (1, Position(1, 0), Position(2, 2)),
        (2, Position(0, 2), Position(2, 6)),
        (4, Position(1, 0), Position(6, 0)),
    ],
)
def test_due_ten_updates_after_the_checkpoint_and_once(
    steps: int, checkpoint: Position, due: Position
) -> None:
    assert LATER_STEPS == 10
    kept = receipts(steps=steps)
    kept.expect_later(checkpoint, checkpoint)
    found = {
        (epoch, batch): kept.due_at(Position(epoch, batch))
        for epoch in range(7)
        for batch in range(BATCHES)
    }
    assert {place: of for place, of in found.items() if of} == {
        (due.epoch, due.batch): [checkpoint]
    }
    assert kept.due_at(due) == []


def test_it_joins_the_receipt_of_its_checkpoint_and_survives_the_next_checkpoint(
    tmp_path: Path,
) -> None:
    kept = receipts(attempt=3)
    save(kept, tmp_path, Position(1, 0))
    kept.add_later([Position(1, 0)], Position(2, 2), STATE)
    later = kept.chain[0].later
    assert later is not None
    assert (later.steps, later.position, later.attempt) == (10, Position(2, 2), 3)
    assert later.state.keys() == {"weights", "random"}

    folder = save(kept, tmp_path, Position(3, 0))
    assert earlier(folder) == [replace(kept.chain[0], later=later)]
    path = tmp_path / "receipts.json"
    path.write_text(kept.to_json())
    assert read_chain(path, "receipts") == kept.chain
    for written in (path, folder / "receipts.json"):
        assert Launch.read(written) == Launch(("--seed", "7"), 1, "3", 2)


ZEROS, ONES = STATE["weights"]["a"], STATE["weights"]["b"]


@pytest.mark.parametrize(
    "other",
    [
        {"weights": {"a": ZEROS + np.float32(1e-30), "b": ONES}},
        {"weights": {"a": ZEROS.reshape(3, 2), "b": ONES}},
        {"weights": {"a": ZEROS.astype(np.int32), "b": ONES}},
        {"weights": {"a": ZEROS, "c": ONES}},
        {"weights": {"a": ZEROS}},
        {**STATE, "optimizer": {}},
    ],
    ids=["value", "shape", "type", "name", "missing", "part"],
)
def test_another_state_has_another_receipt(tmp_path: Path, other: State) -> None:
    sums = []
    for state in (STATE, {part: dict(STATE[part]) for part in STATE}, other):
        kept = receipts()
        save(kept, tmp_path, Position(1, 0))
        kept.add_later([Position(1, 0)], Position(2, 2), state)
        assert kept.chain[0].later is not None
        sums.append(kept.chain[0].later.state)
    assert sums[0] == sums[1] != sums[2]


def resumed(folder: Path, kept: Receipts, start: Position) -> dict[Position, list[Position]]:
    """Resume from a checkpoint; return what is due at each later position."""
    kept.go_on_from(folder, start)
    positions = [Position(epoch, batch) for epoch in range(4) for batch in range(BATCHES)]
    found = {position: kept.due_at(position) for position in positions}
    return {position: due for position, due in found.items() if due}


FIRST, SECOND, LAST = Position(0, 1), Position(0, 6), Position(1, 5)


def saved_three_times(output: Path, *, workers: int = 1) -> Path:
    """The last of three checkpoints: 12 and 7 steps after the others, and no later receipt."""
    kept = receipts(workers=workers)
    return [save(kept, output, position) for position in (FIRST, SECOND, LAST)][-1]


def test_a_resumed_training_owes_the_receipts_that_the_killed_one_did_not_get_to(
    tmp_path: Path,
) -> None:
    folder = saved_three_times(tmp_path)
    assert resumed(folder, receipts(attempt=1), LAST) == {
        Position(2, 0): [SECOND],
        Position(2, 7): [LAST],
    }


def test_other_workers_owe_only_the_receipt_of_the_checkpoint_that_they_resume(
    tmp_path: Path,
) -> None:
    folder = saved_three_times(tmp_path, workers=2)
    assert resumed(folder, receipts(attempt=1), LAST) == {Position(2, 7): [LAST]}
    half = replace(receipts(workers=2, attempt=1), batches_per_epoch=4)
    half.go_on_from(folder, Position(1, 2))
    assert half.due_at(Position(4, 0)) == [LAST]


def test_a_chain_without_later_receipts_is_read(tmp_path: Path) -> None:
    document = {"epoch": 1, "batch": 0, "attempt": 0, "files": {"params": "ab"}, "random": "cd"}
    assert Receipt.read(document).later is None
    assert Receipt.read(document).document() == document


@pytest.mark.parametrize("text", ["[]", '{"receipts": [{"epoch": 1}]}', '{"receipts": [1]}', "{"])
def test_a_damaged_chain_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "receipts.json"
    path.write_text(text)
    with pytest.raises(InputError, match=f"{path}: holds no receipts"):
        read_chain(path, "receipts")
