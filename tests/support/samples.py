"""Samples with figures by short names, and samples of texts, for tests of what reads them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from imagenet_operator.reconcile.sample import METRICS, Asked, Sample, sample_of
from imagenet_operator.reconcile.scrape import Scrape, ScrapeReader
from imagenet_spec.resource.figures import FIGURES

_SHORT = {"accuracy": "accuracy.train", "validation_accuracy": "accuracy.validation"}
_FIGURES = {item.field for item in FIGURES}


def sample(taken_at: datetime, **fields: Any) -> Sample:
    """A sample whose figures are given like its fields; those that are None are left out."""
    named = {_SHORT.get(name, name): value for name, value in fields.items()}
    figures = {name: named.pop(name) for name in _FIGURES & named.keys()}
    known = {name: value for name, value in figures.items() if value is not None}
    return Sample(taken_at, figures=known, **named)


def scraped(text: str) -> Scrape | None:
    """What a pod's whole text says."""
    reader = ScrapeReader(METRICS)
    reader.feed(text.encode())
    return reader.scrape()


def parse_sample(
    texts: Mapping[str, str],
    previous: Sample | None,
    now: datetime,
    asked: Mapping[str, Asked] | None = None,
) -> Sample:
    """The sample of pods that answer with these texts; those that are damaged count as silent."""
    scrapes = {pod: scraped(text) for pod, text in texts.items()}
    heard = {pod: found for pod, found in scrapes.items() if found is not None}
    return sample_of(heard, previous, now, asked or {})
