"""What of a sample is progress, and what is silence."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from imagenet_operator.manifests import labels
from imagenet_operator.reconcile.sample import Asked, Sample
from support.member_metrics import (
    BOTH,
    INTERVAL,
    LATER,
    NOW,
    WORKER,
    Exporter,
    speed,
    worker,
)
from support.samples import parse_sample


@pytest.mark.parametrize(
    ("second", "progressed_at"),
    [
        pytest.param({"a": worker(0)}, NOW, id="stalls"),
        pytest.param({"a": worker(0, images=704)}, LATER, id="more images"),
        pytest.param({"a": worker(0, batch=6)}, LATER, id="another batch"),
        pytest.param({"a": worker(0), "b": worker(1)}, LATER, id="a member joins"),
        pytest.param({"a": worker(0, attempt=1)}, LATER, id="another attempt"),
        pytest.param({"a": worker(0, images=32)}, NOW, id="a counter falls"),
    ],
)
def test_progress_is_a_rise_since_the_last_sample(
    second: dict[str, Exporter], progressed_at: datetime
) -> None:
    first = parse_sample({"a": worker(0).text}, None, NOW)
    sample = parse_sample({pod: item.text for pod, item in second.items()}, first, LATER)
    assert sample.progressed_at == progressed_at


def test_hearing_a_member_again_is_no_progress() -> None:
    both = {"a": worker(0).text, "b": worker(1).text}
    first = parse_sample(both, None, NOW)
    second = parse_sample({"a": both["a"]}, first, LATER)
    third = parse_sample(both, second, LATER + timedelta(seconds=15))
    rank_0_silent = parse_sample({"b": both["b"]}, third, LATER + timedelta(seconds=30))
    last = parse_sample(both, rank_0_silent, LATER + timedelta(seconds=45))
    assert {item.progressed_at for item in (second, third, rank_0_silent, last)} == {NOW}


@pytest.mark.parametrize("late", ["a", "b"])
def test_who_answers_and_gets_on_is_progress_whoever_else_is_late(late: str) -> None:
    texts = {"a": worker(0).text, "b": worker(1).text}
    first = parse_sample(texts, None, NOW, BOTH)
    further = {"a": worker(0, images=704), "b": worker(1, images=704)}
    heard = {pod: item.text for pod, item in further.items() if pod != late}
    second = parse_sample(heard, first, LATER, BOTH)
    assert (second.progressed_at, second.silent_since) == (LATER, None)
    third = parse_sample(heard, second, LATER + INTERVAL, BOTH)
    assert third.progressed_at == LATER


def test_a_batch_of_rank_0_is_progress_once_while_another_is_late() -> None:
    first = parse_sample({"a": worker(0).text, "b": worker(1).text}, None, NOW, BOTH)
    further = {"a": worker(0, batch=6).text}
    second = parse_sample(further, first, LATER, BOTH)
    assert (second.batch, speed(second), second.progressed_at) == (
        6,
        201,
        LATER,
    )
    third = parse_sample(further, second, LATER + INTERVAL, BOTH)
    assert third.progressed_at == LATER


def test_what_was_heard_stays_while_nobody_answers() -> None:
    asked = {"a": WORKER}
    first = parse_sample({"a": worker(0).text}, None, NOW, asked)
    assert (first.asked, first.silent_since) == (0, None)
    second = parse_sample({}, first, LATER, asked)
    assert second == replace(first, taken_at=LATER, silent_since=LATER)
    third = parse_sample({"a": "cut off {"}, second, LATER + INTERVAL, asked)
    assert third == replace(second, taken_at=LATER + INTERVAL)
    last = parse_sample({"a": worker(0).text}, third, LATER + 2 * INTERVAL, asked)
    assert (last.silent_since, last.progressed_at) == (None, NOW)


def test_silence_from_the_start_is_told_with_its_beginning() -> None:
    asked = {"a": Asked("worker", 3), "b": Asked("pack", None)}
    first = parse_sample({}, None, NOW, asked)
    assert first == Sample(taken_at=NOW, asked=3, silent_since=NOW)
    second = parse_sample({}, first, LATER, asked)
    assert second == Sample(taken_at=LATER, asked=3, silent_since=NOW)


def test_the_silence_of_an_attempt_is_its_own() -> None:
    former = parse_sample({}, None, NOW, {"a": WORKER})
    asked = {"a": WORKER, "b": Asked("worker", 1)}
    assert parse_sample({}, former, LATER, asked).silent_since == LATER
    straggler = parse_sample({"a": worker(0, attempt=0).text}, former, LATER, asked)
    assert (straggler.attempt, straggler.asked, straggler.silent_since) == (0, 1, LATER)


def test_who_answers_with_nothing_that_is_known_here_is_silent() -> None:
    sample = parse_sample({"a": "other_program_steps 3\n"}, None, NOW, {"a": WORKER})
    assert (sample.attempt, sample.silent_since) == (None, NOW)


@pytest.mark.parametrize("attempt", ["", "-1", "first", "\N{SUPERSCRIPT TWO}", "9" * 5000])
def test_what_is_no_attempt_is_none(attempt: str) -> None:
    text = f'imagenet_train_epoch{{role="worker",attempt="{attempt}"}} 3\n'
    assert parse_sample({"a": text}, None, NOW) == Sample(taken_at=NOW)
    assert Asked.of_labels({labels.JOB_ROLE: "worker", labels.ATTEMPT: attempt}).attempt is None
