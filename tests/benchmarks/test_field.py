"""What `benchmarks.field` measures beside other libraries, as far as it needs none of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.cpu_time import cpu_seconds
from benchmarks.field import __main__ as field
from benchmarks.field.read import READERS
from benchmarks.field.write import WRITERS
from benchmarks.photographs import make_photographs
from benchmarks.preparation import programs
from benchmarks.read_datasets import records_of, write_files

from imagenet_workloads.dataset import RECORD_IO, read_dataset
from imagenet_workloads.prepare.transcode import header
from imagenet_workloads.records.split import Records, open_split

IMAGES = 12
WORKS = "import time\nwhile time.process_time() < {seconds}: pass\nprint(flush=True)\ninput()"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for module in (field, programs):
        monkeypatch.setattr(module, "BENCH", tmp_path)
    return tmp_path


def images_of(records: Records) -> list[tuple[int, bytes]]:
    """Return the label and the image of each record."""
    found = []
    for number in range(records.count):
        (run,) = records.runs([number])
        record = records.parse(number, records.read(run)[0])
        found.append((int(record.label), bytes(record.encoded)))
    return found


def test_processes_count_while_they_live_and_afterwards() -> None:
    command = [sys.executable, "-c", WORKS.format(seconds=0.5)]
    before = cpu_seconds()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        alive = cpu_seconds() - before
        process.communicate(b"\n")
    ended = cpu_seconds() - before
    assert alive >= 0.4
    assert ended >= 0.4
    assert ended - alive < 0.4


def test_the_field_reads_the_images_of_the_records(tmp_path: Path) -> None:
    folder, files = records_of(tmp_path, 64, IMAGES, RECORD_IO), tmp_path / "files"
    files.mkdir()
    dataset = read_dataset(folder)
    write_files(dataset, folder, files, times=2)
    records = open_split(dataset.train, RECORD_IO, folder)
    stored = [(f"{label:03}", image) for label, image in images_of(records) for _ in range(2)]
    written = [(path.parent.name, path.read_bytes()) for path in files.rglob("*.jpg")]
    assert sorted(written) == sorted(stored)


@pytest.mark.costly
def test_our_copies_are_those_of_the_photographs(bench: Path) -> None:
    photographs = make_photographs(bench, IMAGES)
    steps = field._copied_by_ours(photographs)
    assert len(steps) == 3
    (sealed,) = (bench / "field-copies" / "ours" / "datasets").glob("*/dataset.json")
    dataset = read_dataset(sealed.parent)
    records = open_split(dataset.train, RECORD_IO, sealed.parent)
    sources = {path.read_bytes() for path in photographs.rglob("*.JPEG")}
    made = sources - {image for _, image in images_of(records)}
    # Preparation gives every image three colours.
    assert {header(image).colours for image in made} <= {"Gray"}
    assert len(made) < len(sources) // 2


def test_every_reader_of_the_field_has_words() -> None:
    assert field.DECODERS.keys() == READERS.keys()
    assert {name.partition("-")[0] for name in READERS} == field.NAMES.keys()
    assert field.COPIERS.keys() == WRITERS.keys()
