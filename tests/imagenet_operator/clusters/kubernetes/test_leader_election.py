"""Who leads: among replicas, among installations whose namespaces overlap, and on bad days."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

import pytest

from imagenet_operator.clusters.kubernetes import leader_election, metrics
from imagenet_operator.clusters.kubernetes.client import Answer, Client, Fence
from imagenet_operator.clusters.kubernetes.leader_election import LeaderElection
from imagenet_operator.clusters.kubernetes.login import Connection
from support.api_requests import Refusal, Request
from support.asynchronous import asynchronous, until
from support.candidates import (
    ALL,
    LONG,
    SHORT,
    VISION,
    WHERE,
    asked,
    candidate,
    spec,
    tries,
)
from support.fake_api_server import FakeApiServer
from support.sentences import assert_says

Manifest = dict[str, Any]


@pytest.fixture(autouse=True)
def long_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a release take as long as a busy machine needs: otherwise the Lease remains held."""
    monkeypatch.setattr(leader_election, "_RELEASE_SECONDS", 60.0)


@asynchronous
async def test_the_first_leads_and_the_second_waits_until_the_first_releases() -> None:
    async with FakeApiServer() as server, candidate(server) as first:
        await until(lambda: first.leads)
        async with candidate(server) as second:
            await tries(server)
            assert not second.leads
            assert second.fence.seconds_left() == 0
            assert spec(server)["holderIdentity"] == first.election.identity

            await first.stop()
            await first.election.release()
            await until(lambda: second.leads)
            assert not first.leads
            assert second.fence.seconds_left() > 0
            assert spec(server)["holderIdentity"] == second.election.identity
            assert spec(server)["leaseTransitions"] == 2


@asynchronous
async def test_a_leader_that_is_killed_is_followed_when_its_lease_expires() -> None:
    async with FakeApiServer() as server, candidate(server, times=SHORT) as first:
        await until(lambda: first.leads)
        async with candidate(server, times=SHORT) as second:
            await tries(server)
            await first.stop()
            await until(lambda: second.leads)
            # By the killed one's own clock its last request had ended long before.
            assert first.fence.seconds_left() == 0


@asynchronous
async def test_a_renewal_changes_the_time_alone() -> None:
    async with FakeApiServer() as server, candidate(server) as first:
        await until(lambda: first.leads)
        before = spec(server)
        await until(lambda: asked(server, "update") >= 3)
        after = spec(server)
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"renewTime"}
    assert before["leaseDurationSeconds"] == LONG.duration


@pytest.mark.parametrize(
    ("first", "second", "held"),
    [
        ((), ("vision",), ALL),
        (("vision",), (), VISION),
        (("research", "vision"), ("speech", "vision"), VISION),
    ],
    ids=["all-one", "one-all", "lists"],
)
@asynchronous
async def test_who_would_run_the_same_jobs_waits_and_names_the_other(
    first: tuple[str, ...], second: tuple[str, ...], held: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with FakeApiServer() as server, candidate(server, *first) as incumbent:
        await until(lambda: incumbent.leads)
        async with candidate(server, *second) as newcomer:
            await tries(server)
            assert not newcomer.leads
            (said,) = [
                record.message
                for record in caplog.records
                if incumbent.election.identity in record.message and "leads" not in record.message
            ]
            series = {"lease": held, "holder": incumbent.election.identity}
            assert metrics.REGISTRY.get_sample_value("imagenet_operator_lease_holder", series) == 1
            # It holds nothing that would keep a third one waiting.
            for item in server.all("Lease"):
                assert item["spec"].get("holderIdentity") != newcomer.election.identity

            await incumbent.stop()
            await incumbent.election.release()
            await until(lambda: newcomer.leads)
    if held in (ALL, VISION) and len(first) < 2:
        assert said.startswith("does not run ")
        assert said.endswith("uninstall one of the two, or change watchNamespaces")
    else:
        assert said == f"waits: {incumbent.election.identity} holds the lease {held}"


@asynchronous
async def test_namespaces_that_do_not_overlap_have_a_leader_each() -> None:
    async with (
        FakeApiServer() as server,
        candidate(server, "vision") as one,
        candidate(server, "speech") as other,
    ):
        await until(lambda: one.leads and other.leads)


@asynchronous
async def test_of_two_that_start_at_once_one_leads() -> None:
    """One of all namespaces, one of a single: neither holds what the other writes."""
    async with FakeApiServer() as server:
        for _ in range(6):
            async with candidate(server) as one, candidate(server, "vision") as other:
                both = (one, other)
                await until(lambda both=both: any(item.leads for item in both))  # type: ignore[misc]
                await tries(server)
                assert sum(item.leads for item in both) == 1
                for item in both:
                    await item.stop()
                    await item.election.release()


@asynchronous
async def test_of_two_that_wait_for_an_expired_lease_one_takes_it() -> None:
    async with FakeApiServer() as server:
        await server.add(held_by("somebody", SHORT.duration))
        async with (
            # The one that leads keeps its Lease while the other one is observed.
            candidate(server) as one,
            candidate(server) as other,
        ):
            await until(lambda: one.leads or other.leads)
            await tries(server)
            assert one.leads != other.leads


def held_by(holder: str, seconds: float, name: str = ALL) -> Manifest:
    times = dict.fromkeys(("acquireTime", "renewTime"), "2026-01-02T03:04:05.000000Z")
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": WHERE},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": seconds, **times},
    }


@asynchronous
async def test_the_duration_in_a_lease_is_its_holders() -> None:
    """As a later version may have another one."""
    async with FakeApiServer() as server:
        await server.add(held_by("somebody", LONG.duration))
        async with candidate(server, times=SHORT) as waiting:
            await tries(server, 12)
            assert not waiting.leads


