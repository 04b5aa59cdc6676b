"""What only the local cluster does: folders, GPUs, waiting, and the end of everything."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_operator.clusters.interface import LocalError, Unsupported
from imagenet_operator.clusters.local import machine
from imagenet_operator.clusters.local.cluster import merge
from imagenet_operator.reconcile.types import Event
from support.cluster_driver import (
    FOREVER,
    STUBBORN,
    batch_job,
    find,
    get,
    phase,
    pod,
    pods_of,
    reference,
    simple,
    terminated,
    wait_for_condition,
    wait_for_phase,
    with_environment,
)
from support.local_driver import LocalDriver
from support.processes import processes_with, wait_until

Manifest = dict[str, Any]
MakeDriver = Callable[..., LocalDriver]


def asking(manifest: Manifest, gpus: int) -> Manifest:
    container = manifest["spec"]["containers"][0]
    container["resources"] = {"limits": {"nvidia.com/gpu": str(gpus)}}
    return manifest


def test_a_pod_waits_for_free_gpus(make_driver: MakeDriver) -> None:
    driver = make_driver(gpus=("0", "1"))
    driver.create(asking(pod(driver, "first", FOREVER), 2))
    driver.create(asking(pod(driver, "second", "echo $CUDA_VISIBLE_DEVICES"), 1))
    assert phase(driver, "first") == "Running"
    waiting = get(driver, "Pod", "second")
    assert waiting["status"]["phase"] == "Pending"
    assert waiting["status"]["conditions"][0]["reason"] == "Unschedulable"

    driver.delete(reference(get(driver, "Pod", "first")))

    wait_for_phase(driver, "second", "Succeeded")
    assert driver.log("second") == "0\n"


def test_a_pod_without_gpus_sees_none(make_driver: MakeDriver) -> None:
    driver = make_driver(gpus=("0",))
    driver.create(pod(driver, "a", 'echo "<$CUDA_VISIBLE_DEVICES>"'))

    wait_for_phase(driver, "a", "Succeeded")

    assert driver.log("a") == "<>\n"


def claim(driver: LocalDriver, name: str) -> Manifest:
    return simple(driver, "PersistentVolumeClaim", name, {"resources": {}})


def mounting(manifest: Manifest, name: str, path: str) -> Manifest:
    spec = manifest["spec"]
    spec["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
    spec["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": path}]
    return with_environment(manifest, {"name": "DATA", "value": path})


def test_a_claim_is_a_folder_that_goes_with_it(driver: LocalDriver) -> None:
    driver.create(claim(driver, "c"))
    driver.create(mounting(pod(driver, "a", 'touch "$DATA/file"'), "c", "/data"))
    wait_for_phase(driver, "a", "Succeeded")
    folder = driver.folder / "volumes" / "c"
    assert (folder / "file").exists()
    driver.delete(reference(get(driver, "Pod", "a")))

    driver.delete(reference(get(driver, "PersistentVolumeClaim", "c")))

    assert not folder.exists()


def test_a_claim_in_use_goes_after_its_pods(driver: LocalDriver) -> None:
    driver.create(claim(driver, "c"))
    driver.create(mounting(pod(driver, "a", FOREVER), "c", "/data"))

    driver.delete(reference(get(driver, "PersistentVolumeClaim", "c")))

    assert get(driver, "PersistentVolumeClaim", "c")["metadata"]["deletionTimestamp"]
    assert (driver.folder / "volumes" / "c").is_dir()
    driver.delete(reference(get(driver, "Pod", "a")))
    driver.wait_until(lambda: find(driver, "PersistentVolumeClaim", "c") is None, "it has gone")


def test_a_mapped_claim_leaves_its_folder(make_driver: MakeDriver, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    driver = make_driver(mapped={"c": elsewhere})
    driver.create(claim(driver, "c"))

    driver.delete(reference(get(driver, "PersistentVolumeClaim", "c")))

    assert elsewhere.is_dir()


def test_a_pod_of_an_unknown_claim_cannot_start(driver: LocalDriver) -> None:
    with pytest.raises(LocalError, match="claim 'none' has no folder"):
        driver.create(mounting(pod(driver, "a", FOREVER), "none", "/data"))


def test_scratch_is_a_folder_of_the_pods_own(driver: LocalDriver) -> None:
    script = 'cd "$HOME" && pwd && touch left && ls'
    manifest = pod(driver, "a", script, volumes=[{"name": "s", "emptyDir": {}}])
    manifest["spec"]["containers"][0]["volumeMounts"] = [{"name": "s", "mountPath": "/scratch"}]
    home = {"name": "HOME", "value": "/scratch"}
    driver.create(with_environment(manifest, home))
    wait_for_phase(driver, "a", "Succeeded")
    folder = driver.folder / "scratch" / "a"
    assert driver.log("a") == f"{folder}/s\nleft\n"

    driver.delete(reference(get(driver, "Pod", "a")))

    assert not folder.exists()


def test_only_the_end_of_a_long_log_is_a_message(driver: LocalDriver) -> None:
    manifest = pod(driver, "a", "seq 100000; exit 1")
    manifest["spec"]["containers"][0]["terminationMessagePolicy"] = "FallbackToLogsOnError"
    driver.create(manifest)

    message = terminated(wait_for_phase(driver, "a", "Failed"))["message"]

    assert message.endswith("99999\n100000\n")
    assert 1024 < len(message) <= 2048
    assert message.splitlines()[0].isdecimal(), "lines are whole"


def test_what_a_local_run_cannot_do_is_refused(driver: LocalDriver) -> None:
    manifest = batch_job(driver, "j", FOREVER)
    manifest["spec"]["template"]["spec"]["initContainers"] = [{"name": "wait"}]

    with pytest.raises(Unsupported, match="initContainers"):
        driver.create(manifest)

    assert driver.observe() == []


def test_a_missing_program_is_named(driver: LocalDriver) -> None:
    manifest = pod(driver, "a", "")
    manifest["spec"]["containers"][0]["command"] = ["imagenet-nothing"]

    with pytest.raises(LocalError, match="'imagenet-nothing' is neither beside this Python"):
        driver.create(manifest)


def test_events_and_statuses_go_where_they_belong(driver: LocalDriver) -> None:
    event = Event("Normal", "Running", "all run")

    driver.record_event(event)
    driver.write_status(driver.job.status)

    assert driver.told == [event]
    assert driver.saved == [driver.job.to_manifest()]


def test_a_wake_is_a_change(driver: LocalDriver) -> None:
    driver.create(pod(driver, "a", FOREVER))
    driver.observe()
    threading.Timer(0.05, driver.local.wake).start()

    driver.wait_for_change()

    assert phase(driver, "a") == "Running"


def test_a_wake_while_nothing_waits_is_not_lost(driver: LocalDriver) -> None:
    driver.local.wake()
    driver.local.wake()

    driver.wait_for_change()


def test_a_pod_that_ended_unseen_is_a_change(driver: LocalDriver) -> None:
    """It is collected while another is created, after the reconcile has observed."""
    go_on = driver.folder / "go-on"
    driver.create(pod(driver, "a", f"until test -e {go_on}; do sleep 0.02; done"))
    driver.observe()
    go_on.touch()
    os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
    driver.create(pod(driver, "b", FOREVER))

    driver.wait_for_change()

    assert phase(driver, "a") == "Succeeded"


def wait_until_ready(driver: LocalDriver, name: str) -> None:
    wait_until(lambda: "ready" in driver.log(name), f"{name} says that it is ready")


def test_pods_with_volumes_end_before_those_that_serve_them(driver: LocalDriver) -> None:
    driver.create(claim(driver, "c"))
    report = "trap 'test -e ../peer && echo alone; exit 0' TERM; echo ready; sleep 1000 & wait"
    serve = "trap 'touch ../peer; exit 0' TERM; echo ready; sleep 1000 & wait"
    driver.create(pod(driver, "server", serve))
    driver.create(mounting(pod(driver, "worker", report), "c", "/data"))
    for name in ("server", "worker"):
        wait_until_ready(driver, name)
    driver.stop()

    driver.local.shut_down(60, lambda: False)

    assert driver.log("worker") == "ready\n"
    assert (driver.folder / "scratch" / "peer").exists()


def test_shutting_down_kills_what_does_not_end(driver: LocalDriver) -> None:
    driver.create(pod(driver, "a", STUBBORN))
    wait_until_ready(driver, "a")
    driver.stop()

    driver.local.shut_down(0.05, lambda: False)

    assert processes_with(f"IMAGENET_TEST_MARK={driver.folder}") == []


def test_a_killed_pod_of_a_job_is_replaced(driver: LocalDriver) -> None:
    driver.create(batch_job(driver, "j", "exit 9", backoffLimit=1))

    wait_for_condition(driver, "j", "Failed")

    assert len({item["metadata"]["name"] for item in pods_of(driver, "j")}) == 2


def test_a_job_may_have_more_pods_than_there_are_addresses(
    driver: LocalDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "LAST", machine.FIRST + 2)

    driver.create(batch_job(driver, "j", "true", completions=5, parallelism=2))

    wait_for_condition(driver, "j", "Complete")
    assert len({item["status"]["podIP"] for item in pods_of(driver, "j")}) == 3


# The examples of RFC 7396, appendix A, whose documents and patches are objects.
@pytest.mark.parametrize(
    ("original", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_patches_are_merged(original: Manifest, patch: Manifest, result: Manifest) -> None:
    merge(original, patch)

    assert original == result


JSON = st.recursive(
    st.integers() | st.lists(st.integers(), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), JSON, max_size=3)


@given(OBJECTS, OBJECTS)
def test_a_patch_that_is_repeated_changes_nothing(original: Manifest, patch: Manifest) -> None:
    merge(original, patch)
    once = str(original)

    merge(original, patch)

    assert str(original) == once
