"""What every cluster must do, whatever it is made of.

A module of tests subclasses `Conformance` and gives it a `driver` fixture; the local cluster is
the first. Nothing here knows processes or an API server: only manifests, and time to wait.
"""

from collections.abc import Callable
from typing import Any, Protocol

import pytest

from imagenet_operator.api import ImageNetJob
from imagenet_operator.clusters.errors import AlreadyExists
from imagenet_operator.clusters.interface import Cluster
from imagenet_operator.manifests import labels
from imagenet_operator.reconcile.types import Patch, Reference

Manifest = dict[str, Any]
FOREVER = "sleep 1000"
STUBBORN = "trap '' TERM; echo ready; while :; do sleep 0.02; done"


class Driver(Protocol):
    """A cluster under test."""

    @property
    def cluster(self) -> Cluster:
        """The cluster."""

    @property
    def job(self) -> ImageNetJob:
        """A job that exists there."""

    @property
    def image(self) -> str:
        """An image with `sh` and `python3`."""

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Let the cluster go on until a condition holds."""


def pod(driver: Driver, name: str, script: str, **spec: Any) -> Manifest:
    """A pod of the job that runs a shell script."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(driver, name),
        "spec": {**_pod_spec(driver, script), **spec},
    }


def with_environment(manifest: Manifest, *variables: Manifest) -> Manifest:
    """The pod with environment variables."""
    manifest["spec"]["containers"][0]["env"] = list(variables)
    return manifest


def batch_job(driver: Driver, name: str, script: str, **spec: Any) -> Manifest:
    """A Job whose pods run a shell script; by default it forgives no failure."""
    template = {"metadata": {"labels": _labels(driver)}, "spec": _pod_spec(driver, script)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(driver, name),
        "spec": {"backoffLimit": 0, "template": template, **spec},
    }


def simple(driver: Driver, kind: str, name: str, spec: Manifest) -> Manifest:
    """A Service or claim."""
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": _metadata(driver, name),
        "spec": spec,
    }


def _metadata(driver: Driver, name: str) -> Manifest:
    return {
        "name": name,
        "namespace": driver.job.metadata.namespace,
        "labels": _labels(driver),
        "ownerReferences": [labels.owner(driver.job)],
    }


def _labels(driver: Driver) -> dict[str, str]:
    return labels.of_child(driver.job.metadata.name, "index")


def _pod_spec(driver: Driver, script: str) -> Manifest:
    container = {"name": "main", "image": driver.image, "command": ["sh", "-c", script]}
    return {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}


def find(driver: Driver, kind: str, name: str) -> Manifest | None:
    """What is observed of one object."""
    for item in driver.cluster.observe(driver.job):
        if item["kind"] == kind and item["metadata"]["name"] == name:
            return item
    return None


def get(driver: Driver, kind: str, name: str) -> Manifest:
    """What is observed of one object that must be there."""
    item = find(driver, kind, name)
    assert item is not None, f"{kind} {name} is not there"
    return item


def reference(item: Manifest) -> Reference:
    return Reference(item["kind"], item["metadata"]["name"], item["metadata"]["uid"])


def patch(item: Manifest, merge: Manifest) -> Patch:
    return Patch(item["kind"], item["metadata"]["name"], item["metadata"]["uid"], merge)


def pods_of(driver: Driver, name: str) -> list[Manifest]:
    """The pods of a Job."""
    uid = get(driver, "Job", name)["metadata"]["uid"]
    return [
        item
        for item in driver.cluster.observe(driver.job)
        if item["kind"] == "Pod"
        and any(owner["uid"] == uid for owner in item["metadata"]["ownerReferences"])
    ]


def phase(driver: Driver, name: str) -> str:
    return str(get(driver, "Pod", name)["status"].get("phase"))


def wait_for_phase(driver: Driver, name: str, wanted: str) -> Manifest:
    driver.wait_until(lambda: phase(driver, name) == wanted, f"{name} is {wanted}")
    return get(driver, "Pod", name)


