"""The CustomResourceDefinition of ImageNetJob, generated from the models.

`cli.generate` writes it into the chart, and `make verify` fails if the file differs. Columns, short
name and categories for kubectl are here; columns of figures are in `figures`.
"""

from __future__ import annotations

from typing import Any

from imagenet_operator.api import figures, schema
from imagenet_operator.api.base import Manifest, Rule, TransitionRule
from imagenet_operator.api.job import GROUP, KIND, VERSION, ImageNetJob, ImageNetJobSpec
from imagenet_operator.api.status import Status

PLURAL = "imagenetjobs"
SINGULAR = "imagenetjob"


def _column(name: str, kind: str, path: str, priority: int = 0) -> Manifest:
    column = {"name": name, "type": kind, "jsonPath": path}
    return {**column, "priority": priority} if priority else column


COLUMNS = (
    _column("Phase", "string", ".status.phase"),
    _column("Network", "string", ".spec.training.model.network"),
    _column("Workers", "integer", ".spec.training.workers.replicas"),
    *figures.columns(priority=0),
    _column("Restarts", "integer", ".status.restarts"),
    _column("Age", "date", ".metadata.creationTimestamp"),
    _column("Reason", "string", ".status.reason", priority=1),
    _column("Dataset", "string", ".status.dataset.key", priority=1),
    _column("Attempt", "integer", ".status.training.attempt", priority=1),
    _column("Current Workers", "integer", ".status.training.workers", priority=1),
    *figures.columns(priority=1),
)


def root_schema() -> dict[str, Any]:
    """Return the schema of an ImageNetJob."""
    rules: tuple[Rule | TransitionRule, ...] = (
        *ImageNetJob.rules,
        *ImageNetJob.transition_rules,
    )
    return {
        "type": "object",
        "description": " ".join((ImageNetJob.__doc__ or "").split()),
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            # Declared so that a rule may report it; the API server knows the rest of metadata.
            "metadata": {"type": "object", "properties": {"name": {"type": "string"}}},
            "spec": {
                "description": "The desired state.",
                **schema.of_model(ImageNetJobSpec),
            },
            "status": {
                "description": "What the operator reports.",
                **schema.of_model(Status, defaults=False),
            },
        },
        "x-kubernetes-validations": [schema.of_rule(rule) for rule in rules],
    }


def definition() -> Manifest:
    """Return the CustomResourceDefinition."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": SINGULAR,
                "shortNames": ["inj"],
                "categories": ["all", "training"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": list(COLUMNS),
                    "schema": {"openAPIV3Schema": root_schema()},
                }
            ],
        },
    }
