"""The kind `huggingFace`: Parquet files or an archive of a dataset, in place or from a cache.

Index turns the revision into a commit, which the plan holds: pack reads the same files, whatever
the branch has by then. With a cache, fetch does so, and index reads the commit there.
"""

from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence

from imagenet_workloads.clients import hugging_face
from imagenet_workloads.clients.http import AT_ONCE, HttpClient, Token
from imagenet_workloads.clients.hugging_face import Repository
from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare.containers import parquet, samples
from imagenet_workloads.prepare.layouts import choice as choices
from imagenet_workloads.prepare.layouts.splits import open_parquet_files, parquet_names_to_read
from imagenet_workloads.prepare.source import Source
from imagenet_workloads.prepare.sources.cache import CachedFiles, FileToFetch, cache_entry
from imagenet_workloads.prepare.sources.kind import RemoteKind
from imagenet_workloads.prepare.sources.opening import (
    KINDS,
    open_remote,
    open_remote_planned,
    pinned,
)
from imagenet_workloads.prepare.stores.http import HttpBlob, ServedFile, open_to_fetch
from imagenet_workloads.prepare.stores.remote import (
    MOST_REQUESTS,
    Limit,
    RemoteBlob,
    RemoteFiles,
    WholeFile,
)

_CACHE_FIELD = "source.huggingFace.cache"
_ARCHIVES = (".tar", ".zip")
_COMPRESSED = (".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst")


class HuggingFaceKind(RemoteKind):
    """Files of a dataset; its own validation files validate."""

    name = "huggingFace"
    options = "--hf-dataset"
    planned_as = (parquet.KIND, samples.KIND, *KINDS)

    def is_given(self, parsed: Namespace) -> bool:
        return parsed.hf_dataset is not None

    def open(self, parsed: Namespace) -> Source:
        if parsed.cache is not None:
            commit, files = _cached(parsed).open_listed()
        else:
            repository, checksums, login = _find(parsed)
            commit, files = repository.commit, _files(repository, tuple(checksums), login)
        source = open_parquet_files(files, choices.of(parsed))
        if source is None:
            name = _archive(files.names, parsed.hf_dataset)
            most = parsed.hf_max_requests
            source = open_remote(files.blob(name), None, most, choices.of(parsed))
            source.plan_fields = {**source.plan_fields, "file": name}
        elif parsed.cache is None:
            source.limit = Limit(parsed.hf_max_requests or MOST_REQUESTS, _CACHE_FIELD)
        return pinned(source, {"commit": commit})

    def open_planned(self, planned: Fields, parsed: Namespace) -> Source:
        if parsed.cache is not None:
            files = _cached(parsed).open_planned()
        else:
            commit = planned.text("commit")
            repository = Repository(parsed.hf_dataset, commit, parsed.hf_endpoint)
            files = _files(repository, (), hugging_face.token())
        if planned.text("kind") == parquet.KIND:
            return parquet.open_planned(planned, files)
        return open_remote_planned(planned, files.blob(planned.text("file")), None)

    def files_to_fetch(self, parsed: Namespace) -> Sequence[FileToFetch]:
        """The Parquet files that index reads, or the archive; then the list of them."""
        repository, checksums, login = _find(parsed, with_checksums=True)
        names = parquet_names_to_read(checksums) or [_archive(checksums, parsed.hf_dataset)]
        client = HttpClient(login)
        chosen = {name: checksums[name] for name in names}

        def open_file(name: str) -> RemoteBlob | WholeFile:
            return open_to_fetch(_served(repository, name), client)

        return [*_cached(parsed).to_fetch(chosen, open_file, repository.commit)]


def _files(repository: Repository, names: Sequence[str], login: Token | None) -> RemoteFiles:
    """The files of a dataset, on its server."""
    client = HttpClient(login)

    def open_blob(name: str) -> HttpBlob:
        return HttpBlob(_served(repository, name), client, _CACHE_FIELD)

    where = f"{repository.dataset}@{repository.commit[:12]}"
    return RemoteFiles(where, names, open_blob, AT_ONCE)


def _find(
    parsed: Namespace, *, with_checksums: bool = False
) -> tuple[Repository, Mapping[str, str], Token | None]:
    """The commit, the checksums of its files at or below --hf-path, and the token."""
    login = hugging_face.token()
    repository, checksums = hugging_face.find(
        parsed.hf_dataset,
        parsed.hf_revision,
        parsed.hf_endpoint,
        login,
        with_checksums=with_checksums,
    )
    path = parsed.hf_path
    if path is None:
        return repository, checksums, login
    chosen = {
        name: checksum
        for name, checksum in checksums.items()
        if name == path or name.startswith(f"{path.rstrip('/')}/")
    }
    if not chosen:
        raise InputError(
            f"{repository.dataset}: has no file at or below {path}, at the commit "
            f"{repository.commit}; check path"
        )
    return repository, chosen, login


def _served(repository: Repository, name: str) -> ServedFile:
    return ServedFile(name, repository.address(name))


def _cached(parsed: Namespace) -> CachedFiles:
    """The files of the revision and path in the cache."""
    dataset, revision = parsed.hf_dataset, parsed.hf_revision
    where = f"hf://datasets/{dataset}" + ("" if revision is None else f"@{revision}")
    part = f"{parsed.hf_endpoint or ''} {parsed.hf_path or ''}"
    return CachedFiles(cache_entry(parsed.cache, dataset.rpartition("/")[2], where, part))


def _archive(names: Iterable[str], dataset: str) -> str:
    """The one tar or zip; without one, a compressed tar, which needs a cache."""
    every = tuple(names)
    found = [name for name in every if name.endswith(_ARCHIVES)]
    found = found or [name for name in every if name.endswith(_COMPRESSED)]
    if len(found) != 1:
        what = f"{len(found)} tars and zips" if found else "neither Parquet files nor a tar or zip"
        raise InputError(f"{dataset}: holds {what}; write the path of one (path)")
    return found[0]
