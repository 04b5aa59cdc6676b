"""The API server's strict dry run takes all that this project writes, and judges as it does.

What it takes: every manifest of the chart, every example, every object that a job of an example is
made of. What it judges: the corpus of manifests, in which each file says what is wrong with it.
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from imagenet_spec.load import load
from kind.api_server import Answer, ApiServer
from kind.cluster import Cluster
from kind.conftest import fresh_namespace
from kind.kubectl import Kubectl
from support import chart
from support.corpus import Case, cases

Manifest = dict[str, Any]

EXAMPLES = sorted((chart.REPOSITORY / "examples").glob("*.yaml"))
CLAIMS = sorted((chart.REPOSITORY / "examples" / "claims").glob("*.yaml"))
# A controller that does not exist: the operator ignores such jobs.
OTHER_CONTROLLER = "example.com/other"
# Of the snapshot controller, which the cluster of the tests does not have.
LACKING = "snapshot.storage.k8s.io/v1"
# Given by the API server, which takes no new object that has them already.
GIVEN = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "uid")


@pytest.fixture(scope="session")
def api_server(cluster: Cluster) -> ApiServer:
    """The API server, as it answers itself."""
    return ApiServer(cluster.kubeconfig)


@pytest.fixture(scope="session")
def place(cluster: Cluster) -> Iterator[str]:
    """A namespace for objects that are stored for a moment, or never."""
    # Another process may do the same for others of these tests.
    name = f"dry-run-{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}"
    with fresh_namespace(cluster, name):
        yield name


def dry_run(kubectl: Kubectl, manifests: list[Manifest]) -> None:
    """Have the API server judge manifests as if they were applied, over whatever is there."""
    kubectl(
        *("apply", "--server-side", "--force-conflicts", "--field-manager=dry-run"),
        *("--dry-run=server", "--validate=strict", "--filename=-"),
        given=json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}),
    )


@pytest.mark.parametrize("variant", chart.VARIANTS)
def test_every_manifest_of_the_chart_is_taken(cluster: Cluster, place: str, variant: str) -> None:
    values = copy.deepcopy(chart.VARIANTS[variant])
    if "watchNamespaces" in values:
        values["watchNamespaces"] = [place]
    ours = chart.render(values)
    for item in ours:
        if item["kind"] == "Pod":
            # A dry run makes no service account, without which there is no pod.
            del item["spec"]["serviceAccountName"]
    # kubectl takes objects of one namespace at a time, and those that have none with any.
    for namespace in {item["metadata"].get("namespace", place) for item in ours}:
        there = [item for item in ours if item["metadata"].get("namespace", place) == namespace]
        dry_run(cluster.kubectl.within(namespace), there)


@pytest.mark.parametrize("path", [*EXAMPLES, *CLAIMS], ids=lambda path: path.stem)
def test_every_example_is_taken(cluster: Cluster, place: str, path: Path) -> None:
    items = [item for item in yaml.safe_load_all(path.read_text()) if item["apiVersion"] != LACKING]
    dry_run(cluster.kubectl.within(place), items)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_object_of_an_example_is_taken(cluster: Cluster, place: str, path: Path) -> None:
    program = Path(sys.executable).with_name("imagenetctl")
    command = [str(program), "render", str(path), "--key", "0123456789abcdef"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True)
    children = list(yaml.safe_load_all(printed.stdout))
    for child in children:
        child["metadata"]["namespace"] = place
    # A dataset that was prepared before needs no Job.
    (job,) = yaml.safe_load_all(path.read_text())
    jobs = set() if "prepared" in job["spec"]["dataset"]["source"] else {"Job"}
    assert {"Pod", "Service", *jobs} <= {child["kind"] for child in children}
    dry_run(cluster.kubectl.within(place), children)


def _create(server: ApiServer, place: str, document: Manifest | str, **how: bool) -> Answer:
    return server.send("POST", _jobs(place), document, **how)


def _jobs(place: str) -> str:
    return f"/apis/imagenet.dev/v1alpha1/namespaces/{place}/imagenetjobs"


def _new(document: Manifest, place: str) -> Manifest:
    """Return a document without what an earlier API server gave it."""
    metadata = {name: value for name, value in document["metadata"].items() if name not in GIVEN}
    return {**document, "metadata": {**metadata, "namespace": place}}


@pytest.mark.parametrize(
    "case",
    [case for case in cases("good", "bad") if not case.paths("document")],
    ids=str,
)
def test_the_api_server_refuses_the_same_fields(
    api_server: ApiServer, place: str, case: Case
) -> None:
    answers = [_create(api_server, place, _new(job, place)) for job in load(case.path)]
    assert {field for answer in answers for field in answer.fields} == case.paths("schema")
    assert any(answer.is_refusal for answer in answers) == bool(case.paths("schema"))


@pytest.mark.parametrize("case", [case for case in cases("bad") if case.paths("document")], ids=str)
def test_the_api_server_takes_no_document_that_is_none(
    api_server: ApiServer, place: str, case: Case
) -> None:
    assert _create(api_server, place, case.path.read_text()).is_refusal


@pytest.mark.parametrize("case", cases("updates"), ids=str)
def test_the_api_server_refuses_the_same_changes(
    api_server: ApiServer, cluster: Cluster, place: str, case: Case
) -> None:
    before, after = (_unmanaged(_new(document, place)) for document in load(case.path))
    path = f"{_jobs(place)}/{before['metadata']['name']}"
    try:
        stored = _create(api_server, place, before, dry_run=False).body
        reported = {**stored, "status": before.get("status", {})}
        stored = api_server.send("PUT", f"{path}/status", reported, dry_run=False).body
        changed = {**after, "metadata": stored["metadata"]}
        answer = api_server.send("PUT", path, changed)
        assert answer.fields == case.paths("schema")
        assert answer.is_refusal == bool(case.paths("schema"))
    finally:
        cluster.kubectl.within(place).delete_all("imagenetjobs")


def _unmanaged(document: Manifest) -> Manifest:
    """Return a job that the operator leaves alone."""
    changed = copy.deepcopy(document)
    changed["spec"].setdefault("runPolicy", {}).setdefault("managedBy", OTHER_CONTROLLER)
    return changed
