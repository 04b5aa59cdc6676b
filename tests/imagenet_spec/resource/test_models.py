"""The models as Python sees them: names, defaults, freezing, and the way to JSON and back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, get_args, get_type_hints

import pytest
from pydantic import ValidationError

from imagenet_spec.load import load
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.base import Model
from imagenet_spec.resource.job import RunPolicy
from imagenet_spec.resource.sources import Source
from imagenet_spec.resource.sources.synthetic import SyntheticSource
from imagenet_spec.resource.status import Condition, Status, TrainingStatus
from imagenet_spec.resource.training import Workers
from imagenet_spec.validate import parse
from support.corpus import cases

GOOD = {case.path.stem: load(case.path)[0] for case in cases("good")}


@pytest.mark.parametrize("document", GOOD.values(), ids=GOOD)
def test_a_job_comes_back_from_its_manifest(document: dict[str, Any]) -> None:
    job = parse(document)
    assert ImageNetJob.model_validate(job.to_manifest()) == job


def test_python_writes_snake_case_and_manifests_camel_case() -> None:
    workers = Workers(replicas=2, gpus=1)
    assert workers.to_manifest() == {"replicas": 2, "gpus": 1}
    assert RunPolicy(backoff_limit=2).to_manifest()["backoffLimit"] == 2
    assert RunPolicy.model_validate({"backoffLimit": 2}).backoff_limit == 2


def test_a_model_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Workers().replicas = 3  # type: ignore[misc]


def test_a_model_takes_no_unknown_field() -> None:
    with pytest.raises(ValidationError, match="Extra inputs"):
        Workers.model_validate({"replica": 3})


def test_a_union_names_its_kind() -> None:
    source = Source(synthetic=SyntheticSource(classes=3))
    assert (source.kind, source.chosen) == ("synthetic", SyntheticSource(classes=3))
    kinds = ["volume", "prepared", "synthetic", "http", "s3", "huggingFace", "kaggle"]
    assert list(Source.kinds()) == kinds


def test_times_are_kept_as_kubernetes_keeps_them() -> None:
    moment = datetime(2024, 1, 31, 13, 0, 0, 999_999, tzinfo=timezone(timedelta(hours=1)))
    status = Status(start_time=moment)
    assert status.start_time == datetime(2024, 1, 31, 12, tzinfo=UTC)
    assert status.to_manifest()["startTime"] == "2024-01-31T12:00:00Z"
    assert Status.model_validate(status.to_manifest()) == status


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValidationError, match="timezone"):
        Status.model_validate({"startTime": "2024-01-31T12:00:00"})


def test_what_is_not_known_is_not_written() -> None:
    assert "epoch" not in TrainingStatus().to_manifest()
    assert Condition.model_fields["message"].get_default() == ""


def _models(model: type[Model]) -> Iterator[type[Model]]:
    yield model
    for name, hint in get_type_hints(model).items():
        if name in model.model_fields:
            for part in (hint, *get_args(hint), *(a for h in get_args(hint) for a in get_args(h))):
                if isinstance(part, type) and issubclass(part, Model):
                    yield from _models(part)


ALL = sorted(set(_models(ImageNetJob)), key=lambda model: model.__name__)


@pytest.mark.parametrize("model", ALL)
def test_a_default_object_is_what_its_own_defaults_make(model: type[Model]) -> None:
    """The CRD writes defaults out; a field added below would otherwise have two defaults."""
    for field in model.model_fields.values():
        if isinstance(default := field.get_default(), Model):
            assert default == type(default)()
