"""The source `prepared`: a dataset that an earlier job sealed.

Without `spec.dataset.volume`, training reads it as it is. With a volume, a dataset of smaller
images is made from its records there. Workers read one in a bucket or on a server from there.
"""

from __future__ import annotations

from typing import Any

from imagenet_spec.program.train import ONLY_IMAGE_RECORD_ITER
from imagenet_spec.resource.base import Model
from imagenet_spec.resource.capabilities import changed, listed, none_of, unchanged_cel
from imagenet_spec.resource.fields import (
    URL_RULE,
    ObjectName,
    RelativePath,
    SecretKey,
    SecretName,
    Text,
    stays_below,
)
from imagenet_spec.resource.sources.fields import BucketFolder, SourceFields
from imagenet_spec.rules import Rule


class ServedFolder(Model):
    """A folder on a server that answers requests for ranges of bytes."""

    url: Text
    """The http or https URL of the folder of dataset.json, without user and query."""

    secret_name: SecretName | None = None
    """A Secret with the keys ``username`` and ``password``, and with the key that `queryKey` names.
    With that key it needs no login."""

    query_key: SecretKey | None = None
    """The key of the Secret with the query of each file's URL, such as a shared access signature of
    Azure. The query is neither in the job nor in its pods' manifests."""

    rules = (
        URL_RULE,
        Rule(
            cel="has(self.secretName) || !has(self.queryKey)",
            message="must be given: there is a queryKey",
            field="secretName",
            hint="write the name of the Secret with this key",
        ),
    )


REMOTE_CEL = "has(self.source.prepared) && !has(self.source.prepared.claimName)"
"""Whether the dataset is in a bucket or on a server: CEL over `spec.dataset`."""


def _explain_volume(dataset: Any) -> tuple[str, str]:
    if dataset.source.prepared.claim_name is None:
        where = "is in a bucket or on a server, and prepared again only from a claim"
        return f"is given, but the dataset {where}", "remove it, or copy the dataset to a claim"
    return (
        "is given, but the prepared dataset needs no other one without preprocessing.resize",
        "remove it, or write preprocessing.resize for a dataset of smaller images",
    )


class PreparedSource(SourceFields):
    """A sealed dataset (a folder with dataset.json): on a claim, in a bucket or on a server."""

    claim_name: ObjectName | None = None
    """The PersistentVolumeClaim that holds the dataset. Without `dataset.volume` it is the job's
    data volume too: without `training.output.volume` the results are written beside the dataset."""

    path: RelativePath | None = None
    """The folder of dataset.json from the claim's root, as ``datasets/KEY``."""

    s3: BucketFolder | None = None
    """The bucket to which the dataset was published. Each worker fetches the records that it
    trains, into `workers.cache`."""

    http: ServedFolder | None = None
    """The same for a server of files."""

    rules = (
        Rule(
            cel="[has(self.claimName), has(self.s3), has(self.http)].exists_one(given, given)",
            message="exactly one of claimName, s3, http must be given",
            hint="write claimName and path, s3, or http",
        ),
        Rule(
            cel="has(self.claimName) == has(self.path)",
            message="goes with claimName",
            field="path",
            hint="write claimName and path together; a bucket has a prefix, and a server a url",
        ),
        stays_below("path"),
    )

    dataset_rules = (
        Rule(
            cel=(
                "!has(self.source.prepared) || !has(self.volume)"
                " || (has(self.source.prepared.claimName) && has(self.preprocessing.resize))"
            ),
            message=(
                "must not be given for a prepared source: a dataset on a claim is prepared again "
                "only with preprocessing.resize, and one in a bucket or on a server never"
            ),
            field="volume",
            explain=_explain_volume,
        ),
        Rule(
            cel="!has(self.source.prepared) || !has(self.validation)",
            message="must not be given for a prepared source, which has its validation images",
            field="validation",
            hint="remove it",
        ),
        Rule(
            cel=f"!({REMOTE_CEL}) || !has(self.publish)",
            message="must not be given for a dataset in a bucket or on a server",
            field="publish",
            hint="remove it",
        ),
        Rule(
            cel=f"!({REMOTE_CEL}) || !has(self.verify) || self.verify != 'Checksums'",
            message="must not be Checksums in a bucket or on a server: workers verify each record",
            field="verify",
            hint="remove it",
        ),
    )

    @property
    def claim(self) -> str | None:
        return self.claim_name

    @property
    def sealed_path(self) -> str | None:
        return self.path

    @property
    def is_sealed(self) -> bool:
        return True

    @property
    def secret(self) -> str | None:
        remote = self.s3 or self.http
        return None if remote is None else remote.secret_name

    @property
    def remote_url(self) -> str | None:
        remote = self.s3 or self.http
        return None if remote is None else remote.url

    @property
    def remote_options(self) -> dict[str, str | None]:
        if self.s3 is not None:
            return {"dataset_endpoint": self.s3.endpoint, "dataset_region": self.s3.region}
        return {"dataset_query_key": None if self.http is None else self.http.query_key}


_REMOTE_IN_SPEC = REMOTE_CEL.replace("self.", "self.dataset.")

REMOTE_RULES = (
    Rule(
        cel=(
            f"!({_REMOTE_IN_SPEC})"
            " || (has(self.training.output) && has(self.training.output.volume))"
        ),
        message="must have a volume: the dataset is on none, and the results need one",
        field="training.output",
        hint="write {volume: {claimName: …}} or {volume: {size: 20Gi}}",
    ),
    Rule(
        cel=f"!has(self.training.workers.cache) || ({_REMOTE_IN_SPEC})",
        message="is for a dataset in a bucket or on a server",
        field="training.workers.cache",
        hint="remove it, or write dataset.source.prepared.s3",
    ),
    Rule(
        cel=(
            f"!({_REMOTE_IN_SPEC}) || !has(self.training.reader)"
            " || self.training.reader != 'ImageRecordIter'"
        ),
        message="must not be ImageRecordIter, which reads only files on a volume",
        field="training.reader",
        hint="write reader: Ordered",
    ),
    Rule(
        cel=(
            f"!({_REMOTE_IN_SPEC})"
            f" || ({unchanged_cel(ONLY_IMAGE_RECORD_ITER, 'self.training.augmentation')})"
        ),
        message=(
            "must not have these for a dataset in a bucket or on a server, which only the reader"
            f" Ordered reads: {listed(ONLY_IMAGE_RECORD_ITER)}"
        ),
        field="training.augmentation",
        explain=lambda spec: (
            "Ordered has no "
            + none_of(changed(spec.training.augmentation, ONLY_IMAGE_RECORD_ITER)),
            "remove it, or copy it to a claim",
        ),
    ),
)
"""Rules for `spec` of a dataset on no volume: the results need one, and only the ordered reader
reads ranges."""
