"""What a pod template may say, and what is the operator's, field by field."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imagenet_spec.resource.templates.owned_fields import owned_field_conflicts

PATH = "spec.training.workers.template"


def main(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "main", **fields}]}}


def security(**fields: Any) -> dict[str, Any]:
    return main(securityContext=fields)


ALLOWED = {
    "nothing": {},
    "empty": {"metadata": {}, "spec": {}},
    "labels and annotations": {
        "metadata": {"labels": {"team": "vision"}, "annotations": {"example.com/a": "b"}}
    },
    "a topology of Kueue": {
        "metadata": {"annotations": {"kueue.x-k8s.io/podset-required-topology": "rack"}}
    },
    "placement": {
        "spec": {
            "nodeSelector": {"pool": "gpu"},
            "tolerations": [{"operator": "Exists"}],
            "affinity": {"nodeAffinity": {}},
            "priorityClassName": "high",
            "schedulerName": "other",
        }
    },
    "resources": main(resources={"requests": {"cpu": "4"}, "limits": {"memory": "8Gi"}}),
    "own environment": main(
        env=[{"name": "PS_VERBOSE", "value": "2"}, {"name": "OMP_NUM_THREADS"}]
    ),
    "tuning": main(env=[{"name": "HOROVOD_FUSION_THRESHOLD", "value": "0"}]),
    "own volume": {
        "spec": {
            "volumes": [{"name": "cache", "emptyDir": {}}],
            "containers": [
                {"name": "main", "volumeMounts": [{"name": "cache", "mountPath": "/cache"}]}
            ],
        }
    },
    "sidecar": {
        "spec": {
            "containers": [
                {"name": "proxy", "image": "proxy:1", "env": [{"name": "PORT", "value": "80"}]}
            ]
        }
    },
    "image": main(image="registry.example.com/own:1"),
    "another user": {"spec": {"securityContext": {"runAsUser": 2000, "fsGroup": 2000}}},
    "what holds anyway": security(
        privileged=False,
        allowPrivilegeEscalation=False,
        runAsNonRoot=True,
        capabilities={"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
        seccompProfile={"type": "RuntimeDefault"},
    ),
    "own variable removed": main(env=[{"name": "PS_VERBOSE", "$patch": "delete"}]),
    "a sidecar removed": {"spec": {"containers": [{"name": "proxy", "$patch": "delete"}]}},
}

CONFLICTS = {
    "spec.restartPolicy": {"spec": {"restartPolicy": "OnFailure"}},
    "spec.subdomain": {"spec": {"subdomain": "x"}},
    "spec.schedulingGates": {"spec": {"schedulingGates": []}},
    "spec.hostPID": {"spec": {"hostPID": True}},
    "spec.hostIPC": {"spec": {"hostIPC": True}},
    "spec": {"spec": None},
    "spec.containers": {"spec": {"containers": None}},
    "spec.volumes": {"spec": {"volumes": None}},
    "spec.$retainKeys": {"spec": {"$retainKeys": ["containers"]}},
    "$patch": {"$patch": "replace"},
    "nodeSelector": {"nodeSelector": {"pool": "gpu"}},
    "spec.containers[0].image": {"spec": {"containers": [{"name": "trainer"}]}},
    "metadata": {"metadata": None},
    "metadata.namespace": {"metadata": {"namespace": "kube-system"}},
    "metadata.ownerReferences": {"metadata": {"ownerReferences": []}},
    "metadata.finalizers": {"metadata": {"finalizers": ["example.com/never"]}},
    "metadata.labels": {"metadata": {"labels": None}},
    "metadata.labels[kueue.x-k8s.io/queue-name]": {
        "metadata": {"labels": {"kueue.x-k8s.io/queue-name": "lq"}}
    },
    "metadata.labels[kueue.x-k8s.io/pod-group-name]": {
        "metadata": {"labels": {"kueue.x-k8s.io/pod-group-name": "digits"}}
    },
    "metadata.annotations[kueue.x-k8s.io/pod-group-total-count]": {
        "metadata": {"annotations": {"kueue.x-k8s.io/pod-group-total-count": "2"}}
    },
    "metadata.labels.$patch": {"metadata": {"labels": {"$patch": "replace"}}},
    "metadata.labels[app.kubernetes.io/managed-by]": {
        "metadata": {"labels": {"app.kubernetes.io/managed-by": "me"}}
    },
    "metadata.labels[batch.kubernetes.io/job-name]": {
        "metadata": {"labels": {"batch.kubernetes.io/job-name": "x"}}
    },
    "spec.containers[0].command": main(command=None),
    "spec.containers[0].terminationMessagePath": main(terminationMessagePath="/tmp/x"),
    "spec.containers[0].env": main(env=None),
    "spec.containers[0].env[1]": main(env=[{"name": "A"}, {"name": "POD_IP", "value": "10.0.0.1"}]),
    "spec.containers[0].env[0]": main(env=[{"name": "PORT", "value": "1"}]),
    "spec.containers[0].env[0].$patch": main(env=[{"$patch": "replace"}]),
    "spec.containers[0].ports[0].name": main(ports=[{"name": "metrics", "containerPort": 8000}]),
    "spec.containers[0].volumeMounts[0].mountPath": main(
        volumeMounts=[{"name": "scratch", "mountPath": "/dev/shm"}]
    ),
    "spec.containers[0].resources.requests[nvidia.com/gpu]": main(
        resources={"requests": {"nvidia.com/gpu": "2"}}
    ),
    "spec.containers[0].ports[0].hostPort": main(ports=[{"containerPort": 1, "hostPort": 1}]),
    "spec.containers[0].securityContext": main(securityContext=None),
    "spec.containers[0].securityContext.$patch": security(**{"$patch": "replace"}),
    "spec.containers[0].securityContext.runAsNonRoot": security(runAsNonRoot=None),
    "spec.containers[0].securityContext.runAsUser": security(runAsUser=0),
    "spec.containers[0].securityContext.procMount": security(procMount="Unmasked"),
    "spec.containers[0].securityContext.seccompProfile": security(
        seccompProfile={"type": "Unconfined"}
    ),
    "spec.containers[0].securityContext.capabilities": security(capabilities=None),
    "spec.containers[0].securityContext.capabilities.drop": security(capabilities={"drop": []}),
    "spec.containers[0].securityContext.capabilities.add": security(
        capabilities={"drop": ["ALL"], "add": [{}]}
    ),
    "spec.initContainers[0].securityContext.privileged": {
        "spec": {
            "initContainers": [
                {"name": "tune", "image": "tune:1", "securityContext": {"privileged": True}}
            ]
        }
    },
    "spec.volumes[0].hostPath": {"spec": {"volumes": [{"name": "x", "hostPath": {"path": "/"}}]}},
    "spec.volumes[0]": {"spec": {"volumes": [{"name": "scratch", "emptyDir": {}}]}},
    "spec.securityContext.seccompProfile": {"spec": {"securityContext": {"seccompProfile": None}}},
    "metadata.$deleteFromPrimitiveList/finalizers": {
        "metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/never"]}
    },
    "spec.containers[0].$deleteFromPrimitiveList/args": main(
        **{"$deleteFromPrimitiveList/args": ["--lr"]}
    ),
    "spec.containers[0].securityContext.capabilities.$deleteFromPrimitiveList/drop": security(
        capabilities={"$deleteFromPrimitiveList/drop": ["ALL"]}
    ),
}


@pytest.mark.parametrize("template", ALLOWED.values(), ids=ALLOWED)
def test_what_is_the_users_is_allowed(template: dict[str, Any]) -> None:
    assert owned_field_conflicts(template, PATH) == []


@pytest.mark.parametrize(("place", "template"), CONFLICTS.items(), ids=CONFLICTS)
def test_what_is_the_operators_is_refused_where_it_stands(
    place: str, template: dict[str, Any]
) -> None:
    (problem,) = owned_field_conflicts(template, PATH)
    assert problem.path == f"{PATH}.{place}"
    assert problem.stage == "operator"
    assert problem.hint


@pytest.mark.parametrize(
    "name",
    [
        "DMLC_ROLE",
        "HOROVOD_CROSS_RANK",
        "HOROVOD_GLOO_RENDEZVOUS_PORT",
        "HOROVOD_HOSTNAME",
        "HOROVOD_LOCAL_SIZE",
        "HOROVOD_SIZE",
        "IMAGENET_JOB",
        "JOB_COMPLETION_INDEX",
        "POD_NAME",
        "TF_CONFIG",
    ],
)
def test_what_tells_a_program_its_place_cannot_be_overridden(name: str) -> None:
    (problem,) = owned_field_conflicts(main(env=[{"name": name}]), PATH)
    assert problem.message.endswith(f"{name} is set by the operator")


def test_every_conflict_of_a_template_is_found() -> None:
    template = {
        "metadata": {"name": "x"},
        "spec": {"hostNetwork": True, "containers": [{"name": "main", "args": []}]},
    }
    found = [problem.path for problem in owned_field_conflicts(template, "t")]
    assert found == ["t.metadata.name", "t.spec.hostNetwork", "t.spec.containers[0].args"]


NAMES = (
    "metadata spec containers labels env volumes name securityContext capabilities drop add ports"
    " resources limits volumeMounts mountPath $patch hostPort seccompProfile"
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(NAMES.split(" ")), inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["metadata", "spec", "other"]), JSON))
def test_no_template_is_too_odd_to_be_judged(template: dict[str, Any]) -> None:
    for problem in owned_field_conflicts(template, PATH):
        assert problem.path.startswith(PATH)


@settings(deadline=None)
@given(JSON, JSON)
def test_odd_contents_of_the_program_are_judged_too(env: object, security_context: object) -> None:
    template = main(env=env, securityContext=security_context, ports=env, volumeMounts=env)
    for problem in owned_field_conflicts(template, PATH):
        assert problem.path.startswith(PATH)
