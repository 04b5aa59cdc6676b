"""The logs of a cluster's pods: followed over cuts, restarts and the time before there are pods."""

import asyncio

import pytest

from imagenet_operator.sdk.cluster import AsyncClient
from imagenet_operator.sdk.errors import NotFound
from imagenet_operator.sdk.interface import Selection
from support.api_requests import Refusal
from support.asynchronous import asynchronous, until
from support.client_jobs import AT, add_pod, condition, end_pod, manifest, set_status, user_client
from support.fake_api_server import FakeApiServer
from support.sentences import assert_says, says

RANK0 = "digits-r0-worker-0"
SUCCEEDED = condition("Succeeded")


def lines(*texts: str, second: int = 0) -> list[tuple[str, str]]:
    """Lines of which three each have the same time, as a fast program writes them."""
    return [
        (f"2026-01-01T00:00:{second + number // 6:02}.{number // 3 % 2}00000001Z", text)
        for number, text in enumerate(texts)
    ]


async def read(client: AsyncClient, selection: Selection = Selection()) -> list[str]:  # noqa: B008
    return [f"{line.pod} {line.text}" async for line in client.logs("digits", selection)]


async def follow(
    client: AsyncClient,
    selection: Selection = Selection(),  # noqa: B008
    said: list[str] | None = None,
) -> list[str]:
    say = [] if said is None else said
    followed = client.logs("digits", selection, follow=True, say=say.append)
    return [f"{line.pod} {line.text}" async for line in followed]


async def finish(server: FakeApiServer, attempt: int = 0) -> None:
    training = {"attempt": attempt}
    await set_status(server, phase="Succeeded", conditions=[SUCCEEDED], training=training)


@asynchronous
async def test_no_line_is_lost_or_doubled_wherever_the_stream_is_cut() -> None:
    texts = [f"line {number}" for number in range(20)]
    async with user_client() as (server, client):
        await client.submit(manifest())
        await set_status(server, phase="Running", training={"attempt": 0})
        await add_pod(server, RANK0, "terminated")
        await finish(server)
        server.timed_logs[RANK0] = lines(*texts)
        whole = sum(len(f"{at} {text}\n") for at, text in server.timed_logs[RANK0])
        for cut in range(1, whole, 7):
            # The second connection is cut as well.
            server.cut_logs = [cut, max(1, whole - cut)]
            assert await follow(client) == [f"{RANK0} {text}" for text in texts]


@asynchronous
async def test_the_end_of_a_log_is_read_alone() -> None:
    async with user_client() as (server, client):
        await client.submit(manifest())
        await set_status(server, phase="Running", training={"attempt": 0})
        await add_pod(server, RANK0)
        server.timed_logs[RANK0] = lines("one", "two", "three")
        for tail, expected in ((2, ["two", "three"]), (9, ["one", "two", "three"])):
            assert [line.text async for line in client.logs("digits", tail=tail)] == expected


@asynchronous
async def test_a_log_that_ends_before_its_program_is_asked_for_again() -> None:
    async with user_client() as (server, client):
        await client.submit(manifest())
        await set_status(server, phase="Running", training={"attempt": 0})
        await add_pod(server, RANK0)
        server.timed_logs[RANK0] = lines("one", "two")
        following = asyncio.create_task(follow(client))
        await until(lambda: any(item.subresource == "log" for item in server.requests), 0.01)
        refused = server.refuse(
            Refusal(503, "ServiceUnavailable"), lambda asked: asked.subresource == "log", times=3
        )
        await server.drop_watches()
        await until(lambda: len(refused) == 3, 0.01)
        server.timed_logs[RANK0] = lines("one", "two", "three")
        await end_pod(server, RANK0)
        await finish(server)
        assert await following == [f"{RANK0} one", f"{RANK0} two", f"{RANK0} three"]


@asynchronous
async def test_it_waits_for_pods_says_for_what_and_goes_on_with_the_next_attempt() -> None:
    said: list[str] = []
    async with user_client() as (server, client):
        await client.submit(manifest())
        following = asyncio.create_task(follow(client, said=said))
        fetching = condition("DatasetReady", "Fetching", "fetching the source: 3 %", "False")
        await set_status(server, phase="Preparing", conditions=[fetching])
        await until(lambda: said and "fetching" in said[-1], 0.01)
        for attempt in (0, 1):
            name = f"digits-r{attempt}-worker-0"
            server.timed_logs[name] = lines(f"attempt {attempt}")
            await add_pod(server, name, "terminated")
            await set_status(server, phase="Running", training={"attempt": attempt})
        await finish(server, 1)
        expected = [f"digits-r{attempt}-worker-0 attempt {attempt}" for attempt in (0, 1)]
        assert sorted(await following) == expected
    assert_says(said[-1], "digits has no such pod yet", "Preparing: Fetching: ", "3 %")


