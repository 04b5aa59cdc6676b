"""The pods of benchmarks/scaling on kind: those of a job, and plain ones."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from benchmarks.scaling import jobs, on_kind, pods

from imagenet_operator.clusters.local.pods import expand
from imagenet_operator.manifests import preview
from imagenet_spec.validate import parse, validate
from imagenet_workloads.commands import train
from kind.stories.jobs import CLAIM as CLAIM_OF_PLACE
from kind.stories.namespace import StoryNamespace

Manifest = dict[str, Any]

EPOCHS = 4


@pytest.fixture
def worker() -> Manifest:
    """The worker's pod of the job on kind, as the API server has it."""
    return as_stored(pods.job("bench-job-1", EPOCHS, threads=2))


def as_stored(manifest: Manifest) -> Manifest:
    named = manifest["metadata"] | {"namespace": "bench", "uid": "0123-4567"}
    manifest = manifest | {"metadata": named}
    (built,) = [item for item in preview.everything(parse(manifest)) if item["kind"] == "Pod"]
    built["metadata"] |= {"uid": "89ab-cdef", "resourceVersion": "7"}
    built["spec"] |= {"nodeName": "worker2", "schedulerName": "default-scheduler", "priority": 0}
    return {**built, "status": {"phase": "Succeeded"}}


def container_of(pod: Manifest) -> Manifest:
    (container,) = pod["spec"]["containers"]
    return dict(container)


def variables_of(pod: Manifest) -> dict[str, Manifest]:
    return {item["name"]: item for item in container_of(pod)["env"]}


def arguments_of(pod: Manifest, but: str = "") -> list[str]:
    """A container's arguments as the kubelet hands them over, perhaps without an option."""
    variables: dict[str, str] = {}
    for item in container_of(pod)["env"]:
        variables[item["name"]] = expand(item.get("value", "10.0.0.1"), variables)
    found = [expand(text, variables) for text in container_of(pod)["args"]]
    at = found.index(but) if but else len(found)
    return [*found[:at], *found[at + 2 :]]


def test_the_job_on_kind_is_a_good_one_with_as_many_threads() -> None:
    manifest = pods.job("bench-job-1", EPOCHS, threads=2)
    assert validate(manifest) == []
    assert manifest["spec"]["dataset"]["volume"] == {"claimName": CLAIM_OF_PLACE}
    # What is measured on this machine is not changed by it.
    assert "template" not in jobs.point("single", 1, 1, "x").manifest["spec"]["training"]["workers"]


def test_the_plain_pod_does_what_the_worker_did(worker: Manifest) -> None:
    before = copy.deepcopy(worker)
    made = pods.bare_pod(worker, "bench-bare-2")
    assert worker == before

    copied, original = container_of(made), container_of(worker)
    for field in ("image", "command", "args", "resources", "volumeMounts", "securityContext"):
        assert copied[field] == original[field], field
    assert copied["resources"]["requests"]["cpu"] == "1"
    variables, of_worker = variables_of(made), variables_of(worker)
    assert variables.keys() == of_worker.keys()
    changed = {name for name, item in variables.items() if item != of_worker[name]}
    assert changed == {"IMAGENET_RESULTS"}
    assert variables["OMP_NUM_THREADS"]["value"] == "2"
    own = {"containers", "hostname", "subdomain"}
    for field in worker["spec"].keys() - own:
        assert made["spec"][field] == worker["spec"][field], field
    assert made["spec"]["nodeName"] == "worker2"
    assert arguments_of(made, but="--output") == arguments_of(worker, but="--output")


def test_the_plain_pod_is_none_of_the_operators(worker: Manifest) -> None:
    made = pods.bare_pod(worker, "bench-bare-2")
    assert made.keys() == {"apiVersion", "kind", "metadata", "spec"}
    assert made["metadata"] == {"name": "bench-bare-2"}
    assert "readinessProbe" in container_of(worker)
    assert "readinessProbe" not in container_of(made)


def test_the_plain_pod_writes_to_a_folder_of_its_own(worker: Manifest) -> None:
    made = pods.bare_pod(worker, "bench-bare-2")
    outputs = [train.parse(arguments_of(pod)).output.output for pod in (made, worker)]
    assert outputs[0] == Path("/data") / pods.folder("bench-bare-2")
    assert outputs[1] != outputs[0]


class FakeKubectl:
    """A cluster in which whatever is applied has ended well, or badly.

    Attributes:
        applied: manifests, in order.
        phase: of plain pods.
    """

    def __init__(self, data: Path) -> None:
        self.applied: list[Manifest] = []
        self.phase = "Succeeded"
        self._data = data

    def __call__(self, *arguments: str) -> str:
        return f"kubectl {' '.join(arguments)}"

    def apply(self, *manifests: Manifest) -> None:
        for manifest in manifests:
            self.applied.append(manifest)
            name = manifest["metadata"]["name"]
            folder = f"jobs/{name}-0123" if manifest["kind"] != "Pod" else pods.folder(name)
            speed = {"train": {"imagesPerSecond": 100.0 * len(self.applied)}}
            result = self._data / folder / "attempts" / "r0" / "result.json"
            result.parent.mkdir(parents=True)
            result.write_text(json.dumps(speed))

    def get(self, resource: str, name: str) -> Manifest:
        (found,) = (item for item in self.applied if item["metadata"]["name"] == name[:11])
        assert (resource, name[11:]) == ("pods", "-r0-worker-0")
        return as_stored(found)

    def wait_until(
        self, resource: str, satisfied: Callable[[dict[str, Manifest]], bool], seconds: float
    ) -> dict[str, Manifest]:
        found = {
            item["metadata"]["name"]: item | {"status": {"phase": self.phase}}
            for item in self.applied
            if item["kind"] == "Pod"
        }
        assert resource == "pods" and satisfied(found)
        return found


class FakeStory(StoryNamespace):
    """A namespace of a fake cluster."""

    def wait_for_condition(
        self, kind: str, name: str = "story", seconds: float = 0, reason: str | None = None
    ) -> Manifest:
        assert kind == "Succeeded"
        return {"training": {"attempt": 0}}


@pytest.fixture
def story(tmp_path: Path) -> FakeStory:
    kubectl: Any = FakeKubectl(tmp_path / CLAIM_OF_PLACE)
    return FakeStory(kubectl, tmp_path)


def test_jobs_and_pods_train_on_one_dataset_at_the_same_time(story: FakeStory) -> None:
    bench = on_kind.Bench(story, EPOCHS)
    assert bench.job() == 100.0
    assert [bench.at_once(), bench.at_once()] == [(200.0, 300.0), (400.0, 500.0)]
    applied: list[Manifest] = story.kubectl.applied  # type: ignore[attr-defined]
    assert len({item["metadata"]["name"] for item in applied}) == 5
    made = [item for item in applied if item["kind"] == "ImageNetJob"]
    assert all(item["spec"] == made[0]["spec"] for item in made)
    for pod in (item for item in applied if item["kind"] == "Pod"):
        assert variables_of(pod)["IMAGENET_JOB"]["value"] == "bench-job-1"
        assert variables_of(pod)["OMP_NUM_THREADS"]["value"] == "1"


def test_a_pod_that_fails_ends_the_run_with_its_log(story: FakeStory) -> None:
    bench = on_kind.Bench(story, EPOCHS)
    bench.job()
    story.kubectl.phase = "Failed"  # type: ignore[attr-defined]
    with pytest.raises(SystemExit, match="kubectl logs bench-bare-2"):
        bench.at_once()
