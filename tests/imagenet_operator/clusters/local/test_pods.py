"""A pod's manifest becomes a command line and an environment."""

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_operator.clusters.interface import Unsupported
from imagenet_operator.clusters.local import pods
from imagenet_operator.clusters.local.machine import Volumes
from imagenet_operator.clusters.local.pods import expand

Manifest = dict[str, Any]
IMAGES = frozenset({"ours"})
POD: Manifest = {
    "metadata": {
        "name": "digits-r0-worker-0",
        "namespace": "vision",
        "uid": "u",
        "labels": {"one": "1"},
        "annotations": {"two": "2"},
    },
    "spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "ours", "command": ["imagenet-train"]}],
    },
}


def pod(*env: Manifest, args: tuple[str, ...] = (), **container: Any) -> Manifest:
    found = copy.deepcopy(POD)
    found["spec"]["containers"][0] |= {"env": list(env), "args": list(args), **container}
    return found


def value(text: str, name: str = "X") -> Manifest:
    return {"name": name, "value": text}


def field(path: str) -> Manifest:
    return {"name": "X", "valueFrom": {"fieldRef": {"fieldPath": path}}}


def surroundings(**changes: Any) -> pods.Surroundings:
    given: dict[str, Any] = {
        "environment": {"PATH": "/usr/bin"},
        "paths": {"/data": Path("/somewhere/volumes/data"), "/data/sub": Path("/elsewhere")},
        "address": "127.1.2.3",
        "peer": lambda pod, service: "127.1.2.9" if (pod, service) == ("peer", "service") else None,
        "gpus": (),
        "node": "this-machine",
    }
    return pods.Surroundings(**{**given, **changes})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/data", "/somewhere/volumes/data"),
        ("/data/", "/somewhere/volumes/data"),
        ("/data/datasets/k", "/somewhere/volumes/data/datasets/k"),
        ("/data/sub/x", "/elsewhere/x"),
        ("/database", "/database"),
        ("data", "data"),
        ("peer.service", "127.1.2.9"),
        ("peer.service:9091", "127.1.2.9:9091"),
        ("peer.service:1,peer.service:2", "127.1.2.9:1,127.1.2.9:2"),
        ("peer.other", "peer.other"),
        (
            '{"worker": ["peer.service:1", "peer.other:2"]}',
            '{"worker": ["127.1.2.9:1", "peer.other:2"]}',
        ),
        ("/data/peer.service", "/somewhere/volumes/data/peer.service"),
        ("x-peer.service", "x-peer.service"),
        ("peer.service-2", "peer.service-2"),
        ("0.5", "0.5"),
        ("", ""),
    ],
)
def test_values_are_translated(text: str, expected: str) -> None:
    assert pods.environment(pod(value(text)), surroundings())["X"] == expected


def test_a_folder_of_this_machine_is_never_taken_for_one_of_the_container() -> None:
    """A working directory below /data: the path for /data/sub starts with that for /data."""
    paths = {
        "/scratch": Path("/data/somewhere/scratch"),
        "/data": Path("/data/somewhere/volumes/data"),
    }
    variables = pods.environment(
        pod(value("/scratch", "SCRATCH"), value("$(SCRATCH)", "HOME")), surroundings(paths=paths)
    )

    assert variables["HOME"] == "/data/somewhere/scratch"


def test_a_folder_of_this_machine_may_have_any_name() -> None:
    paths = {"/data": Path("/cost$$x/$(B)")}

    variables = pods.environment(
        pod(value("2", "B"), value("/data/$(B)", "X")), surroundings(paths=paths)
    )

    assert variables["X"] == "/cost$$x/$(B)/2"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("metadata.name", "digits-r0-worker-0"),
        ("metadata.namespace", "vision"),
        ("metadata.uid", "u"),
        ("metadata.labels['one']", "1"),
        ("metadata.annotations['two']", "2"),
        ("metadata.labels['none']", ""),
        ("status.podIP", "127.1.2.3"),
        ("spec.nodeName", "this-machine"),
    ],
)
def test_fields_are_read(path: str, expected: str) -> None:
    assert pods.environment(pod(field(path)), surroundings())["X"] == expected


def test_references_see_what_stands_before_them() -> None:
    variables = pods.environment(
        pod(value("$(B)", "A"), value("2", "B"), value("$(A)-$(B)", "C")), surroundings()
    )

    assert variables["C"] == "$(B)-2"


def test_gpus_are_visible_to_their_pod_alone() -> None:
    assert pods.environment(pod(), surroundings(gpus=("3", "5")))["CUDA_VISIBLE_DEVICES"] == "3,5"
    assert pods.environment(pod(), surroundings())["CUDA_VISIBLE_DEVICES"] == ""


def test_the_manifest_wins_over_what_is_inherited() -> None:
    variables = pods.environment(pod(value("mine", "PATH")), surroundings())

    assert variables["PATH"] == "mine"


def test_arguments_are_expanded() -> None:
    line = pods.command(pod(args=("--data", "$(DATA)/x", "$$(DATA)")), {"DATA": "/here"})

    assert line == ("imagenet-train", "--data", "/here/x", "$(DATA)")


