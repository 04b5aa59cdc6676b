"""The faults of a schedule: each is a coroutine that strikes, and ends when the fault is over.

A fault counts only when its effect is seen: a request that was struck, a pod that was taken away. A
fault that finds nothing to strike does nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from chaos.network import WRITES, Matches, Rule
from chaos.world import NOT_READY_SECONDS
from imagenet_operator.clusters.kubernetes import objects
from imagenet_operator.manifests import labels
from support.api_requests import Refusal, Request, creates_a_pod, writes_status
from support.simulated_objects import is_terminating

if TYPE_CHECKING:
    from chaos.schedule import Story

Manifest = dict[str, Any]
Fault = Callable[["Story"], Awaitable[None]]

_ERRORS = (
    Refusal(500, "InternalError", "etcdserver: request timed out"),
    Refusal(503, "ServiceUnavailable", "the server is currently unable to handle the request"),
    Refusal(429, "TooManyRequests", "too many requests", retry_after=1),
)
_QUOTA = Refusal(403, "Forbidden", "exceeded quota: pods")
_NO_WEBHOOK = Refusal(
    500,
    "InternalError",
    'failed calling webhook "mpod.kb.io": failed to call webhook: connect: connection refused',
)
_TOO_LARGE = Refusal(413, "RequestEntityTooLarge", "etcdserver: request is too large")


def _creates_a_load(asked: Request) -> bool:
    return asked.verb == "create" and asked.kind in ("Pod", "Job")


_TARGETS: tuple[Matches, ...] = (
    lambda asked: True,
    lambda asked: asked.verb in WRITES,
    lambda asked: asked.verb == "create" and asked.kind != "Event",
    creates_a_pod,
    lambda asked: asked.verb == "delete",
    writes_status,
    lambda asked: asked.verb in ("get", "list"),
)

# ---------------------------------------------------------------------- on the way to the server


def _on_the_way(
    fault: str,
    seconds: tuple[float, float],
    chances: Sequence[float],
    *,
    matches: Matches | None = None,
    has_effect: bool = False,
    delays: Sequence[float] = (),
    on_time: Sequence[bool] = (),
    **given: Any,
) -> Fault:
    """Return the fault that strikes some requests for a while, or their answers after the effect.

    Args:
        fault: Its name in the table of what was injected.
        seconds: Its shortest and longest time.
        chances: The part of the requests that is struck; one is drawn.
        matches: Which requests it strikes; None for one of `_TARGETS`, drawn.
        has_effect: Whether it strikes when the request has had its effect.
        delays: The seconds by which it delays; one is drawn.
        on_time: Whether a request is dropped that its client no longer waits for; one is drawn.
        given: What else the rule says.
    """

    async def strikes(story: Story) -> None:
        lasts = story.draw.uniform(*seconds)
        drawn: dict[str, Any] = {
            "matches": matches or story.draw.choice(_TARGETS),
            "chance": story.draw.choice(chances),
        }
        if delays:
            drawn["delay"] = story.draw.choice(delays)
        if on_time:
            drawn["on_time"] = story.draw.choice(on_time)
        rules = story.network.after if has_effect else story.network.before
        rules.append(Rule(fault, story.now + lasts, **drawn, **given))
        await asyncio.sleep(lasts)

    return strikes


async def errors(story: Story) -> None:
    """Requests are refused before they have an effect."""
    await story.draw.choice(_REFUSALS)(story)


_REFUSALS = [
    _on_the_way(
        f"error {refusal.code} before the effect",
        (5, 60),
        (0.2, 0.5, 1.0),
        refusal=refusal,
    )
    for refusal in _ERRORS
]
resets = _on_the_way("connection cut before the effect", (5, 60), (0.2, 0.5, 1.0), lost=True)
lost_answers = _on_the_way(
    "answer lost after the effect",
    (10, 90),
    (0.2, 0.5, 1.0),
    has_effect=True,
    lost=True,
)
# The client may have given up when these come.
late_answers = _on_the_way(
    "answer late", (10, 90), (0.2, 0.5), has_effect=True, delays=(2.0, 10.0, 40.0)
)
_late_requests = _on_the_way(
    "request late",
    (10, 90),
    (0.1, 0.3),
    delays=(2.0, 10.0, 35.0, 60.0),
    on_time=(False, True),
)
# A quota may admit no pods, or not all of them.
quota = _on_the_way("quota exceeded", (5, 120), (0.4, 1.0), matches=_creates_a_load, refusal=_QUOTA)
too_large = _on_the_way(
    "status refused with 413", (5, 120), (0.3, 1.0), matches=writes_status, refusal=_TOO_LARGE
)


async def late_requests(story: Story) -> None:
    """Requests have their effect late; the fault is over when the last one can have had it."""
    await _late_requests(story)
    await asyncio.sleep(60)


def lag(kind: str) -> Fault:
    """Return the fault that the watches of a kind lag."""

    async def lags(story: Story) -> None:
        seconds = story.draw.uniform(10, 150)
        delay = story.draw.choice([1.0, 5.0, 20.0, 60.0])
        story.network.lags[kind] = (story.now + seconds, delay)
        await asyncio.sleep(seconds + delay)

    return lags


async def watches_cut(story: Story) -> None:
    """All watches end."""
    story.counts.inject("watches cut")
    await story.server.drop_watches()


async def watches_expired(story: Story) -> None:
    """All watches end, and cannot go on where they were (410)."""
    story.counts.inject("watches expired (410)")
    await story.server.expire()


# ---------------------------------------------------------------------- operators


async def pause(story: Story) -> None:
    """An operator does nothing for a while."""
    operator = story.draw.choice(story.operators)
    if operator.is_paused:
        return
    story.counts.inject("operator paused")
    operator.pause()
    await asyncio.sleep(story.draw.choice([2.0, 20.0, 90.0]))
    operator.resume()


async def kill(story: Story) -> None:
    """An operator is killed, and another process takes its place."""
    operator = story.draw.choice(story.operators)
    if operator.is_paused:
        return
    story.counts.inject("operator killed")
    operator.kill()
    await asyncio.sleep(story.draw.choice([0.5, 5.0, 60.0]))
    operator.start()


async def clock_jump(story: Story) -> None:
    """An operator's clock jumps."""
    operator = story.draw.choice(story.operators)
    story.counts.inject("clock jumped")
    operator.jump(story.draw.choice([-300.0, -20.0, 20.0, 300.0]))


