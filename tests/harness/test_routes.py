"""When the nodes of a cluster without a network plugin's image can be connected."""

from __future__ import annotations

from typing import Any

import pytest

from kind.airgap.routes import have_ranges

CONTROL_PLANE = {"spec": {"podCIDR": "10.244.0.0/24"}}
WORKER = {"spec": {"podCIDR": "10.244.1.0/24"}}


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        pytest.param({"a": CONTROL_PLANE, "b": WORKER}, True, id="all"),
        pytest.param({"a": CONTROL_PLANE, "b": {"spec": {}}}, False, id="one without a range"),
        pytest.param({"a": CONTROL_PLANE}, False, id="one that has joined and is not known yet"),
        pytest.param({}, False, id="none known yet"),
        pytest.param({"a": CONTROL_PLANE, "b": WORKER, "fake": {"spec": {}}}, True, id="another"),
    ],
)
def test_every_node_of_the_cluster_has_to_be_known(
    known: dict[str, dict[str, Any]], expected: bool
) -> None:
    assert have_ranges(known, ["a", "b"]) is expected