def condition(driver: Driver, name: str, kind: str) -> Manifest | None:
    """A Job's condition, if it is true."""
    for item in get(driver, "Job", name)["status"].get("conditions", ()):
        if item["type"] == kind and item["status"] == "True":
            return dict(item)
    return None


def wait_for_condition(driver: Driver, name: str, kind: str) -> Manifest:
    driver.wait_until(lambda: condition(driver, name, kind) is not None, f"{name} is {kind}")
    found = condition(driver, name, kind)
    assert found is not None
    return found


def terminated(item: Manifest) -> Manifest:
    state: Manifest = item["status"]["containerStatuses"][0]["state"]["terminated"]
    return state


class Conformance:
    """The suite."""

    def test_a_created_object_is_observed_as_it_was_made(self, driver: Driver) -> None:
        driver.cluster.create(pod(driver, "a", FOREVER))

        item = get(driver, "Pod", "a")

        assert item["metadata"]["uid"]
        assert item["metadata"]["creationTimestamp"].endswith("Z")
        assert item["metadata"]["labels"] == _labels(driver)
        assert item["metadata"]["ownerReferences"] == [labels.owner(driver.job)]
        assert "deletionTimestamp" not in item["metadata"]

    def test_what_is_observed_is_a_copy(self, driver: Driver) -> None:
        driver.cluster.create(pod(driver, "a", FOREVER))

        get(driver, "Pod", "a")["metadata"]["labels"].clear()

        assert get(driver, "Pod", "a")["metadata"]["labels"]

    def test_a_manifest_may_be_changed_after_it_was_created(self, driver: Driver) -> None:
        manifest = pod(driver, "a", FOREVER)
        driver.cluster.create(manifest)
        manifest["metadata"]["labels"].clear()

        assert get(driver, "Pod", "a")["metadata"]["labels"]

    def test_a_name_is_taken_once(self, driver: Driver) -> None:
        driver.cluster.create(pod(driver, "a", FOREVER))
        uid = get(driver, "Pod", "a")["metadata"]["uid"]

        with pytest.raises(AlreadyExists):
            driver.cluster.create(pod(driver, "a", "exit 1"))

        assert get(driver, "Pod", "a")["metadata"]["uid"] == uid

    def test_kinds_have_names_of_their_own(self, driver: Driver) -> None:
        driver.cluster.create(simple(driver, "Service", "a", {"clusterIP": "None"}))
        driver.cluster.create(pod(driver, "a", FOREVER))

        assert get(driver, "Service", "a")["metadata"]["uid"]

    def test_a_running_pod_has_an_address(self, driver: Driver) -> None:
        driver.cluster.create(pod(driver, "a", FOREVER))

        item = wait_for_phase(driver, "a", "Running")

        conditions = {entry["type"]: entry["status"] for entry in item["status"]["conditions"]}
        assert conditions["PodScheduled"] == "True"
        assert item["status"]["podIP"]
        assert item["spec"]["nodeName"]
        assert "running" in item["status"]["containerStatuses"][0]["state"]

    @pytest.mark.parametrize(
        ("script", "wanted", "code", "reason"),
        [
            ("exit 0", "Succeeded", 0, "Completed"),
            ("exit 3", "Failed", 3, "Error"),
            # Kubernetes makes one $ of two. No signal ends the first process of a container, so it
            # is a child that dies, and its parent that passes it on.
            ("sh -c 'kill -KILL $$$$'; exit $?", "Failed", 137, "Error"),
        ],
    )
    def test_a_pods_end_is_reported(
        self, driver: Driver, script: str, wanted: str, code: int, reason: str
    ) -> None:
        driver.cluster.create(pod(driver, "a", script))

        state = terminated(wait_for_phase(driver, "a", wanted))

        assert (state["exitCode"], state["reason"]) == (code, reason)
        assert state["finishedAt"].endswith("Z")

    def test_a_termination_message_is_reported(self, driver: Driver) -> None:
        script = """printf '{"key": "1"}' > "$LOG" """
        manifest = pod(driver, "a", script)
        log = {"name": "LOG", "value": "/dev/termination-log"}
        driver.cluster.create(with_environment(manifest, log))

        assert terminated(wait_for_phase(driver, "a", "Succeeded"))["message"] == '{"key": "1"}'

    def test_the_end_of_the_log_stands_in_for_a_message(self, driver: Driver) -> None:
        manifest = pod(driver, "a", "echo the reason; exit 1")
        manifest["spec"]["containers"][0]["terminationMessagePolicy"] = "FallbackToLogsOnError"
        driver.cluster.create(manifest)

        assert "the reason" in terminated(wait_for_phase(driver, "a", "Failed"))["message"]

    def test_a_pod_knows_its_name_and_address(self, driver: Driver) -> None:
        script = """echo "$WHO $AND $ARGUMENT" > "$LOG"; test "$IP" """
        manifest = with_environment(
            pod(driver, "a", script),
            {"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "AND", "value": "$(WHO) $$(WHO) $(LATER)"},
            {"name": "LATER", "value": "later"},
            {"name": "LOG", "value": "/dev/termination-log"},
        )
        manifest["spec"]["containers"][0]["command"][2] = "ARGUMENT=$(LATER); " + script
        driver.cluster.create(manifest)

        message = terminated(wait_for_phase(driver, "a", "Succeeded"))["message"]
        assert message == "a a $(WHO) $(LATER) later\n"

    def test_pods_reach_each_other_by_service_name(self, driver: Driver) -> None:
        serve = "import socket; s = socket.create_server(('$(IP)', 9091)); s.accept()"
        connect = (
            "import socket, time\n"
            "while True:\n"
            "    try: socket.create_connection(('$(PEER)', $(PORT)), 5); break\n"
            "    except OSError: time.sleep(0.02)\n"
        )
        ip = {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
        peer = {"name": "PEER", "value": "server.service"}
        port = {"name": "PORT", "value": "9091"}
        client = with_environment(pod(driver, "client", ""), peer, port)
        client["spec"]["containers"][0]["command"] = ["python3", "-c", connect]
        names = {"hostname": "server", "subdomain": "service"}
        server = with_environment(pod(driver, "server", "", **names), ip)
        server["spec"]["containers"][0]["command"] = ["python3", "-c", serve]
        selector = {labels.JOB_NAME: driver.job.metadata.name}
        spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": selector}
        driver.cluster.create(simple(driver, "Service", "service", spec))

        driver.cluster.create(client)
        driver.cluster.create(server)

        wait_for_phase(driver, "client", "Succeeded")
        wait_for_phase(driver, "server", "Succeeded")

    def test_pods_share_a_claim(self, driver: Driver) -> None:
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Mi"}},
        }
        driver.cluster.create(simple(driver, "PersistentVolumeClaim", "claim", spec))
        data = {"name": "DATA", "value": "/data"}
        for name, script in {
            "writer": 'echo text > "$DATA/file"',
            "reader": 'until test -s "$DATA/file"; do sleep 0.02; done; cat "$DATA/file"',
        }.items():
            volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "claim"}}]
            manifest = with_environment(pod(driver, name, script, volumes=volumes), data)
            mounts = [{"name": "data", "mountPath": "/data"}]
            manifest["spec"]["containers"][0]["volumeMounts"] = mounts
            driver.cluster.create(manifest)

        wait_for_phase(driver, "reader", "Succeeded")

    def test_a_gated_pod_waits_for_its_gate(self, driver: Driver) -> None:
        driver.cluster.create(pod(driver, "a", "exit 0", schedulingGates=[{"name": "x.dev/gate"}]))
        item = get(driver, "Pod", "a")
        assert item["status"]["phase"] == "Pending"
        assert "nodeName" not in item["spec"]

        driver.cluster.patch(patch(item, {"spec": {"schedulingGates": []}}))

        wait_for_phase(driver, "a", "Succeeded")

    def test_a_deleted_pod_is_terminating_until_it_has_ended(self, driver: Driver) -> None:
        driver.cluster.create(pod(driver, "a", STUBBORN))
        item = wait_for_phase(driver, "a", "Running")

        driver.cluster.delete(reference(item))

        assert get(driver, "Pod", "a")["metadata"]["deletionTimestamp"]
        with pytest.raises(AlreadyExists):
            driver.cluster.create(pod(driver, "a", FOREVER))
        driver.wait_until(lambda: find(driver, "Pod", "a") is None, "the pod has gone")

    def test_a_name_is_free_again_after_the_end(self, driver: Driver) -> None:
        driver.cluster.create(pod(driver, "a", FOREVER))
        item = wait_for_phase(driver, "a", "Running")
        driver.cluster.delete(reference(item))
        driver.wait_until(lambda: find(driver, "Pod", "a") is None, "the pod has gone")

        driver.cluster.create(pod(driver, "a", FOREVER))

        assert get(driver, "Pod", "a")["metadata"]["uid"] != item["metadata"]["uid"]

    def test_deletes_and_patches_never_hit_a_successor(self, driver: Driver) -> None:
        driver.cluster.create(pod(driver, "a", FOREVER))
        gone = Reference("Pod", "a", "00000000-0000-0000-0000-000000000000")

        driver.cluster.delete(gone)
        driver.cluster.patch(Patch("Pod", "a", gone.uid, {"metadata": {"labels": {"hit": "yes"}}}))

        item = get(driver, "Pod", "a")
        assert "deletionTimestamp" not in item["metadata"]
        assert "hit" not in item["metadata"]["labels"]

    def test_what_is_gone_is_no_error(self, driver: Driver) -> None:
        for kind in ("Pod", "Job", "Service", "PersistentVolumeClaim"):
            driver.cluster.delete(Reference(kind, "never", "was"))
            driver.cluster.patch(Patch(kind, "never", "was", {"spec": {}}))

    def test_a_merge_patch_adds_changes_and_removes(self, driver: Driver) -> None:
        driver.cluster.create(simple(driver, "Service", "a", {"clusterIP": "None"}))
        item = get(driver, "Service", "a")
        first = {"metadata": {"labels": {"one": "1", "two": "2"}}}
        second = {"metadata": {"labels": {"one": None, "two": "3"}}}

        driver.cluster.patch(patch(item, first))
        driver.cluster.patch(patch(item, second))

        found = get(driver, "Service", "a")["metadata"]["labels"]
        assert found == {**_labels(driver), "two": "3"}

    def test_a_job_completes(self, driver: Driver) -> None:
        driver.cluster.create(batch_job(driver, "j", "exit 0"))

        wait_for_condition(driver, "j", "Complete")

        status = get(driver, "Job", "j")["status"]
        assert status["succeeded"] == 1
        assert not status.get("active")
        (only,) = pods_of(driver, "j")
        assert only["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "j"
        assert only["metadata"]["labels"][labels.JOB_ROLE] == "index"

    def test_an_indexed_job_runs_each_index_once(self, driver: Driver) -> None:
        log = {"name": "LOG", "value": "/dev/termination-log"}
        manifest = batch_job(
            driver,
            "j",
            'printf "%s" "$JOB_COMPLETION_INDEX" > "$LOG"',
            completionMode="Indexed",
            completions=4,
            parallelism=2,
        )
        manifest["spec"]["template"]["spec"]["containers"][0]["env"] = [log]
        driver.cluster.create(manifest)

        wait_for_condition(driver, "j", "Complete")

        messages = sorted(terminated(item)["message"] for item in pods_of(driver, "j"))
        assert messages == ["0", "1", "2", "3"]
        assert get(driver, "Job", "j")["status"]["completedIndexes"] == "0-3"

    def test_parallelism_is_a_limit(self, driver: Driver) -> None:
        driver.cluster.create(batch_job(driver, "j", FOREVER, completions=3, parallelism=2))

        driver.wait_until(
            lambda: get(driver, "Job", "j")["status"].get("active") == 2, "two pods are active"
        )

        # On a cluster, pods and Jobs are heard of by ways of their own.
        driver.wait_until(lambda: len(pods_of(driver, "j")) >= 2, "two pods are there")
        assert len(pods_of(driver, "j")) == 2

    def test_a_job_fails_beyond_its_limit(self, driver: Driver) -> None:
        driver.cluster.create(batch_job(driver, "j", "exit 1", backoffLimit=1))

        failed = wait_for_condition(driver, "j", "Failed")

        assert failed["reason"] == "BackoffLimitExceeded"
        assert get(driver, "Job", "j")["status"]["failed"] == 2

    @pytest.mark.parametrize(("code", "pods"), [(3, 1), (1, 2)])
    def test_a_failure_policy_ends_a_job_at_once(
        self, driver: Driver, code: int, pods: int
    ) -> None:
        codes = {"containerName": "main", "operator": "In", "values": [2, 3]}
        policy = {"rules": [{"action": "FailJob", "onExitCodes": codes}]}
        driver.cluster.create(
            batch_job(driver, "j", f"exit {code}", backoffLimit=1, podFailurePolicy=policy)
        )

        failed = wait_for_condition(driver, "j", "Failed")

        assert (failed["reason"] == "PodFailurePolicy") == (code == 3)
        assert len(pods_of(driver, "j")) == pods

    def test_a_failed_job_ends_its_other_pods(self, driver: Driver) -> None:
        script = f'test "$JOB_COMPLETION_INDEX" = 0 && exit 1; {FOREVER}'
        driver.cluster.create(
            batch_job(driver, "j", script, completionMode="Indexed", completions=2, parallelism=2)
        )

        wait_for_condition(driver, "j", "Failed")

        assert not any(item["status"]["phase"] == "Running" for item in pods_of(driver, "j"))

    def test_a_suspended_job_has_no_pods_until_it_is_resumed(self, driver: Driver) -> None:
        driver.cluster.create(batch_job(driver, "j", "exit 0", suspend=True))
        wait_for_condition(driver, "j", "Suspended")
        assert pods_of(driver, "j") == []

        driver.cluster.patch(patch(get(driver, "Job", "j"), {"spec": {"suspend": False}}))

        wait_for_condition(driver, "j", "Complete")
        assert condition(driver, "j", "Suspended") is None

    def test_suspending_ends_the_pods_and_charges_nothing(self, driver: Driver) -> None:
        driver.cluster.create(batch_job(driver, "j", FOREVER))
        driver.wait_until(
            lambda: any(item["status"].get("phase") == "Running" for item in pods_of(driver, "j")),
            "the pod runs",
        )

        driver.cluster.patch(patch(get(driver, "Job", "j"), {"spec": {"suspend": True}}))

        driver.wait_until(lambda: pods_of(driver, "j") == [], "the pods have gone")
        wait_for_condition(driver, "j", "Suspended")
        assert condition(driver, "j", "Failed") is None

    def test_deleting_a_job_deletes_its_pods(self, driver: Driver) -> None:
        driver.cluster.create(batch_job(driver, "j", FOREVER))
        driver.wait_until(lambda: len(pods_of(driver, "j")) == 1, "the pod is there")
        (item,) = pods_of(driver, "j")

        driver.cluster.delete(reference(get(driver, "Job", "j")))

        driver.wait_until(
            lambda: find(driver, "Pod", item["metadata"]["name"]) is None, "the pod has gone"
        )
        assert find(driver, "Job", "j") is None

    def test_a_reachable_cluster_has_no_unreachable_nodes(self, driver: Driver) -> None:
        assert driver.cluster.unreachable_nodes() == frozenset()
