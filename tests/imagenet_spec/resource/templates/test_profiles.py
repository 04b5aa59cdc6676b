"""Template profiles: `standard` admits what `strict` refuses, with the field and the remedy."""

from __future__ import annotations

from typing import Any

import pytest

from imagenet_operator.manifests import preview
from imagenet_operator.manifests.settings import Settings
from imagenet_spec.errors import InvalidTemplate
from imagenet_spec.validate import parse, validate
from support import secret_fields
from support.sentences import assert_says
from support.worker_templates import WORKERS, Manifest, document, pod

LOGIN = {"name": "login"}
ACCOUNT = ("remove it", "namespace's default service account")


def main(**fields: Any) -> Manifest:
    return pod(containers=[{"name": "main", **fields}])


def volume(**fields: Any) -> Manifest:
    return pod(volumes=[{"name": "v", **fields}])


REFUSED = [
    (pod(serviceAccountName="trainer"), "serviceAccountName", ACCOUNT),
    (pod(serviceAccount="trainer"), "serviceAccount", ACCOUNT),
    (
        pod(imagePullSecrets=[{"name": "login"}]),
        "imagePullSecrets",
        ("write spec.training.imagePullSecrets",),
    ),
    (pod(nodeName="node-1"), "nodeName", ("write nodeSelector or affinity",)),
    (
        pod(priorityClassName="high"),
        "priorityClassName",
        ("remove it", "cluster's default priority"),
    ),
    (
        pod(runtimeClassName="kata"),
        "runtimeClassName",
        ("remove it", "cluster's default runtime"),
    ),
    (
        volume(secret={"secretName": "login"}),
        "volumes[0].secret",
        ("write configMap or a claim",),
    ),
    (volume(csi={"driver": "csi.example.com"}), "volumes[0].csi", ("write a claim",)),
    (
        volume(projected={"sources": [{"configMap": {}}, {"secret": {"name": "login"}}]}),
        "volumes[0].projected.sources[1].secret",
        ("write configMap",),
    ),
    (
        main(env=[{"name": "K", "valueFrom": {"secretKeyRef": {"name": "login", "key": "k"}}}]),
        "containers[0].env[0].valueFrom.secretKeyRef",
        ("write configMapKeyRef, or value",),
    ),
    (
        pod(initContainers=[{"name": "i", "image": "i", "envFrom": [{"secretRef": LOGIN}]}]),
        "initContainers[0].envFrom[0].secretRef",
        ("write configMapRef",),
    ),
]
TAKEN = [
    pod(nodeSelector={"pool": "gpu"}, tolerations=[{"key": "gpu", "operator": "Exists"}]),
    pod(serviceAccountName=None, imagePullSecrets=[], nodeName=""),
    volume(configMap={"name": "settings"}),
    volume(persistentVolumeClaim={"claimName": "more"}),
    volume(projected={"sources": [{"configMap": {"name": "settings"}}]}),
    main(env=[{"name": "K", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "k"}}}]),
    main(env=[{"name": "K", "value": "v"}], envFrom=[{"configMapRef": {"name": "a"}}]),
]


@pytest.mark.parametrize(
    ("template", "field", "remedies"), REFUSED, ids=[row[1] for row in REFUSED]
)
def test_strict_names_the_field_and_what_to_write(
    template: Manifest, field: str, remedies: tuple[str, ...]
) -> None:
    assert validate(document(template)) == []
    (problem,) = validate(document(template), profile="strict")
    assert problem.path == f"{WORKERS}.spec.{field}"
    assert_says(str(problem), f"{field}: ", "is refused", "template profile, strict", *remedies)
    assert problem.is_of_template


@pytest.mark.parametrize("template", TAKEN, ids=str)
def test_strict_takes_what_needs_no_further_right(template: Manifest) -> None:
    assert validate(document(template), profile="strict") == []


@pytest.mark.parametrize("path", secret_fields.templates())
def test_strict_refuses_every_field_that_can_name_a_secret(path: str) -> None:
    found = validate(document(secret_fields.templates()[path]), profile="strict")
    assert any(f"{WORKERS}.{path}".startswith(problem.path) for problem in found), found


def test_a_type_is_judged_before_the_profile() -> None:
    (problem,) = validate(document(pod(nodeName=["a"])), profile="strict")
    assert problem.message.startswith("must be text")


def test_the_builders_refuse_a_stored_job() -> None:
    job = parse(document(pod(nodeName="node-1")))
    job = job.model_copy(update={"metadata": job.metadata.model_copy(update={"uid": "u"})})
    assert preview.everything(job)
    with pytest.raises(InvalidTemplate, match=r"template\.spec\.nodeName: is refused by"):
        preview.everything(job, Settings(template_profile="strict"))
