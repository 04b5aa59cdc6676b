"""The best epoch and early stopping, as functions of the validations."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_spec.names import TRAINING_FILE
from imagenet_spec.program.train import METRICS, Metric
from imagenet_workloads.checkpoint import write_batches_per_epoch
from imagenet_workloads.errors import InputError
from imagenet_workloads.train.command_line import parse
from imagenet_workloads.train.counts import LOSS_UNIT, Counts
from imagenet_workloads.train.validation_history import (
    EarlyStopping,
    EpochValidation,
    ValidationHistory,
    by_merit,
    early_stop,
)

IMAGES = 100
NONE = Counts(images=IMAGES, not_finite=1)


def accuracies(*right: int) -> list[EpochValidation]:
    """One epoch after the other, with so many images of 100 classified right."""
    return [
        EpochValidation(epoch, 0, Counts(images=IMAGES, top1=top1))
        for epoch, top1 in enumerate(right, start=1)
    ]


def losses(*nats: float | None) -> list[EpochValidation]:
    return [
        EpochValidation(
            epoch,
            0,
            NONE if loss is None else Counts(IMAGES, loss_units=round(loss * IMAGES / LOSS_UNIT)),
        )
        for epoch, loss in enumerate(nats, start=1)
    ]


@pytest.mark.parametrize(
    ("history", "metric", "epochs"),
    [
        ([], "top1", []),
        (accuracies(10, 30, 20), "top1", [2, 3, 1]),
        (accuracies(10, 30, 30), "top1", [2, 3, 1]),
        (losses(3.0, 1.0, 2.0), "loss", [2, 3, 1]),
        (losses(1.0, 1.0), "loss", [1, 2]),
        (losses(None, 5.0, None), "loss", [2]),
        (losses(None), "loss", []),
        ([EpochValidation(1, 0, Counts())], "top1", []),
    ],
)
def test_the_best_is_the_first_of_the_equal_ones(
    history: list[EpochValidation], metric: Metric, epochs: list[int]
) -> None:
    assert [one.epoch for one in by_merit(history, metric)] == epochs


@pytest.mark.parametrize(
    ("history", "wanted", "improved"),
    [
        # None: training goes on. Otherwise it ends, and this epoch was the last to improve.
        ([], EarlyStopping("top1", 1), None),
        (accuracies(10), EarlyStopping("top1", 1), None),
        (accuracies(10, 10), EarlyStopping("top1", 1), 1),
        (accuracies(10, 20, 15), EarlyStopping("top1", 2), None),
        (accuracies(10, 20, 15, 20), EarlyStopping("top1", 2), 2),
        (accuracies(10, 20, 15, 21), EarlyStopping("top1", 2), None),
        # Each epoch is better than the one before, but not by more than minDelta.
        (accuracies(10, 14, 18), EarlyStopping("top1", 2, 0.05), None),
        (accuracies(10, 13, 15), EarlyStopping("top1", 2, 0.05), 1),
        (losses(2.0, 1.5, 1.5, 1.6), EarlyStopping("loss", 2), 2),
        (losses(2.0, 1.5, 1.5, 1.4), EarlyStopping("loss", 2), None),
        (losses(None, None), EarlyStopping("loss", 2), 0),
        (losses(None, 9.0, None), EarlyStopping("loss", 2), None),
        # An earlier end counts no more: patience was raised since.
        (accuracies(10, 9, 9, 30), EarlyStopping("top1", 2), None),
    ],
)
def test_training_ends_after_so_many_epochs_without_an_improvement(
    history: list[EpochValidation], wanted: EarlyStopping, improved: int | None
) -> None:
    found = early_stop(history, wanted)
    assert (found is not None) == (improved is not None)
    if found is not None:
        assert found.metric == wanted.metric
        assert (found.improved.epoch if found.improved else 0) == improved


counts = st.builds(
    Counts,
    images=st.just(IMAGES),
    top1=st.integers(0, 9),
    top5=st.integers(0, 9),
    loss_units=st.integers(0, 9),
    not_finite=st.sampled_from([0, 0, 0, 1]),
)


@given(st.lists(counts, max_size=12), st.sampled_from(METRICS), st.integers(1, 4), st.data())
def test_a_history_that_was_cut_and_read_again_decides_the_same(
    found: list[Counts], metric: Metric, patience: int, data: st.DataObject
) -> None:
    wanted = EarlyStopping(metric, patience, data.draw(st.sampled_from([0.0, 0.02])))
    whole = ValidationHistory(metric, wanted)
    resumed = ValidationHistory(metric, wanted)
    for epoch, one in enumerate(found, start=1):
        whole.add(EpochValidation(epoch, 0, one))
        resumed.add(EpochValidation(epoch, 0, one))
        if data.draw(st.booleans()):
            # Some epochs are trained again from an earlier checkpoint, and judged again.
            kept = data.draw(st.integers(0, epoch))
            read = map(EpochValidation.read, resumed.documents()[:kept])
            resumed = ValidationHistory(metric, wanted, tuple(read))
            for again in range(kept, epoch):
                resumed.add(EpochValidation(again + 1, 0, found[again]))
        assert resumed.early_stop == whole.early_stop
        assert resumed.best == whole.best


def test_a_checkpoint_holds_the_history(tmp_path: Path) -> None:
    options = parse(
        [
            *("--checkpoint-best", "loss", "--early-stopping-metric", "top1"),
            *("--early-stopping-patience", "3", "--early-stopping-min-delta", "0.01"),
        ],
        {},
    )
    history = ValidationHistory.of(options)
    assert history.early_stopping == EarlyStopping("top1", 3, 0.01)
    history.add(EpochValidation(1, 4, Counts(1, 2, 3, 4, 5, 6)))
    write_batches_per_epoch(tmp_path, 7, validations=history.documents())
    again = ValidationHistory.of(options)
    again.load(tmp_path)
    assert again.entries == history.entries


@pytest.mark.parametrize("validations", ["1", "[1]", '[{"epoch": 1}]', '[{"counts": {}}]'])
def test_a_damaged_history_is_refused(tmp_path: Path, validations: str) -> None:
    text = f'{{"batchesPerEpoch": 7, "validations": {validations}}}'
    (tmp_path / TRAINING_FILE).write_text(text)
    with pytest.raises(InputError, match="its validations are damaged"):
        ValidationHistory().load(tmp_path)


def test_a_checkpoint_of_an_earlier_release_has_none(tmp_path: Path) -> None:
    write_batches_per_epoch(tmp_path, 7)
    history = ValidationHistory()
    history.load(tmp_path)
    assert history.entries == ()
