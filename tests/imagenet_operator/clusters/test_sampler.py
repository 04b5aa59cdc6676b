"""The sampler: the pods that it asks, bad answers, and the samples that it announces."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from imagenet_operator.clusters.interface import JobKey
from imagenet_operator.clusters.sampler import NO_TIME, LeftOut, Sampler, Target, targets
from imagenet_operator.clusters.untrusted_http import REDIRECTED, TOO_LONG
from imagenet_operator.manifests import labels
from imagenet_operator.reconcile.sample import Asked
from support.asynchronous import asynchronous, until
from support.metrics_server import MetricsServer, metrics, serving
from support.sentences import assert_says

Manifest = dict[str, Any]
KEY = ("vision", "digits")


def pod(port: int, role: str = "worker", index: int = 0, **changes: Any) -> Manifest:
    return {
        "metadata": {
            "name": f"digits-r0-{role}-{index}",
            "namespace": "vision",
            "uid": f"{role}-{index}",
            "resourceVersion": "5",
            "labels": {
                labels.JOB_NAME: "digits",
                labels.JOB_ROLE: role,
                **({} if role == "pack" else {labels.ATTEMPT: "0"}),
            },
        },
        "spec": {
            "containers": [{"name": "main", "ports": [{"name": "metrics", "containerPort": port}]}]
        },
        "status": {"phase": "Running", "podIP": "127.0.0.1", **changes},
    }


class Pods:
    def __init__(self, pods: Sequence[Manifest]) -> None:
        self._pods = list(pods)

    def jobs_with_pods(self) -> list[JobKey]:
        return [KEY]

    def pods_of(self, key: JobKey) -> tuple[str, list[Manifest]] | None:
        return "j", self._pods


@contextlib.asynccontextmanager
async def sampling(
    *pods: Manifest, timeout: float = 5.0, only_visible: bool = True
) -> AsyncIterator[tuple[Sampler, list[JobKey]]]:
    enqueued: list[JobKey] = []
    sampler = Sampler(Pods(pods), 0.0, timeout, enqueued.append, only_visible=only_visible)
    task = asyncio.create_task(sampler.run())
    try:
        yield sampler, enqueued
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def asked_again(member: MetricsServer) -> None:
    """Wait until two more samples have been taken, the first of them whole."""
    wanted = member.asked + 2
    await until(lambda: member.asked >= wanted)


@asynchronous
async def test_workers_are_asked_and_servers_are_not() -> None:
    async with serving() as member, serving() as server:
        pods = (pod(member.port), pod(server.port, "server"), pod(server.port, "scheduler"))
        async with sampling(*pods) as (sampler, enqueued):
            await asked_again(member)
            found = sampler.latest(KEY, "j")

        assert found is not None
        assert found.figures["images_per_second"] == 50.0
        assert server.asked == 0
        assert enqueued == [KEY]


@asynchronous
async def test_only_what_moves_visibly_is_told() -> None:
    async with serving() as member, sampling(pod(member.port)) as (_, enqueued):
        await asked_again(member)
        member.text = metrics(images=200, speed=51.0)
        await asked_again(member)
        assert enqueued == [KEY]
        member.text = metrics(images=300, speed=90.0)
        await asked_again(member)
        assert enqueued == [KEY, KEY]


@asynchronous
async def test_every_sample_is_told_to_a_display() -> None:
    async with serving() as member, sampling(pod(member.port), only_visible=False) as (_, enqueued):
        await asked_again(member)
        await asked_again(member)

    assert len(enqueued) >= 2


@asynchronous
async def test_a_sample_is_of_one_job_and_not_of_its_successor() -> None:
    async with serving() as member, sampling(pod(member.port)) as (sampler, _):
        await asked_again(member)

        assert sampler.latest(KEY, "another") is None
        sampler.forget(KEY)
        assert sampler.latest(("vision", "other"), "j") is None


@pytest.mark.parametrize("text", ["no metrics {", "x" * (2 << 20), "imagenet_train_epoch NaN\n"])
@asynchronous
async def test_bad_answers_harm_nobody(text: str) -> None:
    async with serving() as bad, serving() as good:
        bad.text = text
        async with sampling(pod(bad.port, index=0), pod(good.port, index=1)) as (sampler, _):
            await asked_again(good)
            found = sampler.latest(KEY, "j")

        assert found is not None
        assert found.totals is not None
        assert found.totals.work == {"digits-r0-worker-1": 100}
        # The sum over all workers is what only all of them can say.
        assert "images_per_second" not in found.figures


@asynchronous
async def test_a_member_that_exceeds_a_limit_is_named_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving() as bad, serving() as good:
        bad.text = "x" * (2 << 20)
        pods = [pod(bad.port, index=index) for index in range(7)]
        async with sampling(*pods, pod(good.port, index=7)):
            await asked_again(good)

    (told,) = [item.message for item in caplog.records if item.levelname == "WARNING"]
    named = (f"digits-r0-worker-{index} (more than 64 KiB)" for index in range(5))
    assert_says(told, "vision/digits", *named, "2 more")


@asynchronous
async def test_a_worker_that_is_late_moves_no_figure_of_all_and_is_no_news() -> None:
    async with serving() as steady, serving() as late:
        pods = (pod(steady.port, index=0), pod(late.port, index=1))
        async with sampling(*pods) as (sampler, enqueued):
            await asked_again(late)
            late.text = "no metrics {"
            await asked_again(late)
            steady.text = metrics(images=200)
            await asked_again(steady)
            part = sampler.latest(KEY, "j")
            late.text = metrics()
            await asked_again(late)
            whole = sampler.latest(KEY, "j")

        assert part is not None
        assert whole is not None
        assert part.figures["images_per_second"] == whole.figures["images_per_second"] == 100.0
        assert part.totals is not None
        assert part.totals.work["digits-r0-worker-0"] == 200
        assert enqueued == [KEY]


@asynchronous
async def test_members_that_do_not_run_are_not_asked() -> None:
    async with serving() as member:
        pods = (pod(member.port, index=0, phase="Pending"), pod(member.port, index=1))
        async with sampling(*pods) as (sampler, _):
            await asked_again(member)
            found = sampler.latest(KEY, "j")

        assert found is not None
        assert found.totals is not None
        assert set(found.totals.work) == {"digits-r0-worker-1"}


@asynchronous
async def test_silence_is_told_once_with_its_beginning() -> None:
    async with serving() as member:
        member.is_frozen = True
        async with sampling(pod(member.port), timeout=0.02) as (sampler, enqueued):
            await asked_again(member)
            first = sampler.latest(KEY, "j")
            await asked_again(member)
            second = sampler.latest(KEY, "j")

        assert first is not None
        assert second is not None
        assert (first.attempt, first.asked) == (None, 0)
        assert first.silent_since is not None
        assert second.silent_since == first.silent_since <= first.taken_at < second.taken_at
        assert enqueued == [KEY]


@asynchronous
async def test_what_was_heard_of_those_that_are_silent_now_stays() -> None:
    async with serving() as member, sampling(pod(member.port), timeout=5.0) as (sampler, enqueued):
        await asked_again(member)
        heard = sampler.latest(KEY, "j")
        member.is_frozen = True
        await asked_again(member)
        found = sampler.latest(KEY, "j")

        assert heard is not None
        assert found is not None
        assert (found.attempt, found.figures["images_per_second"]) == (0, 50.0)
        assert found.progressed_at == heard.progressed_at
        assert found.silent_since is not None
        assert enqueued == [KEY]


@asynchronous
async def test_the_silence_of_the_preparation_is_of_no_attempt() -> None:
    async with serving() as member:
        member.is_frozen = True
        async with sampling(pod(member.port, "pack"), timeout=0.02) as (sampler, _):
            await asked_again(member)
            found = sampler.latest(KEY, "j")

        assert found is not None
        assert (found.asked, found.silent_since) == (None, None)


def test_running_members_with_metrics_are_targets() -> None:
    unlabelled = pod(9090)
    unlabelled["metadata"] = {"name": "unlabelled"}
    other = pod(9090, index=5)
    other["spec"]["containers"][0]["ports"][0]["name"] = "http"
    ending = pod(9090, index=6)
    ending["metadata"]["deletionTimestamp"] = "now"
    pods = [
        pod(9090),
        unlabelled,
        pod(9090, index=3, phase="Pending"),
        pod(9090, index=4, phase="Succeeded"),
        other,
        ending,
        pod(9090, "server"),
    ]

    assert targets(pods) == {
        "digits-r0-worker-0": Target("127.0.0.1", 9090, Asked("worker", 0)),
        "unlabelled": Target("127.0.0.1", 9090, Asked("", None)),
    }


# The sentence about members that are left out: bounded, and the same while it is true.

MEMBERS = [f"w-{index:03}" for index in range(1000)]
Found = dict[str, str]


def said(*samples: Found, members: list[str] = MEMBERS) -> list[str]:
    state, sentences = LeftOut(), []
    for found in samples:
        state = state.updated(found, members)
        sentences.append(state.sentence)
    return sentences


def test_members_are_named_with_their_limits() -> None:
    found = {"w-001": REDIRECTED, "w-000": NO_TIME, "w-002": TOO_LONG}
    assert said({}, found, {}) == [
        "",
        "w-001 (redirected), w-002 (more than 64 KiB), w-000 (no time left)",
        "",
    ]


def test_the_sentence_is_bounded() -> None:
    (sentence,) = said(dict.fromkeys(MEMBERS, REDIRECTED))
    assert sentence.count("w-") == 5
    assert sentence.endswith("w-004 (redirected) and 995 more")


@pytest.mark.parametrize(
    "later",
    [
        dict.fromkeys(MEMBERS[500:], NO_TIME),
        dict.fromkeys(MEMBERS[:3], NO_TIME),
    ],
    ids=["others", "fewer"],
)
def test_which_members_have_no_time_left_is_no_news(later: Found) -> None:
    first, second = said(dict.fromkeys(MEMBERS[:100], NO_TIME), later)
    assert first == second != ""


def test_a_hostile_member_without_a_turn_is_no_news() -> None:
    """Among thousands, another part has its turn in each sample."""
    both = dict.fromkeys(MEMBERS, REDIRECTED)
    first, second = said(
        {**both, "w-999": NO_TIME}, {**both, "w-000": NO_TIME, "w-999": REDIRECTED}
    )
    assert first == second


@pytest.mark.parametrize(
    ("later", "sentence"),
    [
        ({"w-001": REDIRECTED}, "w-001 (redirected)"),
        ({"w-000": TOO_LONG}, "w-000 (more than 64 KiB)"),
        ({}, ""),
    ],
    ids=["another", "another limit", "none"],
)
def test_what_is_no_longer_true_is_replaced(later: Found, sentence: str) -> None:
    assert said({"w-000": REDIRECTED}, later) == ["w-000 (redirected)", sentence]


def test_a_member_that_is_left_out_later_is_named_too() -> None:
    """The first sample may have come before the program of the second member."""
    one = {"w-000": REDIRECTED}
    both = "w-000 (redirected), w-001 (redirected)"
    assert said(one, {**one, "w-001": REDIRECTED}) == ["w-000 (redirected)", both]


def test_members_are_named_once_each_has_had_a_turn() -> None:
    former, later = (
        {"w-000": REDIRECTED, "w-001": NO_TIME},
        {"w-000": NO_TIME, "w-001": REDIRECTED},
    )
    _, *sentences = said(former, later, former, later)
    assert sentences == ["w-000 (redirected), w-001 (redirected)"] * 3


def test_members_of_a_former_attempt_are_replaced() -> None:
    state = LeftOut().updated({"r0-w-0": NO_TIME}, ["r0-w-0"])
    state = state.updated({"r1-w-0": NO_TIME}, ["r1-w-0"])
    assert state.sentence == "r1-w-0 (no time left)"
