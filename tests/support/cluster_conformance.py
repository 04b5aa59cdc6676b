"""The conformance suite: what every cluster must do, whatever it is made of.

A module of tests subclasses `Conformance` and gives it a `driver` fixture. `ObjectConformance` is
the part that needs no pod to run, so that it also runs against an API server without nodes.
"""

import pytest

from imagenet_operator.clusters.interface import AlreadyExists
from imagenet_operator.manifests import labels
from imagenet_operator.reconcile.types import Event, Patch, Reference
from imagenet_spec.resource.status import Status
from support.cluster_driver import (
    FOREVER,
    STUBBORN,
    ClusterDriver,
    batch_job,
    condition,
    find,
    get,
    labels_of,
    patch,
    pod,
    pods_of,
    reference,
    simple,
    terminated,
    wait_for_condition,
    wait_for_phase,
    with_environment,
)


class ObjectConformance:
    """What every cluster does with objects, even if no pod runs."""

    def test_a_created_object_is_observed_as_it_was_made(self, driver: ClusterDriver) -> None:
        driver.create(pod(driver, "a", FOREVER))

        item = get(driver, "Pod", "a")

        assert item["metadata"]["uid"]
        assert item["metadata"]["creationTimestamp"].endswith("Z")
        assert item["metadata"]["labels"] == labels_of(driver)
        assert item["metadata"]["ownerReferences"] == [labels.owner(driver.job)]
        assert "deletionTimestamp" not in item["metadata"]

    def test_what_is_observed_is_a_copy(self, driver: ClusterDriver) -> None:
        driver.create(pod(driver, "a", FOREVER))

        get(driver, "Pod", "a")["metadata"]["labels"].clear()

        assert get(driver, "Pod", "a")["metadata"]["labels"]

    def test_a_manifest_may_be_changed_after_it_was_created(self, driver: ClusterDriver) -> None:
        manifest = pod(driver, "a", FOREVER)
        driver.create(manifest)
        manifest["metadata"]["labels"].clear()

        assert get(driver, "Pod", "a")["metadata"]["labels"]

    def test_what_the_job_has_already_is_not_created_again(self, driver: ClusterDriver) -> None:
        driver.create(pod(driver, "a", FOREVER))
        uid = get(driver, "Pod", "a")["metadata"]["uid"]

        driver.create(pod(driver, "a", "exit 1"))

        assert get(driver, "Pod", "a")["metadata"]["uid"] == uid

    def test_kinds_have_names_of_their_own(self, driver: ClusterDriver) -> None:
        driver.create(simple(driver, "Service", "a", {"clusterIP": "None"}))
        driver.create(pod(driver, "a", FOREVER))

        assert get(driver, "Service", "a")["metadata"]["uid"]

    def test_deletes_and_patches_never_hit_a_successor(self, driver: ClusterDriver) -> None:
        driver.create(pod(driver, "a", FOREVER))
        gone = Reference("Pod", "a", "00000000-0000-0000-0000-000000000000")

        driver.delete(gone)
        driver.patch(Patch("Pod", "a", gone.uid, {"metadata": {"labels": {"hit": "yes"}}}))

        item = get(driver, "Pod", "a")
        assert "deletionTimestamp" not in item["metadata"]
        assert "hit" not in item["metadata"]["labels"]

    def test_what_is_gone_is_neither_deleted_nor_patched(self, driver: ClusterDriver) -> None:
        for kind in ("Pod", "Job", "Service", "PersistentVolumeClaim"):
            driver.delete(Reference(kind, "never", "was"))
            driver.patch(Patch(kind, "never", "was", {"spec": {}}))

        assert driver.observe() == []

    def test_a_merge_patch_adds_changes_and_removes(self, driver: ClusterDriver) -> None:
        driver.create(simple(driver, "Service", "a", {"clusterIP": "None"}))
        item = get(driver, "Service", "a")
        first = {"metadata": {"labels": {"one": "1", "two": "2"}}}
        second = {"metadata": {"labels": {"one": None, "two": "3"}}}

        driver.patch(patch(item, first))
        driver.patch(patch(item, second))

        found = get(driver, "Service", "a")["metadata"]["labels"]
        assert found == {**labels_of(driver), "two": "3"}

    def test_a_reachable_cluster_has_no_unreachable_nodes(self, driver: ClusterDriver) -> None:
        assert driver.run(driver.cluster.unreachable_nodes(driver.job)) == frozenset()

    def test_a_status_is_stored(self, driver: ClusterDriver) -> None:
        driver.write_status(Status(restarts=3))

        assert driver.stored_status()["restarts"] == 3

    def test_events_are_recorded(self, driver: ClusterDriver) -> None:
        driver.record_event(Event("Normal", "Running", "all pods run"))
        driver.record_event(Event("Warning", "Failed", "a pod has failed"))

        assert driver.recorded_events() == [
            ("Normal", "Running", "all pods run"),
            ("Warning", "Failed", "a pod has failed"),
        ]


