"""What users and older releases rely on is as it was recorded.

A refactoring changes none of it. Whoever means to change something records it again, with
`python -m support.recorded_facts` or `support.recorded_decisions`, and says why in the commit.
"""

import json
from typing import Any

import pytest

from imagenet_workloads.checkpoint import CheckpointManifest
from imagenet_workloads.dataset import Dataset
from support import recorded_decisions, recorded_facts

DECISIONS = json.loads(recorded_decisions.RECORDED.read_text())
FACTS = json.loads(recorded_facts.RECORDED.read_text())


@pytest.fixture(scope="module")
def facts() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(recorded_facts.facts()))
    return found


@pytest.mark.parametrize("kind", FACTS)
def test_facts_are_as_recorded(kind: str, facts: dict[str, Any]) -> None:
    assert facts[kind] == FACTS[kind]


def test_every_kind_of_fact_is_recorded(facts: dict[str, Any]) -> None:
    assert facts.keys() == FACTS.keys()


def test_a_recorded_dataset_is_read_and_written_alike() -> None:
    text = recorded_facts.DATASET.read_text()
    assert Dataset.from_json(text).to_json() == text


def test_a_recorded_manifest_is_read_and_written_alike() -> None:
    text = recorded_facts.MANIFEST.read_text()
    assert CheckpointManifest.read(recorded_facts.MANIFEST.parent).to_json() == text


@pytest.mark.parametrize("story", range(len(DECISIONS)))
def test_decisions_are_as_recorded(story: int) -> None:
    assert recorded_decisions.digest(story) == DECISIONS[story]
