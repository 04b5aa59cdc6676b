"""Random damage of Parquet files and of WebDataset's shards: read, or an error with the name."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.damaged_sources import FILES, IMAGES
from support.parquet_files import hugging_face, rows
from support.preparation import finish, start

COUNT = 150


@pytest.mark.parametrize("kind", FILES)
def test_damage_ends_with_the_name_or_without_an_error(kind: str, tmp_path: Path) -> None:
    """In a process of its own: a library may end it, and a hang must have an end."""
    program = [sys.executable, "-m", "support.damaged_sources"]
    ended = subprocess.run(
        [*program, kind, str(tmp_path), "0", str(COUNT)],
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )

    last = ended.stdout.splitlines()[-1]
    assert ended.returncode == 0, f"{last}: {ended.stderr}"
    read, damaged = map(int, last.split())
    assert read + damaged == COUNT
    assert min(read, damaged) > 0


def test_statistics_that_do_not_fit_a_column_end_no_program(tmp_path: Path) -> None:
    """pyarrow ends the process if it is asked for the metadata of such a column."""
    written = hugging_face(rows(IMAGES), ("dog", "cat"))
    optional, required = b"\x35\x02\x18\x05image", b"\x35\x00\x18\x05image"
    path = tmp_path / "x.parquet"
    path.write_bytes(written.replace(optional, required))
    assert path.read_bytes() != written

    options = ("--source", path, "--data", tmp_path / "data", "--shards", "1")
    code, _, errors = finish(start("index", *options))
    assert code == 3
    assert f"{path}: cannot be read as Parquet" in errors