@pytest.mark.parametrize(
    ("selection", "pods"),
    [
        (Selection(), ["digits-r1-worker-1"]),
        (Selection(index=0), ["digits-r1-worker-0"]),
        (Selection(role="server"), ["digits-r1-server-0"]),
        (
            Selection(all=True),
            [f"digits-r1-{name}" for name in ("server-0", "worker-0", "worker-1")],
        ),
        (Selection(preparation=True), ["digits-index-abcde", "digits-pack-0-fghij"]),
        (Selection(attempt=0), ["digits-r0-worker-0"]),
    ],
)
def test_which_pods_are_read(selection: Selection, pods: list[str]) -> None:
    @asynchronous
    async def story() -> None:
        async with user_client() as (server, client):
            await client.submit(manifest())
            for name in (
                *("digits-index-abcde", "digits-pack-0-fghij", "digits-r0-worker-0"),
                *("digits-r1-server-0", "digits-r1-worker-0", "digits-r1-worker-1"),
            ):
                await add_pod(server, name, "terminated")
                server.timed_logs[name] = lines("said")
            await add_pod(server, "digits-r1-server-1", "waiting")
            training = {"attempt": 1, "rank0Pod": "digits-r1-worker-1"}
            await set_status(server, phase="Running", training=training)
            assert await read(client, selection) == [f"{pod} said" for pod in pods]

    story()


@asynchronous
async def test_a_pod_that_is_not_there_is_an_error_that_says_how_the_job_is() -> None:
    async with user_client() as (server, client):
        await client.submit(manifest())
        with pytest.raises(NotFound, match=r"no pod digits-r0-worker-0 yet: .*--follow"):
            await read(client)
        await finish(server)
        with pytest.raises(
            NotFound, match=says("any more", "Succeeded", "/r0/train.log on the claim")
        ):
            await follow(client, Selection(all=True))
        with pytest.raises(NotFound, match="no PersistentVolumeClaim 'digits-dataset'"):
            await follow(client)
        with pytest.raises(NotFound, match="has no job 'digits'"):
            await server.remove("ImageNetJob", "digits")
            await follow(client)


@asynchronous
async def test_a_pod_of_a_deleted_job_of_the_same_name_is_left_out() -> None:
    async with user_client() as (server, client):
        await client.submit(manifest())
        await set_status(server, phase="Running", training={"attempt": 0})
        await add_pod(server, RANK0, owner="the job before")
        server.timed_logs[RANK0] = lines("old")
        following = asyncio.create_task(follow(client))
        listed = ("list", "Pod")
        await until(lambda: following.done() or server.counts()[listed] > 2, 0.01)
        await server.remove("Pod", RANK0)
        server.timed_logs[RANK0] = lines("new")
        uid = (await client.get("digits")).metadata.uid
        await add_pod(server, RANK0, "terminated", owner=uid)
        await finish(server)
        assert await following == [f"{RANK0} new"]


@asynchronous
async def test_a_preparation_pod_of_a_deleted_job_of_the_same_name_is_left_out() -> None:
    async with user_client() as (server, client):
        await client.submit(manifest())
        for name in ("digits-index-old", "digits-index-new"):
            await add_pod(server, name, "terminated")
            server.timed_logs[name] = lines(name)
        await server.change(
            "Pod", "digits-index-old", lambda pod: pod["metadata"].update(creationTimestamp=AT)
        )
        found = await read(client, Selection(preparation=True))
        assert found == ["digits-index-new digits-index-new"]


@asynchronous
async def test_a_pod_that_is_deleted_ends_its_log_with_a_word() -> None:
    said: list[str] = []
    async with user_client() as (server, client):
        await client.submit(manifest())
        await set_status(server, phase="Running", training={"attempt": 0})
        await add_pod(server, RANK0)
        following = asyncio.create_task(follow(client, said=said))
        await until(lambda: any(item.subresource == "log" for item in server.requests), 0.01)
        await server.remove("Pod", RANK0)
        await server.drop_watches()
        await finish(server)
        assert await following == []
        (gone,) = said
        assert_says(gone, f"{RANK0} is gone", "last lines", "may be missing")
