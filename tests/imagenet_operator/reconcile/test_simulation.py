"""Decisions against a cluster that does its worst: the properties that hold whatever happens.

What must never happen is asserted by the simulated cluster itself, at every create, delete, status
and start of a process: no pod that trains before the dataset is sealed; never two attempts on nodes
that can be reached; no path written by two attempts or two pods; nothing deleted before its end is
recorded, or that is not ours; valid names and labels; a success that is true, a failure that
something deserves, and an end that stays. Disasters are random, and the loop may stop between any
two actions. After the last disaster the job must end, and further reconciles must change nothing.
`test_mutations` shows that each property can fail.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from imagenet_operator.manifests import settings as manifests
from imagenet_operator.reconcile.types import ReconcileSettings
from imagenet_spec.resource.fields import JOB_NAME_MAXIMUM
from support.job_table import BUCKET, FETCHED, PREPARED, SERVERS, TFRECORD, manifest
from support.simulated_cluster import SimulatedCluster
from support.simulated_objects import attempt_of

SETTINGS = ReconcileSettings(
    disruption_limit=3,
    full_volume_limit=2,
    manifests=manifests.Settings(pod_disruption_budget=True),
)
STRATEGIES: list[dict[str, Any]] = [
    SERVERS,
    {"single": {}},
    {"horovod": {"slotsPerWorker": 1}},
    {"multiWorkerMirrored": {}},
    {"mirrored": {}},
]
OF_TENSORFLOW = ("multiWorkerMirrored", "mirrored")
OF_ONE_WORKER = ("single", "mirrored")
ELASTIC = {"waitSeconds": 100, "maxChangesPerHour": 3}
NAMES = ["digits", "d", "a-0", "x" * JOB_NAME_MAXIMUM]
CODES = st.sampled_from([1, 1, 134, 137, 2, 3, 4, 4])


@st.composite
def run_policies(draw: st.DrawFn) -> dict[str, Any]:
    """Draw deadlines that make every policy reachable."""
    run_policy = {
        "backoffLimit": draw(st.integers(0, 3)),
        "cleanPodPolicy": draw(st.sampled_from(["None", "Running", "All"])),
        "progressDeadlineSeconds": 300,
        "activeDeadlineSeconds": draw(st.sampled_from([None, 100_000, 400])),
        "preparationDeadlineSeconds": draw(st.sampled_from([None, 100_000, 400])),
        "ttlSecondsAfterFinished": draw(st.sampled_from([None, 0, 100])),
        "suspend": draw(st.integers(0, 5)) == 0,
        "retentionPolicy": draw(st.sampled_from(["Retain", "Delete"])),
        "schedulingPolicy": {
            "gang": draw(st.sampled_from(["Timeout", "Wait"])),
            "scheduleTimeoutSeconds": 120,
        },
    }
    return {name: value for name, value in run_policy.items() if value is not None}


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a job."""
    prepared = draw(st.booleans())
    fetched = not prepared and draw(st.booleans())
    strategy = STRATEGIES[draw(st.sampled_from([0, 0, 0, 1, 2, 2, 3, 4]))]
    (name,) = strategy
    is_tensorflow = name in OF_TENSORFLOW
    workers: dict[str, Any] = {"replicas": 1 if name in OF_ONE_WORKER else 2}
    if name not in OF_ONE_WORKER and draw(st.integers(0, 2)) == 0:
        workers = {"replicas": 4, "minReplicas": 2, "elastic": ELASTIC}
    return manifest(
        name=draw(st.sampled_from(NAMES)),
        dataset={
            **({"source": PREPARED, "volume": None} if prepared else {}),
            **({"source": FETCHED} if fetched else {}),
            **(TFRECORD if is_tensorflow else {}),
            **({"verify": "Checksums"} if draw(st.integers(0, 3)) == 0 else {}),
            **({"publish": {"s3": BUCKET}} if draw(st.booleans()) else {}),
        },
        training={
            "strategy": strategy,
            "framework": "TensorFlow" if is_tensorflow else "MXNet",
            "workers": {**workers, "gpus": draw(st.integers(0, 1))},
            "batchSize": 480,
            **({"output": {"upload": {"s3": BUCKET}}} if draw(st.booleans()) else {}),
        },
        run_policy=draw(run_policies()),
    )


