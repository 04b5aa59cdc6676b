import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from imagenet_operator.configuration import Configuration, InvalidConfiguration, parse, read
from imagenet_operator.manifests import rendezvous
from imagenet_operator.reconcile.types import DEFAULTS
from imagenet_spec.frameworks import FRAMEWORKS
from imagenet_spec.frameworks.descriptor import Images
from support.sentences import assert_says

WHOLE: dict[str, Any] = {
    "namespaces": ["vision"],
    "preparationImage": "here/preparation:1",
    "images": {
        "mxnet": {"cpu": "here/cpu:1", "gpu": "here/gpu:1"},
        "tensorflow": {"cpu": "here/tf:1", "gpu": "here/tf-gpu:1"},
    },
    "imagePullPolicy": "Always",
    "gpuResource": "amd.com/gpu",
    "user": 2000,
    "group": 3000,
    "metricsPort": 9999,
    "networkPolicy": {"enabled": False, "metricsFrom": [{"namespaceSelector": {}}]},
    "podDisruptionBudget": True,
    "safeToEvict": False,
    "sharedMemorySize": "8Gi",
    "scratchSize": "20Gi",
    "templateProfile": "strict",
    "sampler": {"enabled": False, "intervalSeconds": 30, "timeoutSeconds": 0.5},
    "restarts": {
        "delaySeconds": 1,
        "delayLimitSeconds": 2,
        "disruptionDelaySeconds": 3,
        "disruptionLimit": 4,
    },
}


def test_without_a_word_everything_is_as_published() -> None:
    assert parse({}, "file") == Configuration()
    assert parse({"restarts": {}, "sampler": {}}, "file") == Configuration()


def test_every_key_has_its_effect() -> None:
    found = parse(WHOLE, "file")
    settings, pods = found.settings, found.settings.manifests

    assert found.namespaces == ("vision",)
    assert pods.images == {
        "MXNet": Images(cpu="here/cpu:1", gpu="here/gpu:1"),
        "TensorFlow": Images(cpu="here/tf:1", gpu="here/tf-gpu:1"),
        "PyTorch": FRAMEWORKS["PyTorch"].images,
    }
    assert pods.preparation_image == "here/preparation:1"
    assert (pods.image_pull_policy, pods.gpu_resource) == ("Always", "amd.com/gpu")
    assert (pods.user, pods.group, pods.metrics_port) == (2000, 3000, 9999)
    assert (pods.network_policy, pods.metrics_from) == (False, ({"namespaceSelector": {}},))
    assert (pods.pod_disruption_budget, pods.safe_to_evict) == (True, False)
    assert (pods.shared_memory_size, pods.scratch_size) == ("8Gi", "20Gi")
    assert pods.template_profile == "strict"
    assert not found.sampler.enabled
    assert (found.sampler.interval_seconds, found.sampler.timeout_seconds) == (30, 0.5)
    assert settings.restart_delay == timedelta(seconds=1)
    assert settings.restart_delay_limit == timedelta(seconds=2)
    assert settings.disruption_delay == timedelta(seconds=3)
    assert settings.disruption_limit == 4
    assert settings.resync_period == DEFAULTS.resync_period


@pytest.mark.parametrize(
    ("document", "facts"),
    [
        ({"namespace": []}, ["namespace: ", "not known", "remove it"]),
        ({"image_pull_policy": "Always"}, ["image_pull_policy: ", "not known"]),
        ({"sampler": {"interval": 1}}, ["sampler.interval: ", "not known"]),
        ({"user": 0}, ["user: ", "greater than or equal to 1"]),
        ({"imagePullPolicy": "Sometimes"}, ["imagePullPolicy: ", "'Always'"]),
        ({"sharedMemorySize": "much"}, ["sharedMemorySize: ", "match pattern"]),
        ({"scratchSize": 5}, ["scratchSize: ", "a valid string"]),
        ({"templateProfile": "lax"}, ["templateProfile: ", "'standard' or 'strict'"]),
        (
            {"images": {"torch": {"cpu": "a", "gpu": "b"}}},
            ["images.torch: ", "no framework", "write mx"],
        ),
        ({"images": {"mxnet": {"cpu": "a"}}}, ["images.mxnet.gpu: ", "required"]),
        (
            {"metricsPort": 9091},
            [
                "metricsPort: 9091 ",
                "port of training",
                "from 1024 to 65535",
                "neither 9091 nor 9092",
            ],
        ),
        ({"metricsPort": 9092}, ["metricsPort: 9092 ", "port of training", "write one"]),
        ({"metricsPort": 80}, ["metricsPort: ", "greater than or equal to 1024"]),
        ([], []),
    ],
)
def test_what_is_wrong_is_said_in_one_line(document: Any, facts: list[str]) -> None:
    with pytest.raises(InvalidConfiguration) as caught:
        parse(document, "file")

    assert str(caught.value).startswith("file: ")
    assert_says(str(caught.value), *facts)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("port", [rendezvous.RENDEZVOUS_PORT, rendezvous.MEMBER_PORT])
def test_metrics_are_kept_off_the_ports_where_members_meet(port: int) -> None:
    """What may read metrics would else reach a server that runs what it is sent."""
    with pytest.raises(InvalidConfiguration, match=f"metricsPort: {port} is a port"):
        parse({"metricsPort": port}, "file")


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "configuration.yaml"
    path.write_text("user: 1234\n")
    assert read(path).settings.manifests.user == 1234


@pytest.mark.parametrize("text", [None, "a: [", "user: 1\nuser: 2", "user: 1\n---\nuser: 2"])
def test_a_file_that_cannot_be_read(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "configuration.yaml"
    if text is not None:
        path.write_text(text)

    with pytest.raises(InvalidConfiguration, match=re.escape(str(path))):
        read(path)
