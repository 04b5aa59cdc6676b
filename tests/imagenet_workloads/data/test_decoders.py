"""Programs that decode: what they have, how they end, and what is said when one dies."""

import errno
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from imagenet_spec.program.train import PROCESSES, THREADS
from imagenet_workloads.data import ordered_data
from imagenet_workloads.data.augmentation import Recipe
from imagenet_workloads.data.batches import WorkerShare
from imagenet_workloads.dataset import RECORD_IO
from imagenet_workloads.errors import WorkloadError
from imagenet_workloads.process.program import TERMINATED
from imagenet_workloads.records.split import Records
from support.image_splits import open_images, write_split
from support.pictures import jpeg
from support.processes import is_running, processes_with, wait_until
from support.reading import copied, ordered_training
from support.sentences import says
from support.tiny_dataset import write_dataset
from support.training_cluster import PROGRAM, plain_environment

IMAGES = [jpeg(number, 24, 32) for number in range(200)]
RECIPE = Recipe((3, 16, 16))
SHARE = WorkerShare(0, 1, 8)

# A process that trains, until it is killed: it says which images it has.
TRAINER = """
import sys
from pathlib import Path
from imagenet_workloads.data.augmentation import Recipe
from imagenet_workloads.data.batches import WorkerShare
from imagenet_workloads.records.split import open_paths
from support.reading import ordered_training

records = open_paths(sys.argv[1])
share = WorkerShare(0, 1, 8)
with ordered_training(records, Recipe((3, 16, 16)), share, 2, "processes") as training:
    for batch in training.epoch(0):
        print(batch.count, flush=True)
        sys.stdin.readline()
"""


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return open_images(tmp_path / "split", RECORD_IO, IMAGES, shards=3)


def decoders_of(process: int) -> list[int]:
    """Return the decoders that a process has started."""
    return processes_with(f"decoder_program\0{process}\0")


def child_of(process: int) -> int:
    """Return the only child of a process: of PID 1, it is the program."""
    return int(Path(f"/proc/{process}/task/{process}/children").read_text())


@pytest.fixture
def trainer(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    write_split(tmp_path / "split", RECORD_IO, IMAGES)
    with subprocess.Popen(
        [sys.executable, "-c", TRAINER, str(tmp_path / "split/train-00000.rec")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "AWS_SECRET_ACCESS_KEY": "secret",
        },
    ) as process:
        yield process
        process.kill()


def end_by_its_input(trainer: subprocess.Popen[str]) -> None:
    assert trainer.stdin is not None
    trainer.stdin.write("\n" * 100)
    trainer.stdin.close()


ENDS: dict[str, Callable[[subprocess.Popen[str]], None]] = {
    "an end of the epoch": end_by_its_input,
    "SIGTERM": lambda trainer: trainer.terminate(),
    "SIGINT": lambda trainer: trainer.send_signal(signal.SIGINT),
    "SIGKILL": lambda trainer: trainer.kill(),
}


@pytest.mark.parametrize("end", ENDS)
def test_decoders_end_with_the_process_that_trains(
    end: str, trainer: subprocess.Popen[str]
) -> None:
    assert trainer.stdout is not None
    assert trainer.stdout.readline() == "8\n"
    decoders = decoders_of(trainer.pid)
    assert len(decoders) == 2
    ENDS[end](trainer)
    trainer.stdout.read()
    wait_until(lambda: not any(map(is_running, decoders)), "the decoders end")


# It still trains when the test looks for its decoders.
@pytest.mark.costly
@pytest.mark.parametrize(("epochs", "code"), [(8, 0), (1000, TERMINATED)])
def test_a_training_leaves_no_decoder(epochs: int, code: int, tmp_path: Path) -> None:
    write_dataset(tmp_path / "data", 64, 16)
    arguments = ["--network", "resnet", "--num-layers", "8", "--image-shape", "3,28,28"]
    arguments += ["--batch-size", "8", "--num-epochs", str(epochs), "--disp-batches", "1"]
    arguments += ["--dataset", str(tmp_path / "data"), "--output", str(tmp_path / "out")]
    arguments += ["--decoding", PROCESSES, "--data-nthreads", "2"]
    with subprocess.Popen(
        [PROGRAM, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=plain_environment(),
    ) as training:
        assert training.stdout is not None
        while "epoch 1 batch 1:" not in training.stdout.readline():
            assert training.poll() is None
        decoders = decoders_of(child_of(training.pid))
        assert len(decoders) == 2
        if code:
            training.terminate()
        training.stdout.read()
    assert training.returncode == code
    assert not any(map(is_running, decoders))


def test_a_decoder_inherits_memory_and_a_socket_alone(
    trainer: subprocess.Popen[str],
) -> None:
    assert trainer.stdout is not None
    trainer.stdout.readline()
    decoder, *_ = decoders_of(trainer.pid)
    # Standard input is nothing; output and errors are those of the process that trains.
    beyond = [path for path in Path(f"/proc/{decoder}/fd").iterdir() if int(path.name) > 2]
    found = Counter(str(path.readlink()).partition(":")[0] for path in beyond)
    # Records, slots, and the latter once more by their mapping.
    assert found == {"/memfd": 3, "socket": 1}
    environment = Path(f"/proc/{decoder}/environ").read_bytes().split(b"\0")
    names = {variable.partition(b"=")[0] for variable in environment if variable}
    kinds = (b"HOME", b"PYTHON", b"LD_", b"OMP_", b"OPENBLAS_")
    assert b"PYTHONPATH" in names and all(name.startswith(kinds) for name in names)
    maps = Path(f"/proc/{decoder}/maps").read_text()
    assert "libjpeg" in maps or "simplejpeg" in maps
    assert not any(name in maps for name in ("libmxnet", "libtorch", "libcuda", "tensorflow"))


HELD = r"; it had (\d images from .*record \d+ \(from 0\) on.*|no records)"


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (signal.SIGKILL, rf"decoder 0 was ended by SIGKILL{HELD}\. The kernel .* memory"),
        # As by a crash, but no record causes it again.
        (signal.SIGSEGV, rf"by SIGSEGV{HELD}\. Another decoder decoded each of these records"),
    ],
)
def test_a_dead_decoder_is_named_with_its_signal_and_records(
    number: signal.Signals, said: str, records: Records
) -> None:
    with ordered_training(records, RECIPE, SHARE, 1, PROCESSES) as training:
        batches = training.epoch(0)
        next(batches)
        (decoder,) = decoders_of(os.getpid())
        os.kill(decoder, number)
        with pytest.raises(WorkloadError, match=said):
            list(batches)


