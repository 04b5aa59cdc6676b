"""The CustomResourceDefinition of ImageNetJob, generated from the models.

`make generate` writes it into the chart, and `make verify` fails if the file differs. Columns,
short name and categories for kubectl are here; columns of figures are in `figures`.
"""

from __future__ import annotations

from imagenet_spec.resource import GROUP, KIND, VERSION, Manifest, figures
from imagenet_spec.resource.job import PLURAL, root_schema

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
                    "schema": {"openAPIV3Schema": root_schema(has_descriptions=True)},
                }
            ],
        },
    }
