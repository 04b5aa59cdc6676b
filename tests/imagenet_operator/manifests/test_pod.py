"""What every pod has, whatever runs in it: the subset of both clusters and the security floor."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from imagenet_operator.manifests import attempt, dataset
from imagenet_operator.manifests.settings import DEFAULTS, Settings
from imagenet_spec.errors import InvalidTemplate
from imagenet_spec.resource import ImageNetJob
from support.job_table import JOBS, TABLE, members, read
from support.pod_subset import outside_subset
from support.random_jobs import jobs

Manifest = dict[str, Any]


def pods(job: ImageNetJob, given_settings: Settings = DEFAULTS) -> list[Manifest]:
    """Return every kind of pod that a job makes."""
    built = members(job, 2, given_settings)
    if not job.spec.dataset.is_sealed:
        assert job.status.dataset is not None
        preparation = (
            dataset.index_job(job, given_settings),
            dataset.pack_job(job, job.status.dataset, given_settings),
            dataset.seal_job(job, job.status.dataset, given_settings),
        )
        built += [item["spec"]["template"] for item in preparation]
    return built


@pytest.mark.parametrize("name", JOBS)
def test_the_tables_pods_use_only_what_both_clusters_have(name: str) -> None:
    assert [outside_subset(pod) for pod in pods(JOBS[name])] == [[]] * len(pods(JOBS[name]))


@given(job=jobs())
def test_any_pod_uses_only_what_both_clusters_have(job: ImageNetJob) -> None:
    built = pods(job)
    assert [outside_subset(pod) for pod in built] == [[]] * len(built)


@given(job=jobs())
def test_no_pod_has_more_rights_than_it_needs(job: ImageNetJob) -> None:
    for pod in pods(job):
        spec, container = pod["spec"], pod["spec"]["containers"][0]
        assert spec["automountServiceAccountToken"] is False
        assert spec["enableServiceLinks"] is False
        assert spec["restartPolicy"] == "Never"
        assert spec["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "runAsGroup": 1000,
            "fsGroup": 1000,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "privileged": False,
            "readOnlyRootFilesystem": True,
        }
        assert not {"hostNetwork", "hostPID", "hostIPC", "serviceAccountName"} & spec.keys()


@given(job=jobs())
def test_every_pod_can_write_to_its_scratch(job: ImageNetJob) -> None:
    for pod in pods(job):
        container = pod["spec"]["containers"][0]
        env = {item["name"]: item.get("value") for item in container["env"]}
        assert env["HOME"] == env["TMPDIR"] == "$(IMAGENET_SCRATCH)"
        mount = next(m for m in container["volumeMounts"] if m["mountPath"] == "/scratch")
        assert env["IMAGENET_SCRATCH"] == mount["mountPath"] and "readOnly" not in mount
        volume = next(v for v in pod["spec"]["volumes"] if v["name"] == mount["name"])
        assert volume["emptyDir"] == {}


@given(job=jobs())
def test_every_pod_says_whose_it_is(job: ImageNetJob) -> None:
    for pod in pods(job):
        container = pod["spec"]["containers"][0]
        env = {item["name"]: item.get("value") for item in container["env"]}
        assert env["IMAGENET_JOB"] == job.metadata.name
        assert env["IMAGENET_NAMESPACE"] == job.metadata.namespace
        assert env["IMAGENET_JOB_UID"] == job.metadata.uid
        role = pod["metadata"]["labels"]["training.imagenet.dev/job-role"]
        assert env["IMAGENET_ROLE"] == role
        assert container["terminationMessagePath"] == env["IMAGENET_TERMINATION_LOG"]


def test_user_group_and_pull_policy_are_the_operators_to_set() -> None:
    given_settings = Settings(user=2001, group=3001, image_pull_policy="Never")
    for pod in pods(JOBS["gpus"], given_settings):
        context = pod["spec"]["securityContext"]
        assert (context["runAsUser"], context["runAsGroup"], context["fsGroup"]) == (
            *(2001, 3001),
            3001,
        )
        assert pod["spec"]["containers"][0]["imagePullPolicy"] == "Never"


@pytest.mark.parametrize(("value", "told"), [(None, None), (True, "true"), (False, "false")])
def test_the_autoscaler_is_told_what_the_operator_says(
    value: bool | None, told: str | None
) -> None:
    for pod in pods(JOBS["gpus"], Settings(safe_to_evict=value)):
        annotation = "cluster-autoscaler.kubernetes.io/safe-to-evict"
        assert pod["metadata"]["annotations"].get(annotation) == told


def test_every_pod_tells_where_its_metrics_are() -> None:
    for pod in pods(JOBS["gpus"], Settings(metrics_port=9999)):
        annotations = pod["metadata"]["annotations"]
        assert annotations["prometheus.io/scrape"] == "true"
        assert annotations["prometheus.io/port"] == "9999"
        assert annotations["prometheus.io/path"] == "/metrics"


def test_pods_have_no_annotation_for_prometheus_beside_a_pod_monitor() -> None:
    for pod in pods(JOBS["gpus"], Settings(scrape_annotations=False)):
        assert not [name for name in pod["metadata"]["annotations"] if "prometheus" in name]


def test_scratch_has_a_size_where_the_operator_sets_one() -> None:
    for pod in pods(JOBS["gpus"], Settings(scratch_size="20Gi")):
        assert {"name": "scratch", "emptyDir": {"sizeLimit": "20Gi"}} in pod["spec"]["volumes"]


@pytest.mark.parametrize(
    ("resources", "size"),
    [
        ({}, "1Gi"),
        ({"limits": {"cpu": "4"}}, "1Gi"),
        ({"limits": {"memory": "64Gi"}}, "1Gi"),
        ({"limits": {"memory": "2Gi"}}, "1Gi"),
        ({"limits": {"memory": "1Gi"}}, str(2**29)),
        ({"limits": {"memory": "3"}}, "1"),
        ({"limits": {"memory": "64Gi"}, "requests": {"memory": "1Gi"}}, "1Gi"),
        ({"requests": {"memory": "1Gi"}}, str(2**29)),
        ({"limits": {"memory": 0}}, "1Gi"),
    ],
)
def test_shared_memory_lies_within_the_programs_memory(resources: Manifest, size: str) -> None:
    template = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
    worker = worker_with(template, "defaults")
    (volume,) = [item for item in worker["spec"]["volumes"] if item["name"] == "shared-memory"]
    assert volume["emptyDir"] == {"medium": "Memory", "sizeLimit": size}
    container = worker["spec"]["containers"][0]
    assert container.get("resources", {}).get("limits") == resources.get("limits")


@pytest.mark.parametrize("kind", ["limits", "requests"])
def test_gpus_are_counted_by_the_operator_whatever_they_are_called(kind: str) -> None:
    resources = {kind: {"example.com/gpu": "3"}}
    document = copy.deepcopy(TABLE["gpus"])
    containers = [{"name": "main", "resources": resources}]
    document["spec"]["training"]["workers"]["template"] = {"spec": {"containers": containers}}
    with pytest.raises(InvalidTemplate) as caught:
        attempt.build(read(document), 0, Settings(gpu_resource="example.com/gpu"))
    place = f"containers[main].resources.{kind}[example.com/gpu]"
    assert caught.value.path == f"spec.training.workers.template.spec.{place}"


def test_pull_secrets_reach_every_pod() -> None:
    for pod in pods(JOBS["gpus"]):
        assert pod["spec"]["imagePullSecrets"] == [{"name": "registry"}]


RULE = "requiredDuringSchedulingIgnoredDuringExecution"


def worker_with(template: Manifest, name: str) -> Manifest:
    """Return the last worker of a job of the table whose workers have a template."""
    document = copy.deepcopy(TABLE[name])
    document["spec"]["training"]["workers"]["template"] = template
    return attempt.build(read(document), 0)[-1]


def test_a_pod_keeps_to_its_node_whatever_affinity_its_template_brings() -> None:
    own = {"topologyKey": "rack", "labelSelector": {"matchLabels": {"a": "b"}}}
    worker = worker_with({"spec": {"affinity": {"podAffinity": {RULE: [own]}}}}, "one node")
    terms = worker["spec"]["affinity"]["podAffinity"][RULE]
    assert [term["topologyKey"] for term in terms] == ["rack", "kubernetes.io/hostname"]


@pytest.mark.parametrize(
    "resources",
    [None, {"limits": None}, {"$patch": "delete"}, {"limits": {"$patch": "replace", "cpu": "8"}}],
)
def test_a_worker_keeps_its_gpus_whatever_resources_its_template_brings(
    resources: Manifest | None,
) -> None:
    template = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
    container = worker_with(template, "gpus")["spec"]["containers"][0]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "8"


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"affinity": "near"}, "affinity"),
        ({"affinity": {"podAffinity": ["near"]}}, "affinity.podAffinity"),
        ({"affinity": {"podAffinity": {RULE: {}}}}, f"affinity.podAffinity.{RULE}"),
    ],
)
def test_a_template_that_leaves_no_room_for_the_operators_part_is_refused(
    spec: Manifest, path: str
) -> None:
    with pytest.raises(InvalidTemplate) as caught:
        worker_with({"spec": spec}, "one node")
    assert caught.value.path == f"spec.training.workers.template.spec.{path}"


def mounting(volume: str, mine: str) -> Manifest:
    """A template with a volume, and a mount in each kind of container."""
    mount = {"name": volume, "mountPath": "/mnt"}
    containers = [{"name": "main"}, {"name": "proxy", "image": "p:1", "volumeMounts": [mount]}]
    first = [{"name": "fetch", "image": "f:1", "volumeMounts": [{**mount, "name": mine}]}]
    volumes = [{"name": "models", "emptyDir": {}}]
    return {"spec": {"containers": containers, "initContainers": first, "volumes": volumes}}


@pytest.mark.parametrize("volume", ["models", "scratch", "data"])
def test_a_template_may_mount_its_volumes_and_those_of_the_pod(volume: str) -> None:
    assert len(worker_with(mounting(volume, volume), "defaults")["spec"]["containers"]) == 2


@pytest.mark.parametrize(
    ("template", "place"),
    [
        (mounting("model", "models"), "containers[proxy]"),
        # Of the pods that prepare, and not of those that train.
        (mounting("models", "source"), "initContainers[fetch]"),
    ],
)
def test_a_mount_of_no_volume_of_the_pod_is_refused(template: Manifest, place: str) -> None:
    with pytest.raises(InvalidTemplate, match="there is no volume") as caught:
        worker_with(template, "defaults")
    path = f"spec.training.workers.template.spec.{place}.volumeMounts[/mnt].name"
    assert caught.value.path == path


SCALARS = st.none() | st.booleans() | st.integers(-1, 2) | st.sampled_from(["a", "ALL", "main"])
DIRECTIVES = st.sampled_from(["delete", "replace", "merge"])
FIELDS = st.sampled_from(
    [
        *("add", "affinity", "args", "capabilities", "command", "containers", "cpu", "drop", "env"),
        *("image", "initContainers", "labels", "limits", "metadata", "mountPath", "name", "ports"),
        *("podAffinity", "privileged", "resources", "restartPolicy", "runAsNonRoot", "runAsUser"),
        *("securityContext", "spec", "subdomain", "valueFrom", "value", "volumes", "volumeMounts"),
        *("$patch", "$retainKeys", "$setElementOrder/env", "$setElementOrder/containers"),
        *("$deleteFromPrimitiveList/args", "$deleteFromPrimitiveList/drop"),
    ]
)
CONTENTS = st.recursive(
    SCALARS | DIRECTIVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4),
    max_leaves=12,
)
THEIRS = {"HOME", "TMPDIR", "OWN"}
"""Variables that a template may set, change or delete."""

CONTAINERS = st.fixed_dictionaries(
    {"name": st.sampled_from(["main", "main", "other"])},
    optional={
        "env": st.lists(
            st.fixed_dictionaries(
                {"name": st.sampled_from(["HOME", "POD_IP", "DMLC_ROLE", "OWN"])},
                optional={"value": st.just("x"), "$patch": DIRECTIVES},
            ),
            max_size=3,
        ),
        "securityContext": st.dictionaries(FIELDS, CONTENTS, max_size=3),
        "resources": st.dictionaries(FIELDS, CONTENTS, max_size=2),
        "$deleteFromPrimitiveList/args": st.just(["--lr"]),
        "args": CONTENTS,
        "volumeMounts": CONTENTS,
        "$patch": DIRECTIVES,
        "$setElementOrder/env": st.just([{"name": "DMLC_NODE_HOST"}, {"name": "POD_IP"}]),
    },
)
TEMPLATES = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.dictionaries(FIELDS, CONTENTS, max_size=2),
        "spec": CONTENTS
        | st.fixed_dictionaries(
            {"containers": st.lists(CONTAINERS, max_size=3)},
            optional={"securityContext": CONTENTS, "affinity": CONTENTS, "volumes": CONTENTS},
        ),
    },
)


@pytest.mark.costly
@given(template=TEMPLATES)
@settings(max_examples=400)
def test_no_template_takes_away_what_is_the_operators(template: Manifest) -> None:
    built = attempt.build(JOBS["one node"], 0)[-1]
    try:
        worker = worker_with(template, "one node")
    except InvalidTemplate as error:
        assert error.path.startswith("spec.training.workers.template")
        return
    spec, program = worker["spec"], worker["spec"]["containers"][0]
    own = built["spec"]["containers"][0]
    for name in ("name", "command", "args", "terminationMessagePath"):
        assert program[name] == own[name]
    assert [item for item in program["env"] if item["name"] not in THEIRS] == [
        item for item in own["env"] if item["name"] not in THEIRS
    ]
    assert all(mount in program["volumeMounts"] for mount in own["volumeMounts"])
    for volume in built["spec"]["volumes"]:
        # The size of volumes in memory follows the memory of the template.
        (kept,) = [item for item in spec["volumes"] if item["name"] == volume["name"]]
        assert kept == volume or volume["name"] == "shared-memory"
    assert worker["metadata"]["labels"].items() >= built["metadata"]["labels"].items()
    assert worker["metadata"]["name"] == built["metadata"]["name"]
    for name in ("restartPolicy", "hostname", "subdomain"):
        assert spec[name] == built["spec"][name]
    assert program["securityContext"]["allowPrivilegeEscalation"] is False
    assert program["securityContext"]["privileged"] is False
    assert "ALL" in program["securityContext"]["capabilities"]["drop"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert (
        built["spec"]["affinity"]["podAffinity"][RULE][-1]
        in (spec["affinity"]["podAffinity"][RULE])
    )


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("command", ["sh", "-c"]), "is no console script"),
        (("args", ["$(UNKNOWN)/x"]), "refers to UNKNOWN, which is not set"),
        (("args", ["/data/x"]), "is an absolute path"),
        (("env", [{"name": "A", "value": "$(B)"}, {"name": "B", "value": "1"}]), "not set before"),
        (("env", [{"name": "A", "value": "/data"}]), "is an absolute path"),
        (("env", [{"name": "IMAGENET_DATA", "value": "/nowhere"}]), "where nothing is mounted"),
        (("env", [{"name": "A", "valueFrom": {"secretKeyRef": {}}}]), "neither a literal"),
        (("lifecycle", {}), "field lifecycle"),
        (("volumeMounts", []), "is there but not mounted"),
    ],
)
def test_the_check_itself_sees_what_is_outside(change: tuple[str, Any], complaint: str) -> None:
    pod = attempt.build(JOBS["defaults"], 0)[-1]
    field, value = change
    pod["spec"]["containers"][0][field] = value
    assert any(complaint in text for text in outside_subset(pod))
