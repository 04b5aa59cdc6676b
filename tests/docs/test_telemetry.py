"""docs/telemetry.md lists what the operator exports; the workloads' part has a test beside them."""

from __future__ import annotations

import re

from prometheus_client import Counter
from prometheus_client.metrics import MetricWrapperBase

from imagenet_operator.clusters.kubernetes import metrics
from support.pod_subset import REPOSITORY

PAGE = (REPOSITORY / "docs" / "telemetry.md").read_text()
ROW = re.compile(r"^\| `(imagenet_operator_\w+)` \| (\w+) \| (.*?) \| (.+?) \|$", re.MULTILINE)


def test_every_metric_of_the_operator_is_listed_with_type_labels_and_meaning() -> None:
    found = {}
    for metric in vars(metrics).values():
        if isinstance(metric, MetricWrapperBase):
            (family,) = metric.describe()
            name = f"{family.name}_total" if isinstance(metric, Counter) else family.name
            # Nothing public tells of labels that have no value yet.
            labels = ", ".join(f"`{label}`" for label in metric._labelnames)
            found[name] = (family.type, labels, family.documentation)
    assert {name: tuple(rest) for name, *rest in ROW.findall(PAGE)} == found
