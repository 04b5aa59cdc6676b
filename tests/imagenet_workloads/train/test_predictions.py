"""What is recorded of each validation image, and how it comes to rank 0."""

import logging
import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from imagenet_spec.evaluation import CERTAIN
from imagenet_workloads.train.counts import OutputCounts
from imagenet_workloads.train.framework import Outputs
from imagenet_workloads.train.predictions import ROW, Predictions, Rows, gather
from support.framework_doubles import Alone


def outputs(probabilities: object, labels: list[int]) -> Outputs:
    return Outputs.of(np.array(probabilities, np.float32), np.array(labels, np.float32))


def test_each_image_has_label_prediction_and_both_probabilities() -> None:
    found = Predictions()
    found.add(outputs([[0.25, 0.75, 0], [0, 0, 1]], [0, 2]))
    found.add(outputs([[0.5, 0.25, 0.25]], [1]))
    rows = found.rows()
    assert rows["label"].tolist() == [0, 2, 1]
    assert rows["prediction"].tolist() == [1, 2, 0]
    assert (rows["label_probability"] / CERTAIN).round(4).tolist() == [0.25, 1, 0.25]
    assert (rows["prediction_probability"] / CERTAIN).round(4).tolist() == [0.75, 1, 0.5]


def test_no_number_counts_as_no_probability() -> None:
    found = Predictions()
    found.add(outputs([[np.nan, np.nan], [0.5, np.inf]], [1, 1]))
    rows = found.rows()
    assert rows["label_probability"].tolist() == [0, 0]
    assert rows["prediction"].tolist() == [0, 1]


def test_right_predictions_are_those_of_the_counts() -> None:
    """Also if classes are equally likely, or are no numbers."""
    random = np.random.default_rng(0)
    found = Predictions()
    counts = OutputCounts(0, found.add)
    for _ in range(50):
        probabilities: NDArray[np.float32] = random.integers(0, 3, (20, 4)).astype(np.float32)
        probabilities[random.random((20, 4)) < 0.05] = np.nan
        counts.add(Outputs.of(probabilities, random.integers(0, 4, 20).astype(np.float32)))
    rows, counted = found.rows(), counts.finish()
    assert len(rows) == counted.images == 1000
    assert np.count_nonzero(rows["label"] == rows["prediction"]) == counted.top1


@dataclass
class Member(Alone):
    """A worker that waits for the others."""

    barrier: threading.Barrier = None  # type: ignore[assignment]

    def wait_for_all(self) -> None:
        self.barrier.wait(60)


def gathered(parts: list[Rows], folders: list[Path]) -> list[Rows | None]:
    """Return what each rank gets; the ranks are threads."""
    barrier = threading.Barrier(len(parts))
    found: list[Rows | None] = [None] * len(parts)
    images = sum(map(len, parts))

    def run(rank: int) -> None:
        member = Member(rank, len(parts), barrier=barrier)
        found[rank] = gather(parts[rank], images, member, folders[rank])

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(len(parts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def drawn(images: int) -> Rows:
    rows = np.zeros(images, ROW)
    rows["label"] = np.random.default_rng(images).integers(0, 1 << 31, images)
    return rows


def test_rank_0_gets_all_in_the_order_of_the_ranks(tmp_path: Path) -> None:
    parts = [drawn(5), drawn(4), drawn(0)]
    first, *others = gathered(parts, [tmp_path] * 3)
    assert first is not None
    assert first.tolist() == np.concatenate(parts).tolist()
    assert others == [None, None]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_shared_leaves_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    with caplog.at_level(logging.WARNING):
        assert gathered([drawn(3), drawn(2)], folders) == [None, None]
    assert "the predictions of a worker are missing" in caplog.text


def test_too_few_predictions_leave_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert gather(drawn(3), 4, Alone(), tmp_path) is not None, "evaluate has counted them"
        part = tmp_path / "predictions/rank-00001"
        part.parent.mkdir()
        part.write_bytes(drawn(2).tobytes())
        assert gather(drawn(3), 6, Alone(workers=2), tmp_path) is None
    assert "5 predictions of 6 images" in caplog.text


def test_ranks_that_are_apart_have_nothing_to_gather(tmp_path: Path) -> None:
    own = drawn(3)
    assert gather(own, 3, Alone(workers=2, collective=False), tmp_path) is own
    assert gather(own, 3, Alone(rank=1, workers=2, collective=False), tmp_path) is None
    assert list(tmp_path.iterdir()) == []
