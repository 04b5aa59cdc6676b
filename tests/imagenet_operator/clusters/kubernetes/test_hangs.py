"""Members that do not answer, or too much: hangs across restarts of the operator, and limits."""

from typing import Any

from support.asynchronous import asynchronous, until
from support.metrics_server import MetricsServer, metrics, serving
from support.operator_harness import QUICK, Harness, cluster_of, job, node, running
from support.sentences import assert_says

Manifest = dict[str, Any]
KEY = ("vision", "digits")
ASKING = {**QUICK, "sampler": {"intervalSeconds": 1, "timeoutSeconds": 0.3}}
PATIENT = {**QUICK, "sampler": {"intervalSeconds": 1, "timeoutSeconds": 30}}
"""For members that all answer, though a busy machine may take seconds for it."""


async def started(harness: Harness, member: MetricsServer, deadline: int) -> None:
    """Bring a job to where all its pods run; what its workers answer is up to the member."""
    await harness.server.add(job(run_policy={"progressDeadlineSeconds": deadline}))
    await harness.settle()

    def answering(pod: Manifest) -> None:
        for port in pod["spec"]["containers"][0]["ports"]:
            port["containerPort"] = member.port

    for name in harness.pods():
        await harness.server.change("Pod", name, answering)
    await harness.run_pods(address="127.0.0.1")
    await harness.settle()
    assert harness.status()["phase"] == "Running"


async def asked(harness: Harness, member: MetricsServer, times: int) -> None:
    """Wait until both workers were asked so often; meanwhile the job is looked at all the time."""
    wanted = member.asked + 2 * times

    def is_reached() -> bool:
        harness.operator.loop.enqueue(KEY)
        return member.asked >= wanted

    await until(is_reached, pause=0.05)
    await harness.settle()


async def heard(harness: Harness, member: MetricsServer) -> None:
    """Wait until the status records a sample of the attempt."""

    def is_heard() -> bool:
        member.text = metrics(images=member.asked)
        return "lastProgressTime" in harness.status()["training"]

    await until(is_heard, pause=0.05)
    await harness.settle()


@asynchronous
async def test_a_hang_that_began_under_another_operator_is_ended() -> None:
    async with cluster_of(node("n1")) as server, serving() as member:
        async with running(server, ASKING) as harness:
            await started(harness, member, deadline=2)
            await heard(harness, member)
        member.is_frozen = True
        async with running(server, ASKING) as harness:

            def is_restarted() -> bool:
                harness.operator.loop.enqueue(KEY)
                return bool(harness.status()["restarts"])

            await until(is_restarted, pause=0.05)

            restarting = harness.condition("Restarting")
            assert restarting["reason"] == "ProgressDeadlineExceeded"
            assert_says(restarting["message"], "attempt 0", "2 s")


@asynchronous
async def test_members_whose_metrics_exceed_a_limit_are_named_in_the_status() -> None:
    async with cluster_of(node("n1")) as server, serving() as member:
        member.text = "x" * (1 << 20)
        async with running(server, PATIENT) as harness:
            await started(harness, member, deadline=600)
            await until(lambda: "metricsLeftOut" in harness.status())
            named = (f"digits-r0-worker-{index} (more than 64 KiB)" for index in range(2))
            assert_says(harness.status()["metricsLeftOut"], *named)
            await harness.settle()
            version = server.version
            await asked(harness, member, 2)
            assert server.version == version
            member.text = metrics()
            await until(lambda: "metricsLeftOut" not in harness.status())


@asynchronous
async def test_members_that_never_answered_anybody_are_left_alone() -> None:
    async with cluster_of(node("n1")) as server, serving() as member:
        member.is_frozen = True
        async with running(server, ASKING) as harness:
            await started(harness, member, deadline=1)
            await asked(harness, member, 1)
        async with running(server, ASKING) as harness:
            await asked(harness, member, 3)

            assert (harness.status()["phase"], harness.status()["restarts"]) == ("Running", 0)


@asynchronous
async def test_silence_costs_no_writes() -> None:
    async with cluster_of(node("n1")) as server, serving() as member:
        async with running(server, ASKING) as harness:
            await started(harness, member, deadline=3600)
            await heard(harness, member)
        member.is_frozen = True
        before = len(server.writes())
        async with running(server, ASKING) as harness:
            await asked(harness, member, 3)

            assert len(server.writes()) == before