def test_leftovers_of_a_shell_do_not_reach_pods() -> None:
    shell = {
        "PATH": "/bin",
        "OMP_NUM_THREADS": "2",
        "MXNET_CPU_WORKER_NTHREADS": "1",
        "DMLC_ROLE": "server",
        "IMAGENET_JOB": "x",
        "PORT": "80",
        "CUDA_VISIBLE_DEVICES": "1",
        "JOB_COMPLETION_INDEX": "4",
        "KUBERNETES_SERVICE_HOST": "10.0.0.1",
        "PS_VERBOSE": "2",
        "HOROVOD_RANK": "3",
        "HOROVOD_TIMELINE": "/tmp/x",
        "TF_CONFIG": "{}",
    }

    assert pods.inherited(shell).keys() == {"PATH", "OMP_NUM_THREADS", "MXNET_CPU_WORKER_NTHREADS"}


def changed(**spec: Any) -> Manifest:
    found = copy.deepcopy(POD)
    found["spec"] |= spec
    return found


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        (changed(initContainers=[{"name": "wait"}]), r"initContainers \(wait\)"),
        (
            changed(containers=[*POD["spec"]["containers"], {"name": "logger"}]),
            r"sidecars \(logger\)",
        ),
        (pod(image="mine:1"), "the image 'mine:1'"),
        (pod(command=[]), "entry point"),
        (changed(restartPolicy="OnFailure"), "restartPolicy"),
        (pod(envFrom=[{"secretRef": {"name": "s"}}]), "envFrom"),
        (pod(workingDir="/data"), "a workingDir"),
        (
            pod(volumeMounts=[{"name": "v", "mountPath": "/v", "subPathExpr": "$(POD_NAME)"}]),
            "a subPathExpr; write a subPath",
        ),
        (
            pod({"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}),
            "secretKeyRef for KEY",
        ),
        (pod(field("status.hostIPs")), r"the field status\.hostIPs"),
        (changed(volumes=[{"name": "v", "configMap": {"name": "c"}}]), "volume of kind configMap"),
        (
            changed(volumes=[{"name": "v", "secret": {"secretName": "s", "items": []}}]),
            "items of a secret; mount the whole secret",
        ),
    ],
)
def test_what_processes_cannot_stand_in_for_is_refused(refused: Manifest, message: str) -> None:
    with pytest.raises(Unsupported, match=f"worker-0: a local run cannot have .*{message}"):
        pods.check(refused, IMAGES)


def test_mounts_lead_to_folders(tmp_path: Path) -> None:
    mounted = changed(
        volumes=[
            {"name": "data", "persistentVolumeClaim": {"claimName": "claim"}},
            {"name": "scratch", "emptyDir": {}},
            {"name": "credentials", "secret": {"secretName": "login"}},
        ]
    )
    mounted["spec"]["containers"][0]["volumeMounts"] = [
        {"name": "data", "mountPath": "/data", "subPath": "part"},
        {"name": "scratch", "mountPath": "/scratch/"},
        {"name": "credentials", "mountPath": "/credentials"},
    ]
    (tmp_path / "claim").mkdir()

    volumes = Volumes(tmp_path, {}, {"login": Path("/login")})
    found = pods.mounts(mounted, volumes, Path("/own"))

    assert found == {
        "/data": tmp_path / "claim" / "part",
        "/scratch": Path("/own/scratch"),
        "/credentials": Path("/login"),
    }
    assert pods.secrets(mounted) == ["login"]
    assert pods.claims(mounted) == ["claim"]


@pytest.mark.parametrize(
    ("resources", "count"),
    [
        ({}, 0),
        ({"limits": {"nvidia.com/gpu": "2"}}, 2),
        ({"requests": {"nvidia.com/gpu": 1}}, 1),
        ({"limits": {"cpu": "1"}}, 0),
    ],
)
def test_gpus_are_counted(resources: Manifest, count: int) -> None:
    assert pods.gpus(pod(resources=resources)) == count


VARIABLES = {"VAR_A": "A", "VAR_B": "B", "VAR_REF": "$(VAR_A)", "VAR_EMPTY": ""}


# The table is that of Kubernetes' own expand_test.go, where it says the same of one mapping.
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(VAR_A)", "A"),
        ("___$(VAR_B)___", "___B___"),
        ("$(VAR_A)$(VAR_B)", "AB"),
        ("$(VAR_REF)", "$(VAR_A)"),
        ("$$(VAR_A)", "$(VAR_A)"),
        ("$$$(VAR_A)", "$A"),
        ("$$$$(VAR_A)", "$$(VAR_A)"),
        ("$$$$$(VAR_A)", "$$A"),
        ("f000-$(VAR_A)", "f000-A"),
        ("foo$(VAR_EMPTY)bar", "foobar"),
        ("$(UNKNOWN)", "$(UNKNOWN)"),
        ("$(VAR_A", "$(VAR_A"),
        ("$VAR_A", "$VAR_A"),
        ("$", "$"),
        ("$(", "$("),
        ("$$", "$"),
        ("$()", "$()"),
        ("$(VAR_A))", "A)"),
        ("$((VAR_A))", "$((VAR_A))"),
        ("$(VAR-A)", "$(VAR-A)"),
        ("{$(VAR_A)}", "{A}"),
        ("", ""),
    ],
)
def test_expands_as_kubernetes_does(text: str, expected: str) -> None:
    assert expand(text, VARIABLES) == expected


@given(st.text(st.characters(exclude_characters="$")))
def test_leaves_text_without_references_alone(text: str) -> None:
    assert expand(text, VARIABLES) == text


@given(st.text(alphabet="$()AB_ VR", max_size=30))
def test_doubled_dollars_protect_any_text(text: str) -> None:
    assert expand(text.replace("$", "$$"), VARIABLES) == text