def updates_a_lease(request: Request) -> bool:
    return (request.verb, request.kind) == ("update", "Lease")


@pytest.mark.parametrize("code", [500, 429])
@asynchronous
async def test_a_leader_that_cannot_renew_gives_up_before_others_may_lead(code: int) -> None:
    async with FakeApiServer() as server, candidate(server, times=SHORT) as leader:
        await until(lambda: leader.leads)
        server.refuse(Refusal(code, "Unavailable", retry_after=0), updates_a_lease)
        said = await leader.loss()
    assert_says(said, "lease", "not renewed", "0.5 s")


@asynchronous
async def test_one_failed_renewal_is_followed_by_another() -> None:
    async with FakeApiServer() as server, candidate(server) as leader:
        await until(lambda: leader.leads)
        refused = server.refuse(Refusal(500, "InternalError"), updates_a_lease, times=3)
        before = asked(server, "update")
        await until(lambda: asked(server, "update") > before + 5)
        assert leader.leads
        assert len(refused) == 3


def after_it(answer: Callable[[], Exception]) -> Callable[[FakeApiServer], Any]:
    """Have one renewal carried out, and its answer lost."""

    def install(server: FakeApiServer) -> list[Request]:
        lost: list[Request] = []

        async def effect(asked: Request, _: Manifest) -> None:
            if (asked.verb, asked.kind) == ("update", "Lease") and not lost:
                lost.append(asked)
                raise answer()

        server.effects.append(effect)
        return lost

    return install


@asynchronous
async def test_a_leader_whose_renewal_was_not_answered_is_still_the_leader() -> None:
    async with FakeApiServer() as server, candidate(server) as leader:
        await until(lambda: leader.leads)
        lost = after_it(lambda: Refusal(504, "Timeout"))(server)
        await until(lambda: lost)
        before = asked(server, "update")
        # The next one names an old resource version.
        await until(lambda: asked(server, "update") > before + 3)
        assert leader.leads
        assert spec(server)["leaseTransitions"] == 1


@asynchronous
async def test_a_leader_whose_lease_was_taken_stops_at_the_next_renewal() -> None:
    async with FakeApiServer() as server, candidate(server) as leader:
        await until(lambda: leader.leads)
        await server.change("Lease", ALL, _to_thief, WHERE)
        assert_says(await leader.loss(), "lease", "thief", "imagenet-operator")
        assert spec(server)["holderIdentity"] == "thief"


def _to_thief(item: Manifest) -> None:
    item["spec"]["holderIdentity"] = "thief"


@asynchronous
async def test_a_lease_that_was_deleted_is_made_again_by_its_holder() -> None:
    async with FakeApiServer() as server, candidate(server) as leader:
        await until(lambda: leader.leads)
        async with candidate(server) as waiting:
            await tries(server)
            await server.remove("Lease", ALL, WHERE)
            await until(lambda: spec(server))
            await tries(server)
            assert leader.leads and not waiting.leads


@asynchronous
async def test_a_leader_that_was_stopped_for_long_does_not_even_try_to_renew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The holder of an overlapping Lease may lead by then: its own is as it was."""
    async with FakeApiServer() as server, candidate(server, times=SHORT) as leader:
        await until(lambda: leader.leads)
        monkeypatch.setattr(leader.election, "_renewed_at", leader.election._renewed_at - 60)
        before = asked(server, "update")
        assert "was not renewed" in await leader.loss()
        assert asked(server, "update") == before


@asynchronous
async def test_a_lease_is_kept_while_a_request_may_still_be_carried_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leader_election, "_ANSWER_SECONDS", 0.0)
    sent = asyncio.Event()

    async def endless() -> Answer:
        sent.set()
        await asyncio.Event().wait()
        raise AssertionError("nothing sets the event")

    async with FakeApiServer() as server, candidate(server) as leader:
        await until(lambda: leader.leads)
        await leader.stop()
        sending = asyncio.create_task(leader.fence.follow(endless, float("inf")))
        await sent.wait()
        sending.cancel()
        await leader.election.release()
        assert spec(server)["holderIdentity"] == leader.election.identity
        assert not leader.leads


@asynchronous
async def test_without_the_right_it_says_what_it_may_not(caplog: pytest.LogCaptureFixture) -> None:
    async with FakeApiServer() as server:
        server.verbs["coordination.k8s.io", "leases"] = frozenset()
        async with candidate(server) as waiting:
            assert waiting.election.trouble == "leases in kube-system are not listed yet"
            await tries(server)
            assert not waiting.leads
            asked = "GET /apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
            assert_says(waiting.election.trouble or "", "kube-system", asked, "may not list")
    # Once, not at each attempt.
    assert len(caplog.records) == 1


@asynchronous
async def test_the_election_has_no_say_in_the_leases_of_others() -> None:
    async with FakeApiServer() as server:
        await server.add(held_by("scheduler", 15, name="kube-scheduler"))
        async with candidate(server) as leader:
            await until(lambda: leader.leads)
        assert spec(server, "kube-scheduler")["holderIdentity"] == "scheduler"


@asynchronous
async def test_no_attempt_follows_a_failed_one_without_a_pause() -> None:
    """The Lease of the last attempt has expired since, and the API server does not answer."""
    async with FakeApiServer() as server, Client(Connection(server.url)) as client:
        server.refuse(Refusal(503, "ServiceUnavailable"))
        election = LeaderElection(client, "kube-system", (), Fence())
        election._blocked_until = time.monotonic() - 1

        assert not await election._try()
        assert election._pause() > 0