def without_nothing(fields: dict[str, Any]) -> dict[str, Any]:
    """Leave out what a manifest would not write."""
    return {
        name: without_nothing(value) if isinstance(value, dict) else value
        for name, value in fields.items()
        if value is not None
    }


class Disasters(RuleBasedStateMachine):
    """A job, and everything that can happen to it."""

    cluster: SimulatedCluster

    @initialize(
        document=documents(),
        tells=st.booleans(),
        is_sealed_before=st.booleans(),
        turns=st.sampled_from([0, 10, 10, 10]),
    )
    def begin(
        self, document: dict[str, Any], tells: bool, is_sealed_before: bool, turns: int
    ) -> None:
        """Make the job and three nodes, any two of which have room for all members.

        An elastic job needs all three for all of its workers, and two for the least number.
        Ten turns bring most jobs to a first attempt that runs, where most disasters can strike.
        """
        self.cluster = SimulatedCluster(
            without_nothing(document), {"a": 3, "b": 3, "c": 3}, SETTINGS, tells_capacity=tells
        )
        self.cluster.index_result["sealed"] = is_sealed_before
        if "prepared" in document["spec"]["dataset"]["source"]:
            self.cluster.is_sealed = True
        for _ in range(turns):
            self.cluster.turn()
            self.cluster.reconcile()

    def pick(self, pods: list[Any], choice: int) -> Any:
        """One of some objects."""
        return pods[choice % len(pods)] if pods else None

    def do(self, what: str, choice: int, code: int) -> None:
        """Let one thing happen, if it can."""
        cluster = self.cluster
        pods = cluster.members()
        targets = {
            "bind": (cluster.pending(), cluster.bind),
            "start": (cluster.startable(), cluster.start),
            "finalize": (cluster.terminating(), cluster.finalize),
            "advance": (cluster.unfinished_jobs(), cluster.advance),
            "finish": (cluster.finishing_workers(), lambda pod: cluster.exit(pod, 0)),
            "return early": (
                cluster.finishing_workers(),
                lambda pod: cluster.exit(pod, 0, "usage: imagenet-train"),
            ),
            "crash": (cluster.running(), lambda pod: cluster.exit(pod, code, "it crashed")),
            "evict": (pods, cluster.evict),
            "delete": (pods, cluster.delete_by_hand),
            "vanish": (pods, cluster.vanish),
            "block": (cluster.startable(), lambda pod: cluster.block(pod, "ErrImagePull")),
            "lose job": (cluster.unfinished_jobs(), cluster.lose_job),
            "desert": (
                [pod for pod in cluster.running() if "worker" not in pod["metadata"]["name"]],
                lambda pod: cluster.exit(pod, 0),
            ),
        }
        found, act = targets[what]
        if (chosen := self.pick(found, choice)) is not None:
            act(chosen)

    # What happens by itself, in any order.

    @rule(seconds=st.sampled_from([1, 10, 60, 400]))
    def wait(self, seconds: int) -> None:
        """Let time pass."""
        self.cluster.now += timedelta(seconds=seconds)

    @rule(rounds=st.integers(1, 6), seconds=st.sampled_from([1, 5, 20]))
    def turn(self, rounds: int, seconds: int) -> None:
        """Let everything go well for a while, with passes."""
        for _ in range(rounds):
            self.cluster.turn()
            self.reconcile_once()
            self.cluster.now += timedelta(seconds=seconds)

    @rule(
        what=st.sampled_from(["bind", "start", "finalize", "advance", "finish", "return early"]),
        choice=st.integers(0, 5),
    )
    def go_on(self, what: str, choice: int) -> None:
        """Let one step happen that is due."""
        self.do(what, choice, 0)

    # The loop, and how it is stopped.

    def reconcile_once(self) -> None:
        """Pass, unless the job is gone."""
        if not self.cluster.is_deleted:
            self.cluster.reconcile()

    @rule()
    def reconcile(self) -> None:
        """A pass."""
        self.reconcile_once()

    @rule(repeat=st.booleans())
    def reconcile_until_quiet(self, repeat: bool) -> None:
        """Reconciles while they are due immediately."""
        for _ in range(4):
            if not self.cluster.is_deleted:
                self.cluster.reconcile(repeat=repeat)

    @rule(cut_after=st.integers(0, 8))
    def reconcile_and_die(self, cut_after: int) -> None:
        """A pass whose loop is stopped between two of its actions."""
        if not self.cluster.is_deleted:
            self.cluster.reconcile(cut_after=cut_after)

    @rule(
        steps=st.lists(
            st.tuples(
                st.sampled_from(
                    ["bind", "start", "finalize", "advance", "crash", "evict", "vanish", "delete"]
                ),
                st.integers(0, 5),
                CODES,
            ),
            min_size=1,
            max_size=6,
        ),
        cut_after=st.none() | st.integers(0, 8),
    )
    def reconcile_while_the_world_moves(
        self, steps: list[tuple[str, int, int]], cut_after: int | None
    ) -> None:
        """A pass whose observation is old before its first action."""
        remaining = list(steps)

        def between() -> None:
            if remaining:
                self.do(*remaining.pop())

        if not self.cluster.is_deleted:
            self.cluster.reconcile(between=between, cut_after=cut_after)

    # Disasters.

    @rule(
        what=st.sampled_from(["crash", "evict", "delete", "vanish", "block", "lose job", "desert"]),
        choice=st.integers(0, 5),
        code=CODES,
        rounds=st.sampled_from([0, 0, 6]),
    )
    def strike(self, what: str, choice: int, code: int, rounds: int) -> None:
        """Something happens to one pod or Job; the job may have time to get over it."""
        self.do(what, choice, code)
        self.turn(rounds, 20)

    @rule(choice=st.integers(0, 9))
    def fail_job(self, choice: int) -> None:
        """A Job of the preparation fails, now and then."""
        jobs = self.cluster.unfinished_jobs()
        if jobs and choice == 0:
            self.cluster.fail_job(jobs[0])

    @rule()
    def lose_job_pods(self) -> None:
        """The finished pods of Jobs are collected."""
        self.cluster.lose_job_pods()

    @rule(node=st.sampled_from("abc"), comes_back=st.booleans())
    def flip_node(self, node: str, comes_back: bool) -> None:
        """A node goes, or comes back."""
        if node in self.cluster.unreachable | self.cluster.silent:
            self.cluster.recover(node)
        elif not comes_back:
            self.cluster.lose(node)

    @rule(node=st.sampled_from("abc"), choice=st.integers(0, 5), code=CODES)
    def die_silently(self, node: str, choice: int, code: int) -> None:
        """A node dies, its peers crash, and the cluster notices in the next step of this kind."""
        for silent in list(self.cluster.silent):
            self.cluster.notice(silent)
        if node not in self.cluster.unreachable:
            self.cluster.die_silently(node)
            self.do("crash", choice, code)

    @rule()
    def evict_from_lost_nodes(self) -> None:
        """The taint manager notices."""
        self.cluster.evict_from_lost_nodes()

    @rule()
    def hang(self) -> None:
        """The newest attempt makes no progress any more."""
        numbers = [attempt_of(pod) for pod in self.cluster.running()]
        if numbers:
            self.cluster.hung.add(max(numbers))

    @rule(value=st.booleans())
    def suspend(self, value: bool) -> None:
        """The user suspends or resumes the job."""
        self.cluster.suspend(value)

    @rule(child=st.sampled_from(["Job/pack", "Pod/r1-worker-0", "Service/r0"]))
    def occupy(self, child: str) -> None:
        """Another client takes a name."""
        kind, _, suffix = child.partition("/")
        self.cluster.occupy(kind, f"{self.cluster.job.metadata.name}-{suffix}")

    @rule(kind=st.sampled_from(["Service", "NetworkPolicy", "PodDisruptionBudget"]))
    def lose_what_is_shared(self, kind: str) -> None:
        """A user deletes the shared objects of an attempt, or the preparation's pods."""
        for found in self.cluster.of_kind(kind)[:1]:
            self.cluster.remove(found)

    # What holds.

    def teardown(self) -> None:
        """After the last disaster the job comes to an end, and the end is the right one."""
        if not hasattr(self, "cluster"):
            return
        cluster = self.cluster
        cluster.suspend(False)
        cluster.vacate()
        for node in list(cluster.silent):
            cluster.notice(node)
        for node in list(cluster.unreachable)[1:]:
            cluster.recover(node)
        cluster.settle(with_events=cluster.now.second % 2 == 0)
        if not cluster.is_deleted:
            cluster.check_rest()


Disasters.TestCase.settings = settings(
    max_examples=120,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    # Shrinking takes minutes here; put Phase.shrink back to look into a failure.
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestDisasters = Disasters.TestCase
