"""The PodMonitors are such as the Prometheus Operator defines them.

Its definitions are not ours to bring along, and no test's cluster has them: here is written down
what they say of the fields that the chart writes. The other kind, PrometheusRule, holds a file of
rules as it is, which a real Prometheus reads in the stories.
"""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from support import chart

# Prometheus' own way to write a duration.
DURATION = (
    "^(0|" + "".join(f"([0-9]+{unit})?" for unit in ("y", "w", "d", "h", "m", "s", "ms")) + ")$"
)
STRINGS = {"type": "object", "additionalProperties": {"type": "string"}}


def _fields(required: tuple[str, ...] = (), **fields: Any) -> dict[str, Any]:
    """Return the schema of an object with these fields and no others."""
    return {
        "type": "object",
        "properties": fields,
        "required": list(required),
        "additionalProperties": False,
    }


SPEC = _fields(
    required=("selector", "podMetricsEndpoints"),
    selector=_fields(matchLabels=STRINGS),
    namespaceSelector=_fields(
        any={"type": "boolean"}, matchNames={"type": "array", "items": {"type": "string"}}
    ),
    podMetricsEndpoints={
        "type": "array",
        "minItems": 1,
        "items": _fields(
            port={"type": "string"},
            interval={"type": "string", "pattern": DURATION},
            honorLabels={"type": "boolean"},
        ),
    },
)


@pytest.mark.parametrize("values", [{}, {"watchNamespaces": ["vision"]}], ids=["all", "listed"])
def test_a_pod_monitor_has_fields_that_are_defined(values: chart.Manifest) -> None:
    asked = {**values, "monitoring": {"podMonitor": {"enabled": True, "interval": "1m"}}}
    monitors = [item for item in chart.render(asked) if item["kind"] == "PodMonitor"]
    assert len(monitors) == 2
    for monitor in monitors:
        jsonschema.Draft7Validator(SPEC).validate(monitor["spec"])


def test_a_pod_monitor_names_a_port_that_its_pods_have() -> None:
    rendered = chart.render({"monitoring": {"podMonitor": {"enabled": True}}})
    monitor = chart.one(rendered, "PodMonitor", chart.RELEASE)
    (container,) = chart.one(rendered, "Deployment")["spec"]["template"]["spec"]["containers"]
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["port"] in {port["name"] for port in container["ports"]}