# ---------------------------------------------------------------------- the cluster


def _members(story: Story) -> list[tuple[Any, Manifest]]:
    return [(world, pod) for world in story.cluster.worlds.values() for pod in world.members()]


def _strike_pod(name: str, act: Callable[[Any, Manifest], None], *, running: bool) -> Fault:
    async def strike(story: Story) -> None:
        found = [
            (world, pod)
            for world, pod in _members(story)
            if not is_terminating(pod) and (pod in world.running() or not running)
        ]
        if found:
            world, pod = story.draw.choice(found)
            story.counts.inject(name)
            act(world, pod)

    return strike


crash = _strike_pod(
    "member crashed", lambda world, pod: world.exit(pod, 1, "it crashed"), running=True
)
evict = _strike_pod("pod evicted", lambda world, pod: world.evict(pod), running=False)
delete = _strike_pod("pod deleted", lambda world, pod: world.delete_by_hand(pod), running=False)
vanish = _strike_pod("pod vanished", lambda world, pod: world.vanish(pod), running=False)


async def lose_node(story: Story) -> None:
    """A node falls silent, with the most pods on it."""
    nodes = [name for name in story.cluster.slots if name not in story.cluster.unreachable]
    if len(nodes) < 2:
        return
    story.counts.inject("node lost silently")
    node = min(nodes, key=story.cluster.room_on)
    seconds = story.draw.choice([20.0, 80.0, 200.0, 400.0])
    if seconds > NOT_READY_SECONDS and story.draw.random() < 0.5:
        # What Horovod's workers do when a peer falls silent.
        for world in story.cluster.worlds.values():
            if world.blame(node):
                story.counts.inject("peers of a lost node died")
    await story.cluster.lose_node(node, seconds)


async def drain(story: Story) -> None:
    """A node is drained, with the most pods on it, and is away for minutes."""
    nodes = [name for name in story.cluster.slots if not story.cluster.is_closed(name)]
    if len(nodes) < 2:
        return
    story.counts.inject("node drained")
    node = min(nodes, key=story.cluster.room_on)
    await story.cluster.drain_node(node, story.draw.choice([30.0, 150.0, 500.0]))


async def fail_job(story: Story) -> None:
    """A Job of a preparation fails."""
    jobs = [
        (world, job)
        for world in story.cluster.worlds.values()
        for job in world.unfinished_jobs()
        if not is_terminating(job)
    ]
    if jobs and story.draw.random() < 0.3:
        world, job = story.draw.choice(jobs)
        story.counts.inject("preparation failed")
        world.fail_job(job)
        world.publish(job)


async def lose_job(story: Story) -> None:
    """A Job of a preparation is deleted, or its finished pods are."""
    for world in story.cluster.worlds.values():
        if (jobs := world.unfinished_jobs()) and story.draw.random() < 0.5:
            story.counts.inject("Job deleted")
            world.lose_job(jobs[0])
        elif world.of_kind("Job"):
            story.counts.inject("pods of Jobs collected")
            world.lose_job_pods()


