"""The kind `kaggle`: the files of a competition or dataset, read in place or from a cache.

In place, index asks for the newest version of a dataset and notes it in the plan: pack reads the
same one. The links to the files expire, so the addresses in plans and caches are those of the API.
"""

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from imagenet_workloads.clients import kaggle
from imagenet_workloads.clients.http import HttpClient
from imagenet_workloads.clients.kaggle import Download
from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare.containers import parquet, samples
from imagenet_workloads.prepare.layouts import choice as choices
from imagenet_workloads.prepare.source import Source
from imagenet_workloads.prepare.sources.cache import CacheEntry, FileToFetch, cache_entry
from imagenet_workloads.prepare.sources.kind import RemoteKind
from imagenet_workloads.prepare.sources.opening import (
    KINDS,
    open_remote,
    open_remote_planned,
    pinned,
)
from imagenet_workloads.prepare.stores.http import HttpBlob, ServedFile, open_to_fetch

_CACHE_FIELD = "source.kaggle.cache"
_VERSION = "datasetVersion"


class KaggleKind(RemoteKind):
    """The zip of a competition or dataset, or one file of it."""

    name = "kaggle"
    options = "--kaggle-competition or --kaggle-dataset"
    planned_as = (*KINDS, parquet.KIND, samples.KIND)

    def is_given(self, parsed: Namespace) -> bool:
        return parsed.kaggle_competition is not None or parsed.kaggle_dataset is not None

    def mistake(self, parsed: Namespace) -> str | None:
        if parsed.kaggle_competition is None:
            return None
        if parsed.kaggle_dataset is not None:
            return "give either --kaggle-competition or --kaggle-dataset, not both"
        if parsed.kaggle_version is not None:
            return "--kaggle-version goes with --kaggle-dataset"
        return None

    def open(self, parsed: Namespace) -> Source:
        within, most = parsed.kaggle_path_in_archive, parsed.kaggle_max_requests
        if parsed.cache is not None:
            return open_remote(_entry(parsed).open(), within, most, choices.of(parsed))
        client = kaggle.connect(_download(parsed))
        download = kaggle.at_version(_download(parsed), client)
        source = open_remote(_blob(download, client), within, most, choices.of(parsed))
        return pinned(source, {} if download.version is None else {_VERSION: download.version})

    def open_planned(self, planned: Fields, parsed: Namespace) -> Source:
        within = parsed.kaggle_path_in_archive
        if parsed.cache is not None:
            return open_remote_planned(planned, _entry(parsed).open(), within)
        download = _download(parsed)
        # A job with a cache, which notes no version, may have made the plan.
        if download.version is None and planned.has(_VERSION):
            download = replace(download, version=planned.integer(_VERSION, minimum=1))
        return open_remote_planned(planned, _blob(download, kaggle.connect(download)), within)

    def files_to_fetch(self, parsed: Namespace) -> Sequence[FileToFetch]:
        download = _download(parsed)
        opened = partial(open_to_fetch, _served(download), kaggle.connect(download))
        return [FileToFetch(download.name, _entry(parsed), True, "", opened)]


def _download(parsed: Namespace) -> Download:
    return Download(
        parsed.kaggle_competition or "",
        parsed.kaggle_dataset or "",
        parsed.kaggle_version,
        parsed.kaggle_file,
        parsed.kaggle_endpoint,
    )


def _served(download: Download) -> ServedFile:
    return ServedFile(download.name, download.address)


def _blob(download: Download, client: HttpClient) -> HttpBlob:
    return HttpBlob(_served(download), client, _CACHE_FIELD)


def _entry(parsed: Namespace) -> CacheEntry:
    download = _download(parsed)
    address = download.address
    return cache_entry(parsed.cache, download.name, address.url, address.query)
