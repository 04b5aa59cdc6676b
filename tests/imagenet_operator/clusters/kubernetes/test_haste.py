"""What of a pod has to be looked at at once."""

from typing import Any

import pytest

from imagenet_operator.clusters.kubernetes.haste import can_wait

Manifest = dict[str, Any]


def pod(phase: str | None, **changes: Manifest) -> Manifest:
    status = {} if phase is None else {"phase": phase}
    return {"metadata": {"name": "a"}, "spec": {"nodeName": "n1"}, "status": status, **changes}


@pytest.mark.parametrize(
    ("item", "waits"),
    [
        (pod("Pending"), True),
        (pod("Running"), True),
        (pod("Succeeded"), False),
        (pod("Failed"), False),
        (pod("Unknown"), False),
        (pod(None), False),
        (pod("Running", metadata={"deletionTimestamp": "2026-01-02T03:04:05Z"}), False),
        (pod("Pending", spec={"schedulingGates": [{"name": "gang"}]}), False),
        (pod("Pending", spec={"schedulingGates": []}), True),
    ],
)
def test_a_pod_on_its_way_can_wait(item: Manifest, waits: bool) -> None:
    assert can_wait(item) is waits