async def recreate(story: Story) -> None:
    """A job is deleted, and applied again under its name before its pods are gone."""
    if not (jobs := story.jobs()):
        return
    job = story.draw.choice(jobs)
    name = job["metadata"]["name"]
    (drawn,) = [item for item in story.plan.jobs if item.name == name]
    story.counts.inject("job applied again under its name")
    storage = story.server.storage
    stored = storage.objects.pop((objects.JOB.name, "vision", name))
    storage.record("DELETED", stored)
    story.cluster.add_job(drawn.manifest(), drawn.size)


async def suspend(story: Story) -> None:
    """A user suspends a job, and resumes it later."""
    jobs = [job for job in story.jobs() if not job["spec"]["runPolicy"].get("suspend")]
    if not jobs:
        return
    name = story.draw.choice(jobs)["metadata"]["name"]
    story.counts.inject("job suspended")
    for value in (True, False):
        for job in story.jobs():
            if job["metadata"]["name"] == name:
                story.change_job(job, suspend=value)
        if value:
            await asyncio.sleep(story.draw.choice([1.0, 20.0, 120.0]))


async def occupy(story: Story) -> None:
    """Another owner holds names that the jobs need, for a while."""
    name = story.draw.choice(["digits", "other"])
    kind, suffix = story.draw.choice(
        [("Service", "r0"), ("Service", "r1"), ("Pod", "r1-worker-0"), ("Job", "pack")]
    )
    key = (kind, "vision", f"{name}-{suffix}")
    if key in story.server.storage.objects:
        return
    owner = {"kind": "Other", "name": "theirs", "uid": "other", "controller": True}
    forged = {
        labels.MANAGED_BY: "imagenet-operator",
        labels.JOB_NAME: name,
        labels.ATTEMPT: suffix[1],
        labels.JOB_ROLE: "pack" if kind == "Job" else "worker",
        labels.REPLICA_INDEX: "0",
    }
    metadata = {
        "name": key[2],
        "namespace": "vision",
        "labels": story.draw.choice([{}, forged]),
        "ownerReferences": [owner],
    }
    item = {"kind": kind, "metadata": metadata, "spec": {"containers": []}}
    story.invariants.plant(story.server.storage.create(item))
    story.counts.inject("name held by another owner")
    await asyncio.sleep(story.draw.uniform(20, 200))
    story.invariants.foreign.pop(key, None)
    if key in story.server.storage.objects:
        story.server.storage.remove(story.server.storage.objects[key])


async def kueue_away(story: Story) -> None:
    """Kueue ends for a while: it admits nothing, and without its webhook nothing is created."""
    seconds = story.draw.uniform(10, 90)
    story.queues.is_away = True
    rule = Rule("webhook failed", story.now + seconds, _creates_a_load, refusal=_NO_WEBHOOK)
    story.network.before.append(rule)
    await asyncio.sleep(seconds)
    story.queues.is_away = False


lag_of_nodes = lag("Node")

ELASTIC: tuple[Fault, ...] = (
    drain,
    drain,
    drain,
    lose_node,
    lose_node,
    crash,
    evict,
    vanish,
    suspend,
    kill,
    pause,
    errors,
    lost_answers,
    late_requests,
    lag("Pod"),
    lag_of_nodes,
)
"""Faults for elastic jobs: nodes go and come."""

BLINDING = frozenset(
    {errors, resets, lost_answers, late_answers, late_requests, too_large}
    | {lag_of_nodes, pause, kill, clock_jump}
)
"""Faults because of which an operator may not see in time that a node was lost."""

_OF_THE_CLUSTER: tuple[Fault, ...] = (
    crash,
    crash,
    evict,
    delete,
    vanish,
    lose_node,
    lose_node,
    fail_job,
    lose_job,
    recreate,
    suspend,
    suspend,
)
"""Faults that an operator sees; those that are drawn more often are named twice."""

ALL: tuple[Fault, ...] = (
    errors,
    errors,
    resets,
    lost_answers,
    lost_answers,
    late_answers,
    late_requests,
    late_requests,
    quota,
    too_large,
    *map(lag, (objects.JOB.name, *(kind.name for kind in objects.CHILDREN))),
    lag_of_nodes,
    watches_cut,
    watches_expired,
    pause,
    kill,
    clock_jump,
    *_OF_THE_CLUSTER,
    occupy,
)
"""Every fault."""

SEEN_BESIDE_KUEUE: tuple[Fault, ...] = (kueue_away, kueue_away, *_OF_THE_CLUSTER)
"""Faults beside Kueue while an operator sees everything."""

BESIDE_KUEUE: tuple[Fault, ...] = (kueue_away, kueue_away, *ALL)
"""Every fault, beside Kueue."""