class Conformance(ObjectConformance):
    """The whole suite."""

    def test_a_running_pod_has_an_address(self, driver: ClusterDriver) -> None:
        driver.create(pod(driver, "a", FOREVER))

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
        self, driver: ClusterDriver, script: str, wanted: str, code: int, reason: str
    ) -> None:
        driver.create(pod(driver, "a", script))

        state = terminated(wait_for_phase(driver, "a", wanted))

        assert (state["exitCode"], state["reason"]) == (code, reason)
        assert state["finishedAt"].endswith("Z")

    def test_a_termination_message_is_reported(self, driver: ClusterDriver) -> None:
        script = """printf '{"key": "1"}' > "$LOG" """
        manifest = pod(driver, "a", script)
        log = {"name": "LOG", "value": "/dev/termination-log"}
        driver.create(with_environment(manifest, log))

        assert terminated(wait_for_phase(driver, "a", "Succeeded"))["message"] == '{"key": "1"}'

    def test_the_end_of_the_log_stands_in_for_a_message(self, driver: ClusterDriver) -> None:
        manifest = pod(driver, "a", "echo the reason; exit 1")
        manifest["spec"]["containers"][0]["terminationMessagePolicy"] = "FallbackToLogsOnError"
        driver.create(manifest)

        assert "the reason" in terminated(wait_for_phase(driver, "a", "Failed"))["message"]

    def test_a_pod_knows_its_name_and_address(self, driver: ClusterDriver) -> None:
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
        driver.create(manifest)

        message = terminated(wait_for_phase(driver, "a", "Succeeded"))["message"]
        assert message == "a a $(WHO) $(LATER) later\n"

    def test_pods_reach_each_other_by_service_name(self, driver: ClusterDriver) -> None:
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
        driver.create(simple(driver, "Service", "service", spec))

        driver.create(client)
        driver.create(server)

        wait_for_phase(driver, "client", "Succeeded")
        wait_for_phase(driver, "server", "Succeeded")

    def test_pods_share_a_claim(self, driver: ClusterDriver) -> None:
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Mi"}},
        }
        driver.create(simple(driver, "PersistentVolumeClaim", "claim", spec))
        data = {"name": "DATA", "value": "/data"}
        for name, script in {
            "writer": 'echo text > "$DATA/file"',
            "reader": 'until test -s "$DATA/file"; do sleep 0.02; done; cat "$DATA/file"',
        }.items():
            volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "claim"}}]
            manifest = with_environment(pod(driver, name, script, volumes=volumes), data)
            mounts = [{"name": "data", "mountPath": "/data"}]
            manifest["spec"]["containers"][0]["volumeMounts"] = mounts
            driver.create(manifest)

        wait_for_phase(driver, "reader", "Succeeded")

    def test_a_gated_pod_waits_for_its_gate(self, driver: ClusterDriver) -> None:
        driver.create(pod(driver, "a", "exit 0", schedulingGates=[{"name": "x.dev/gate"}]))
        item = get(driver, "Pod", "a")
        assert item["status"]["phase"] == "Pending"
        assert "nodeName" not in item["spec"]

        driver.patch(patch(item, {"spec": {"schedulingGates": []}}))

        wait_for_phase(driver, "a", "Succeeded")

    def test_a_deleted_pod_is_terminating_until_it_has_ended(self, driver: ClusterDriver) -> None:
        driver.create(pod(driver, "a", STUBBORN, terminationGracePeriodSeconds=5))
        item = wait_for_phase(driver, "a", "Running")
        driver.wait_for_trap("a")

        driver.delete(reference(item))

        assert get(driver, "Pod", "a")["metadata"]["deletionTimestamp"]
        with pytest.raises(AlreadyExists):
            driver.create(pod(driver, "a", FOREVER))
        driver.wait_until(lambda: find(driver, "Pod", "a") is None, "the pod has gone")

    def test_a_name_is_free_again_after_the_end(self, driver: ClusterDriver) -> None:
        driver.create(pod(driver, "a", FOREVER))
        item = wait_for_phase(driver, "a", "Running")
        driver.delete(reference(item))
        driver.wait_until(lambda: find(driver, "Pod", "a") is None, "the pod has gone")

        driver.create(pod(driver, "a", FOREVER))

        assert get(driver, "Pod", "a")["metadata"]["uid"] != item["metadata"]["uid"]

    def test_a_job_completes(self, driver: ClusterDriver) -> None:
        driver.create(batch_job(driver, "j", "exit 0"))

        wait_for_condition(driver, "j", "Complete")

        status = get(driver, "Job", "j")["status"]
        assert status["succeeded"] == 1
        assert not status.get("active")
        (only,) = pods_of(driver, "j")
        assert only["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "j"
        assert only["metadata"]["labels"][labels.JOB_ROLE] == "index"

    def test_an_indexed_job_runs_each_index_once(self, driver: ClusterDriver) -> None:
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
        driver.create(manifest)

        wait_for_condition(driver, "j", "Complete")

        messages = sorted(terminated(item)["message"] for item in pods_of(driver, "j"))
        assert messages == ["0", "1", "2", "3"]
        assert get(driver, "Job", "j")["status"]["succeeded"] == 4

    def test_parallelism_is_a_limit(self, driver: ClusterDriver) -> None:
        driver.create(batch_job(driver, "j", FOREVER, completions=3, parallelism=2))

        driver.wait_until(
            lambda: get(driver, "Job", "j")["status"].get("active") == 2, "two pods are active"
        )

        # On a cluster, pods and Jobs are heard of by ways of their own.
        driver.wait_until(lambda: len(pods_of(driver, "j")) >= 2, "two pods are there")
        assert len(pods_of(driver, "j")) == 2

    def test_a_job_fails_beyond_its_limit(self, driver: ClusterDriver) -> None:
        driver.create(batch_job(driver, "j", "exit 1", backoffLimit=1))

        failed = wait_for_condition(driver, "j", "Failed")

        assert failed["reason"] == "BackoffLimitExceeded"
        assert get(driver, "Job", "j")["status"]["failed"] == 2

    def test_a_job_fails_beyond_the_limit_of_one_index(self, driver: ClusterDriver) -> None:
        limits = {"backoffLimit": 9, "backoffLimitPerIndex": 1, "maxFailedIndexes": 0}
        script = 'test "$JOB_COMPLETION_INDEX" = 0'
        driver.create(
            batch_job(driver, "j", script, completionMode="Indexed", completions=2, **limits)
        )

        failed = wait_for_condition(driver, "j", "Failed")

        assert failed["reason"] == "MaxFailedIndexesExceeded"
        status = get(driver, "Job", "j")["status"]
        assert (status["failed"], status["succeeded"]) == (2, 1)

    @pytest.mark.parametrize(("code", "pods"), [(3, 1), (1, 2)])
    def test_a_failure_policy_ends_a_job_at_once(
        self, driver: ClusterDriver, code: int, pods: int
    ) -> None:
        codes = {"containerName": "main", "operator": "In", "values": [2, 3]}
        policy = {"rules": [{"action": "FailJob", "onExitCodes": codes}]}
        driver.create(
            batch_job(driver, "j", f"exit {code}", backoffLimit=1, podFailurePolicy=policy)
        )

        failed = wait_for_condition(driver, "j", "Failed")

        assert (failed["reason"] == "PodFailurePolicy") == (code == 3)
        assert len(pods_of(driver, "j")) == pods

    def test_a_failed_job_ends_its_other_pods(self, driver: ClusterDriver) -> None:
        script = f'test "$JOB_COMPLETION_INDEX" = 0 && exit 1; {FOREVER}'
        driver.create(
            batch_job(driver, "j", script, completionMode="Indexed", completions=2, parallelism=2)
        )

        wait_for_condition(driver, "j", "Failed")

        assert not any(item["status"]["phase"] == "Running" for item in pods_of(driver, "j"))

    def test_a_suspended_job_has_no_pods_until_it_is_resumed(self, driver: ClusterDriver) -> None:
        driver.create(batch_job(driver, "j", "exit 0", suspend=True))
        wait_for_condition(driver, "j", "Suspended")
        assert pods_of(driver, "j") == []

        driver.patch(patch(get(driver, "Job", "j"), {"spec": {"suspend": False}}))

        wait_for_condition(driver, "j", "Complete")
        assert condition(driver, "j", "Suspended") is None

    def test_suspending_ends_the_pods_and_charges_nothing(self, driver: ClusterDriver) -> None:
        driver.create(batch_job(driver, "j", FOREVER))
        driver.wait_until(
            lambda: any(item["status"].get("phase") == "Running" for item in pods_of(driver, "j")),
            "the pod runs",
        )

        driver.patch(patch(get(driver, "Job", "j"), {"spec": {"suspend": True}}))

        driver.wait_until(lambda: pods_of(driver, "j") == [], "the pods have gone")
        wait_for_condition(driver, "j", "Suspended")
        assert condition(driver, "j", "Failed") is None

    def test_deleting_a_job_deletes_its_pods(self, driver: ClusterDriver) -> None:
        driver.create(batch_job(driver, "j", FOREVER))
        driver.wait_until(lambda: len(pods_of(driver, "j")) == 1, "the pod is there")
        (item,) = pods_of(driver, "j")

        driver.delete(reference(get(driver, "Job", "j")))

        driver.wait_until(
            lambda: find(driver, "Pod", item["metadata"]["name"]) is None, "the pod has gone"
        )
        assert find(driver, "Job", "j") is None
