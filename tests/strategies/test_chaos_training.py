"""One schedule of `make chaos-training`: a worker is killed, and three go on."""

import os
from pathlib import Path

from chaos.training import draw, has_mistakes, play, row


def test_a_training_that_is_killed_and_resized_trains_each_image_once(tmp_path: Path) -> None:
    schedule = draw(1)
    assert [attempt.workers for attempt in schedule.attempts] == [1, 3]
    play(schedule, tmp_path)
    assert not has_mistakes(row(1, schedule, tmp_path))

    # Without its last batch, a ledger is not complete.
    last = max(tmp_path.glob("out/attempts/r*/ledger/epoch-*"))
    os.truncate(last, last.stat().st_size - 1)
    assert has_mistakes(row(1, schedule, tmp_path))
