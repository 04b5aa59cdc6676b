"""The field `cache` of the sources on servers: a claim where the fetch Job stores their files."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Le

from imagenet_operator.api.base import Model
from imagenet_operator.api.fields import ObjectName, given_options
from imagenet_operator.api.sources.fields import SourceFields
from imagenet_spec.names import IMAGENET_SOURCE


class Cache(Model):
    """The place of the source's files; one cache may hold those of several jobs."""

    claim_name: ObjectName
    """The PersistentVolumeClaim that holds the files, in the folder ``fetched``. They outlive the
    job, and other jobs with the same source read them."""

    connections: Annotated[int, Ge(1), Le(32)] | None = None
    """The most requests of fetch at the same time. Absent: 8."""


class RemoteSource(SourceFields):
    """The fields of a source on a server."""

    cache: Cache | None = None
    """Store the files on a claim before they are listed: for Parquet files, an archive with too
    many images for `maxRequests`, a compressed one, or a server without ranges of bytes. Absent:
    the files are read in place."""

    @property
    def claim(self) -> str | None:
        """The claim of the cache."""
        return None if self.cache is None else self.cache.claim_name

    @property
    def claim_field(self) -> str:
        """The field that names the claim."""
        return "cache.claimName"

    @property
    def is_fetched(self) -> bool:
        """Whether the fetch Job stores the files on the claim."""
        return self.cache is not None

    @property
    def fetch_arguments(self) -> list[str]:
        """The arguments of fetch alone."""
        connections = None if self.cache is None else self.cache.connections
        return given_options({"--connections": connections})

    @property
    def cache_arguments(self) -> list[str]:
        """The arguments of fetch, index and pack that name the cache."""
        return [] if self.cache is None else ["--cache", f"$({IMAGENET_SOURCE})"]
