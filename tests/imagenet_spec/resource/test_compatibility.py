"""What a strategy says of itself is what the rest of the resource knows of it."""

from __future__ import annotations

import itertools
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_spec.frameworks import FRAMEWORKS
from imagenet_spec.load import load
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.compatibility import COMBINATIONS, Combination, rules
from imagenet_spec.resource.frameworks import Format, with_strategy
from imagenet_spec.resource.strategies import Strategy
from imagenet_spec.resource.training import devices
from imagenet_spec.rules import broken
from support.corpus import cases
from support.job_table import manifest

ALL = list(itertools.product(FRAMEWORKS, get_args(Format), Strategy.kinds()))


def job(
    framework: str = "MXNet",
    format_: str = "RecordIO",
    strategy: dict[str, Any] | None = None,
    **workers: int,
) -> ImageNetJob:
    """Return a job that was not validated."""
    document = manifest(
        training={
            "framework": framework,
            "strategy": strategy or {"single": {}},
            "workers": workers,
        }
    )
    document["spec"]["dataset"]["preprocessing"] = {"format": format_}
    return ImageNetJob.model_validate(document)


def test_the_table_is_the_one_that_is_documented() -> None:
    assert set(COMBINATIONS) == {
        ("MXNet", "RecordIO", "parameterServer"),
        ("MXNet", "RecordIO", "single"),
        ("MXNet", "RecordIO", "horovod"),
        ("TensorFlow", "TFRecord", "horovod"),
        ("TensorFlow", "TFRecord", "mirrored"),
        ("TensorFlow", "TFRecord", "multiWorkerMirrored"),
        ("PyTorch", "RecordIO", "single"),
        ("PyTorch", "TFRecord", "single"),
        ("PyTorch", "RecordIO", "distributedDataParallel"),
        ("PyTorch", "TFRecord", "distributedDataParallel"),
    }


@pytest.mark.parametrize(("framework", "format_", "kind"), ALL)
def test_what_the_table_has_can_be_written_and_nothing_else(
    framework: str, format_: str, kind: str
) -> None:
    written = job(framework, format_, {kind: {}})
    wrong = list(broken(rules(), written.spec.to_manifest()))
    assert (not wrong) == (Combination(framework, format_, kind) in COMBINATIONS)


def test_a_table_without_a_strategy_refuses_it() -> None:
    table = (Combination("MXNet", "RecordIO", "single"),)
    strategy_rule, format_rule = rules(table)
    spec = job(strategy={"parameterServer": {}}).spec
    assert list(broken((strategy_rule, format_rule), spec.to_manifest())) == [strategy_rule]
    assert strategy_rule.explain is not None
    assert strategy_rule.explain(spec) == (
        "MXNet has no strategy parameterServer",
        "write one of single",
    )
    assert "!has(self.training.strategy.parameterServer)" in strategy_rule.cel


@pytest.mark.parametrize("kind", Strategy.kinds())
def test_a_strategy_is_shown_by_a_good_manifest(kind: str) -> None:
    shown = {
        next(iter(document["spec"]["training"]["strategy"]))
        for case in cases("good")
        for document in load(case.path)
    }
    assert kind in shown
    assert with_strategy(kind)


@given(gpus=st.integers(0, 16), slots=st.none() | st.integers(1, 16), replicas=st.integers(1, 4))
def test_a_batch_is_shared_by_every_gpu_or_every_slot(
    gpus: int, slots: int | None, replicas: int
) -> None:
    fields = {} if slots is None else {"slotsPerWorker": slots}
    horovod = job(strategy={"horovod": fields}, replicas=replicas, gpus=gpus).spec.training
    assert devices(horovod) == replicas * max(gpus, slots or 1)
    plain = job(strategy={"parameterServer": {}}, replicas=replicas, gpus=gpus).spec.training
    assert devices(plain) == replicas * max(gpus, 1)
