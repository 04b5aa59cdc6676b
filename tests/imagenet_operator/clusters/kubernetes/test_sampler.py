"""The sampler: whom it asks, what it does with bad answers, when it says that there is news."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from imagenet_operator.clusters.kubernetes import kinds, trim
from imagenet_operator.clusters.kubernetes.cache import Cache, JobKey
from imagenet_operator.clusters.kubernetes.cluster import job_of_child
from imagenet_operator.clusters.kubernetes.sampler import Sampler
from imagenet_operator.manifests import labels
from support.asynchronous import asynchronous

Manifest = dict[str, Any]
KEY = ("vision", "digits")


def metrics(images: int = 100, speed: float = 50.0) -> str:
    marks = 'role="worker",attempt="0"'
    return (
        f"imagenet_train_images_total{{{marks}}} {images}\n"
        f"imagenet_train_images_per_second{{{marks}}} {speed}\n"
    )


class Member:
    """A member's HTTP server, and what it answers."""

    def __init__(self) -> None:
        self.text = metrics()
        self.asked = 0
        self.port = 0

    async def answer(self, request: web.Request) -> web.Response:
        del request
        self.asked += 1
        return web.Response(text=self.text)


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[Member]:
    member = Member()
    application = web.Application()
    application.router.add_get("/metrics", member.answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    member.port = runner.addresses[0][1]
    try:
        yield member
    finally:
        await runner.cleanup()


def pod(port: int, role: str = "worker", index: int = 0, **changes: Any) -> Manifest:
    return {
        "metadata": {
            "name": f"digits-r0-{role}-{index}",
            "namespace": "vision",
            "uid": f"{role}-{index}",
            "resourceVersion": "5",
            "labels": {labels.JOB_NAME: "digits", labels.JOB_ROLE: role},
        },
        "spec": {
            "containers": [{"name": "main", "ports": [{"name": "metrics", "containerPort": port}]}]
        },
        "status": {"phase": "Running", "podIP": "127.0.0.1", **changes},
    }


@contextlib.asynccontextmanager
async def sampling(*pods: Manifest) -> AsyncIterator[tuple[Sampler, list[JobKey]]]:
    told: list[JobKey] = []
    jobs = Cache(kinds.JOB, job_of_child, trim.job, lambda key, known: None)
    jobs.put(
        {"metadata": {"name": "digits", "namespace": "vision", "uid": "j", "resourceVersion": "1"}}
    )
    cache = Cache(kinds.POD, job_of_child, trim.pod, lambda key, known: None)
    for item in pods:
        cache.put(item)
    sampler = Sampler(jobs, cache, 0.0, 5.0, told.append)
    task = asyncio.create_task(sampler.run())
    try:
        yield sampler, told
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def asked_again(member: Member) -> None:
    """Wait until two more samples have been taken, the first of them whole."""
    wanted = member.asked + 2
    while member.asked < wanted:
        await asyncio.sleep(0)


@asynchronous
async def test_workers_are_asked_and_servers_are_not() -> None:
    async with serving() as member, serving() as server:
        pods = (pod(member.port), pod(server.port, "server"), pod(server.port, "scheduler"))
        async with sampling(*pods) as (sampler, told):
            await asked_again(member)
            found = sampler.latest(KEY, "j")

        assert found is not None
        assert found.images_per_second == 50.0
        assert server.asked == 0
        assert told == [KEY]


@asynchronous
async def test_only_what_moves_visibly_is_told() -> None:
    async with serving() as member, sampling(pod(member.port)) as (_, told):
        await asked_again(member)
        member.text = metrics(images=200, speed=51.0)
        await asked_again(member)
        assert told == [KEY]
        member.text = metrics(images=300, speed=90.0)
        await asked_again(member)
        assert told == [KEY, KEY]


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
        assert found.images_per_second == 50.0


@asynchronous
async def test_members_that_do_not_run_are_not_asked() -> None:
    async with serving() as member:
        pods = (pod(member.port, index=0, phase="Pending"), pod(member.port, index=1))
        async with sampling(*pods) as (sampler, _):
            await asked_again(member)
            found = sampler.latest(KEY, "j")

        assert found is not None
        assert found.totals is not None
        assert set(found.totals.images) == {"digits-r0-worker-1"}
