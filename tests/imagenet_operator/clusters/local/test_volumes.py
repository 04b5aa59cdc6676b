from pathlib import Path

import pytest

from imagenet_operator.clusters.interface import LocalError
from imagenet_operator.clusters.local.machine import Volumes


def test_a_claim_is_a_folder_once_it_is_provisioned(tmp_path: Path) -> None:
    volumes = Volumes(tmp_path / "volumes", {})
    with pytest.raises(LocalError, match=f"create {tmp_path}/volumes/data .* --volume data=PATH"):
        volumes.folder("data")

    volumes.provision("data")

    assert volumes.folder("data") == tmp_path / "volumes" / "data"


def test_a_folder_that_cannot_be_looked_at_is_named(tmp_path: Path) -> None:
    volumes = Volumes(tmp_path / ("x" * 300), {})

    with pytest.raises(LocalError, match=r"claim 'data': File name too long; .*--volume data=PATH"):
        volumes.folder("data")


def test_what_is_there_already_is_kept(tmp_path: Path) -> None:
    volumes = Volumes(tmp_path, {})
    volumes.provision("data")
    (volumes.folder("data") / "file").touch()

    volumes.provision("data")

    assert (volumes.folder("data") / "file").exists()


def test_a_removed_claim_takes_its_files_along(tmp_path: Path) -> None:
    volumes = Volumes(tmp_path, {})
    volumes.provision("data")
    (volumes.folder("data") / "file").touch()

    volumes.remove("data")

    assert not (tmp_path / "data").exists()


def test_a_mapped_folder_is_never_removed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    volumes = Volumes(tmp_path / "volumes", {"raw": elsewhere})
    assert volumes.folder("raw") == elsewhere

    volumes.remove("raw")

    assert elsewhere.is_dir()
