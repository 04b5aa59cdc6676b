"""Runs the preparing programs with a source on a server or in a bucket."""

import json
from pathlib import Path

from imagenet_workloads.commands import fetch, pack, seal
from support.preparation import dataset_of, run_index


def files_on_server(url: str, *names: str, **attributes: str) -> list[str]:
    """The option of files on a server; attributes are those of the first."""
    files: list[dict[str, str]] = [{"name": name, "url": f"{url}/{name}"} for name in names]
    files[0] |= attributes
    return ["--http-files", json.dumps(files)]


def prepare_remote(data: Path, reading: list[str], *indexing: str) -> Path:
    """Runs index, pack and seal in this process; returns the dataset's folder.

    Args:
        data: the dataset volume.
        reading: the options by which index and pack open the source.
        indexing: further options of index.
    """
    key = run_index(None, data, *reading, *indexing)["key"]
    common = ["--data", str(data), "--key", key]
    assert pack.main([*common, *reading, "--threads", "2"]) == 0
    assert seal.main(common) == 0
    return dataset_of(data, key)


def prepare_fetched(cache: Path, data: Path, reading: list[str], *indexing: str) -> Path:
    """Runs fetch first, then the other programs with its cache; returns the dataset's folder.

    Args:
        cache: the volume of the cache.
        data: the dataset volume.
        reading: the options by which all programs open the source.
        indexing: further options of index.
    """
    options = [*reading, "--cache", str(cache)]
    assert fetch.main(options) == 0
    return prepare_remote(data, options, *indexing)


def write_secret(folder: Path, **keys: str) -> Path:
    """Writes a Secret as a pod finds it: a file for each key."""
    folder.mkdir()
    for key, value in keys.items():
        (folder / key).write_text(f"{value}\n")
    return folder
