"""The kind `huggingFace`: Parquet files or an archive of a dataset, read in place by ranges.

Index turns the revision into a commit, which the plan holds: pack reads the same files, whatever
the branch has by then.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any

from imagenet_workloads import arguments as types
from imagenet_workloads.clients import hugging_face
from imagenet_workloads.clients.http import AT_ONCE, HttpClient
from imagenet_workloads.clients.hugging_face import Repository
from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.prepare.sources import archives, parquet, webdataset
from imagenet_workloads.prepare.sources.http_files import HttpBlob, ServedFile
from imagenet_workloads.prepare.sources.remote import (
    RemoteFiles,
    open_remote,
    open_remote_planned,
    pinned,
)
from imagenet_workloads.prepare.sources.source import Source, SourceKind

_ARCHIVES = (".tar", ".zip")


class HuggingFaceKind(SourceKind):
    """Files of a dataset; its own validation files validate."""

    name = "huggingFace"
    options = "--hf-dataset"
    planned_as = (parquet.KIND, webdataset.KIND, *archives.KINDS)

    def add_index_options(self, parser: ArgumentParser) -> None:
        """Adds --hf-dataset and what describes its files."""
        group = parser.add_argument_group(
            "a dataset of Hugging Face", "The token is in $IMAGENET_CREDENTIALS/HF_TOKEN."
        )
        _add_reading_options(group.add_argument)
        group.add_argument(
            "--hf-revision",
            type=types.text,
            metavar="NAME",
            help="a branch, tag or commit (default: the dataset's default branch)",
        )
        group.add_argument(
            "--hf-max-requests",
            type=types.count,
            metavar="N",
            help="fail if listing an archive takes more requests (default: 2000000)",
        )

    def add_pack_options(self, parser: ArgumentParser) -> None:
        """Adds the options that open the files."""
        _add_reading_options(parser.add_argument)

    def is_given(self, parsed: Namespace) -> bool:
        """Whether --hf-dataset is given."""
        return parsed.hf_dataset is not None

    def is_given_again(self, parsed: Namespace) -> bool:
        """Whether --hf-dataset is given to imagenet-pack."""
        return self.is_given(parsed)

    def open(self, parsed: Namespace) -> Source:
        """Asks for the files, and opens the Parquet files among them or the archive."""
        login = hugging_face.token()
        repository, names = hugging_face.find(
            parsed.hf_dataset, parsed.hf_revision, parsed.hf_endpoint, login
        )
        chosen = _below(names, parsed.hf_path, repository)
        files = _Files(repository, chosen, HttpClient(login))
        source = parquet.open_files(files)
        if source is None:
            name = _archive(chosen, repository)
            source = open_remote(files.blob(name), None, parsed.hf_max_requests)
            source.place = {**source.place, "file": name}
        return pinned(source, {"commit": repository.commit})

    def open_planned(self, planned: Fields, parsed: Namespace) -> Source:
        """Opens the files of the plan at its commit."""
        login = hugging_face.token()
        commit = planned.text("commit")
        repository = Repository(parsed.hf_dataset, commit, parsed.hf_endpoint)
        files = _Files(repository, (), HttpClient(login))
        if planned.text("kind") == parquet.KIND:
            return parquet.open_planned(planned, files)
        return open_remote_planned(planned, files.blob(planned.text("file")), None)


class _Files(RemoteFiles):
    """The files of a dataset."""

    def __init__(self, repository: Repository, names: Sequence[str], client: HttpClient) -> None:
        where = f"{repository.dataset}@{repository.commit[:12]}"
        super().__init__(where, names, self.blob, AT_ONCE)
        self._repository = repository
        self._client = client

    def blob(self, name: str) -> HttpBlob:
        file = ServedFile(name, self._repository.address(name))
        return HttpBlob(file, self._client, cache_field="")


def _below(names: Sequence[str], path: str | None, repository: Repository) -> Sequence[str]:
    """The files at or below a path."""
    if path is None:
        return names
    chosen = [name for name in names if name == path or name.startswith(f"{path.rstrip('/')}/")]
    if not chosen:
        raise InputError(
            f"{repository.dataset}: has no file at or below {path}, at the commit "
            f"{repository.commit}; check path"
        )
    return chosen


def _archive(names: Sequence[str], repository: Repository) -> str:
    found = [name for name in names if name.endswith(_ARCHIVES)]
    if len(found) != 1:
        what = f"{len(found)} tars and zips" if found else "neither Parquet files nor a tar or zip"
        raise InputError(f"{repository.dataset}: holds {what}; write the path of one (path)")
    return found[0]


def _add_reading_options(add_argument: Any) -> None:
    for option, value, help in (
        ("--hf-dataset", "NAME", "the dataset, as ILSVRC/imagenet-1k"),
        ("--hf-endpoint", "URL", "the server (default: $HF_ENDPOINT, or https://huggingface.co)"),
        ("--hf-path", "PATH", "a file or folder of the dataset (default: all of it)"),
    ):
        add_argument(option, type=types.text, metavar=value, help=help)