def test_decoders_that_cannot_start_are_no_damaged_images(
    records: Records, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cv2.py").write_text("raise ImportError('no libGL')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with (
        ordered_training(records, RECIPE, SHARE, 2, PROCESSES) as training,
        pytest.raises(
            WorkloadError, match=says("decoders cannot start", "one ended itself with exit cod")
        ),
    ):
        list(training.epoch(0))


def test_a_machine_without_room_for_a_program_is_named(
    records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def start(*command: Any, **how: Any) -> subprocess.Popen[bytes]:
        if started:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        started.append(real(*command, **how))
        return started[0]

    real = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", start)
    with (
        ordered_training(records, RECIPE, SHARE, 2, PROCESSES) as training,
        pytest.raises(WorkloadError, match="decoders cannot start: Resource temporarily"),
    ):
        list(training.epoch(0))
    # The first one has ended as well.
    assert started[0].returncode == -signal.SIGKILL


# libjpeg of the decoders crashes with an image that has these bytes.
CRASHES = b"this crashes"
CRASHING = f"""
import os, signal, simplejpeg

decode = simplejpeg.decode_jpeg

def crash(data, *arguments, **named):
    if {CRASHES!r} in bytes(data):
        os.kill(os.getpid(), signal.SIGSEGV)
    return decode(data, *arguments, **named)

simplejpeg.decode_jpeg = crash
"""


def test_a_record_that_ends_two_decoders_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    comment = b"\xff\xfe" + (len(CRASHES) + 2).to_bytes(2) + CRASHES
    images = [*IMAGES[:9], IMAGES[9][:2] + comment + IMAGES[9][2:], *IMAGES[10:]]
    records = open_images(tmp_path / "split", RECORD_IO, images)
    (tmp_path / "sitecustomize.py").write_text(CRASHING)
    monkeypatch.syspath_prepend(str(tmp_path))
    wanted = says("train-00000.rec", "record 9 (from 0)", "ended two decoders", "SIGSEGV")
    with (
        ordered_training(records, RECIPE, SHARE, 2, PROCESSES) as training,
        pytest.raises(WorkloadError, match=wanted),
    ):
        copied(training.epoch(0))


@pytest.mark.parametrize(
    ("cores", "wanted", "variables", "expected"),
    [
        (16, None, {}, 15),
        (1, None, {}, 1),
        (2, None, {}, 1),
        (16, None, {"HOROVOD_LOCAL_SIZE": "4"}, 3),
        (96, None, {"LOCAL_WORLD_SIZE": "8"}, 11),
        (8, None, {"LOCAL_WORLD_SIZE": "8"}, 1),
        # Of a field, for each process.
        (16, 4, {"HOROVOD_LOCAL_SIZE": "2"}, 4),
        (2, 4, {}, 2),
        # A user's own variables.
        (16, None, {"RANK": "3", "LOCAL_WORLD_SIZE": "many"}, 15),
    ],
)
def test_a_process_decodes_on_its_part_of_the_cores(
    cores: int,
    wanted: int | None,
    variables: dict[str, str],
    expected: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(cores)))
    monkeypatch.setenv("IMAGENET_CPUS", str(cores))
    assert ordered_data.decoding_cores(wanted, variables) == expected


def test_a_machine_without_a_limit_is_not_filled_with_decoders(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(256)))
    assert ordered_data.decoding_cores(None, {}) == ordered_data.MOST_DECODERS
    assert ordered_data.decoding_cores(None, {"LOCAL_WORLD_SIZE": "4"}) == 16
    assert ordered_data.decoding_cores(40, {}) == 40


@pytest.mark.parametrize(("cores", "faster"), [(1, THREADS), (2, THREADS), (3, PROCESSES)])
def test_threads_decode_on_two_cores(
    cores: int, faster: str, monkeypatch: pytest.MonkeyPatch, records: Records
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(cores)))
    with ordered_training(records, RECIPE, SHARE, 1, by=None) as training:
        next(training.epoch(0))
        assert bool(decoders_of(os.getpid())) == (faster == PROCESSES)
