"""Templates of workers, and what `validate` says of them."""

from __future__ import annotations

from typing import Any

from imagenet_spec.validate import validate
from support import job_table

Manifest = dict[str, Any]
WORKERS = "spec.training.workers.template"
APPARMOR = "container.apparmor.security.beta.kubernetes.io/main"


def pod(**fields: Any) -> Manifest:
    return {"spec": fields}


def document(template: Manifest) -> Manifest:
    """Return a job of one worker, which has the template."""
    single = {"strategy": {"single": {"kvStore": "local"}}}
    workers = {"workers": {"replicas": 1, "template": template}}
    return job_table.manifest(training={**single, **workers})


def sentences(template: Manifest) -> list[str]:
    found = [str(problem) for problem in validate(document(template))]
    assert all(text.startswith(f"{WORKERS}.") for text in found), found
    return [text.removeprefix(f"{WORKERS}.") for text in found]
