"""The dry run of a job's pods: what no API server would store is refused before the preparation.

`reconciler` asks for it before it creates anything for a job, once for each generation of its spec.
One pod of each role is sent with ``dryRun=All``, so admission and validation judge it, and nothing
is stored. Only answers that stay the same fail the job: an invalid or unknown field, a LimitRange,
PodSecurity. A quota may have room later, so the real creates wait for it. Any other answer is
raised: the job waits, and its condition has the words.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from imagenet_operator.clusters.interface import JobKey, key_of
from imagenet_operator.clusters.kubernetes.client import CONFLICT, ApiError, Client
from imagenet_operator.clusters.kubernetes.objects import POD
from imagenet_operator.manifests import labels, preview
from imagenet_operator.manifests.settings import Settings
from imagenet_operator.reconcile.policies import waiting
from imagenet_spec.errors import InvalidJob, InvalidTemplate
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.base import Manifest

_UNSUPPORTED: Final = "does not support dry run"
"""The API server's words about a webhook that does not declare to be free of side effects."""

_PERMANENT: Final = frozenset({"LimitRangeViolated", "PodSecurityViolated"})
"""Reasons of `waiting` that a dry run takes for the last word."""


@dataclass(frozen=True)
class Verdict:
    """The result of a dry run.

    Attributes:
        rejection: The reason and message of a job that must fail; None if its pods are accepted.
        notes: What could not be tried, for an event.
    """

    rejection: tuple[str, str] | None = None
    notes: tuple[str, ...] = ()


class DryRuns:
    """The dry runs of jobs, and what came of them."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._verdicts: dict[JobKey, tuple[str, int, Verdict]] = {}

    def forget(self, key: JobKey) -> None:
        self._verdicts.pop(key, None)

    def verdict(self, job: ImageNetJob) -> Verdict | None:
        """Return the result for this generation of a job's spec; None before the dry run."""
        uid, generation, verdict = self._verdicts.get(key_of(job), ("", 0, None))
        is_known = (uid, generation) == (job.metadata.uid, job.metadata.generation)
        return verdict if is_known else None

    async def run(self, job: ImageNetJob, settings: Settings) -> Verdict:
        """Have one pod of each role judged; raise ApiError if there is no verdict now."""
        try:
            manifests = preview.everything(job, settings)
        except (InvalidTemplate, InvalidJob):
            # `decide` finds it as well, and fails the job.
            return Verdict()
        # A job that has started was admitted by an earlier version: its fields are not refused.
        strict = {} if job.status.start_time else {"fieldValidation": "Strict"}
        pods = list(_one_of_each_role(job, manifests))
        found = await asyncio.gather(*(self._try(pod, strict) for pod in pods))
        rejections = [item.rejection for item in found if item.rejection is not None]
        notes = sorted({note for item in found for note in item.notes})
        verdict = Verdict(next(iter(rejections), None), tuple(notes))
        self._verdicts[key_of(job)] = job.metadata.uid, job.metadata.generation, verdict
        return verdict

    async def _try(self, pod: Manifest, strict: dict[str, str]) -> Verdict:
        """Return what the answer for a pod means; raise ApiError if it may be accepted later."""
        try:
            path = POD.path(pod["metadata"]["namespace"])
            await self._client.create(path, pod, dryRun="All", **strict)
            return Verdict()
        except ApiError as error:
            said = error.message
            reason, remedy = waiting.classified(said)
            if _UNSUPPORTED in said:
                return Verdict(notes=(f"pods are not tried before the preparation: {said}",))
            # In a conflict a pod of this name exists, and this one was judged before.
            if error.code == CONFLICT or reason == "QuotaExceeded":
                return Verdict()
            if error.is_final:
                reason = "InvalidTemplate"
                remedy = "correct the template, or the LimitRange or webhook that changes the pod"
            elif reason not in _PERMANENT:
                raise
            role = pod["metadata"]["labels"][labels.JOB_ROLE]
            return Verdict((reason, f"the API server refuses a pod of {role}: {said}; {remedy}"))


def _one_of_each_role(job: ImageNetJob, manifests: Iterable[Manifest]) -> Iterator[Manifest]:
    """Yield the first pod of each role, also those that Jobs would create."""
    first: dict[str, Manifest] = {}
    for item in manifests:
        if item["kind"] in ("Pod", "Job"):
            first.setdefault(item["metadata"]["labels"][labels.JOB_ROLE], item)
    for item in first.values():
        if item["kind"] == "Pod":
            yield item
            continue
        template = item["spec"]["template"]
        named = {
            "generateName": f"{item['metadata']['name']}-",
            "namespace": job.metadata.namespace,
        }
        yield {
            "apiVersion": POD.api_version,
            "kind": POD.name,
            "metadata": {**template["metadata"], **named},
            "spec": template["spec"],
        }
