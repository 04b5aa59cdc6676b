"""Whether a point still has to run, by what is stored under its name."""

from datetime import UTC, datetime
from typing import Any

import pytest

from imagenet_operator.api import ImageNetJob, parse
from imagenet_operator.api.status import Status
from imagenet_operator.scaling.points import PointStatus, point_status
from support import job_table

NOW = datetime(2026, 1, 1, tzinfo=UTC).isoformat()


def job(conditions: dict[str, str] | None = None, **changes: Any) -> ImageNetJob:
    stated = [
        {"type": kind, "status": status, "reason": "R", "lastTransitionTime": NOW}
        for kind, status in (conditions or {}).items()
    ]
    status = Status.model_validate({"conditions": stated})
    return parse(job_table.manifest(**changes)).model_copy(update={"status": status})


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        (None, PointStatus.NEW),
        (job(), PointStatus.UNFINISHED),
        (job({"Created": "True", "Running": "True"}), PointStatus.UNFINISHED),
        (job({"Running": "False", "Restarting": "True"}), PointStatus.UNFINISHED),
        (job({"Succeeded": "False"}), PointStatus.UNFINISHED),
        (job({"Running": "False", "Succeeded": "True"}), PointStatus.SUCCEEDED),
        (job({"Running": "False", "Failed": "True"}), PointStatus.FAILED),
        (job({"Succeeded": "True"}, training={"epochs": 1}), PointStatus.OTHER),
        (job({"Succeeded": "True"}, dataset={"volume": {"size": "1Gi"}}), PointStatus.OTHER),
        (job({"Failed": "True"}, training={"batchSize": 256}), PointStatus.OTHER),
        (job({"Succeeded": "True"}, run_policy={"backoffLimit": 1}), PointStatus.SUCCEEDED),
    ],
)
def test_what_is_stored_decides(stored: ImageNetJob | None, expected: PointStatus) -> None:
    assert point_status(job(), stored) is expected


def test_defaults_that_a_cluster_has_written_out_are_no_change() -> None:
    written_out = parse(job().to_manifest() | {"status": {}})
    assert point_status(job(), written_out) is PointStatus.UNFINISHED
