"""ImageRecordIter's memory: the batches that it never frees, and those that it overwrites."""

import subprocess
import sys
from collections.abc import Iterator

import mxnet as mx
import numpy as np
import pytest

from imagenet_workloads.data.worker_data import Batch
from imagenet_workloads.frameworks.mxnet.record_files import RecordFiles, join
from imagenet_workloads.frameworks.mxnet.records import Reader, RecordTraining
from imagenet_workloads.frameworks.mxnet.replicas import DATA, Replicas
from support.processes import DEADLINE_SECONDS
from support.training_cluster import plain_environment

EDGE = 128
SHAPE = (3, EDGE, EDGE)
# A batch is 4.7 MB, so that what is lost of them is seen beside all else.
BATCH_SIZE = 24
BATCHES = 8
# The edge of the matrices whose product takes longer than to decode some batches.
SLOW = 1000

# Training with a last lap that is cut short after a batch, and validation; both grow to their size
# in the first epochs.
CHILD = """
import sys
from pathlib import Path
from imagenet_workloads.frameworks.mxnet.record_files import RecordFiles
from imagenet_workloads.frameworks.mxnet.records import Reader, RecordTraining, RecordValidation

def resident():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) * 1024

record, index, images, edge, size, accumulation_steps, first = sys.argv[1:]
files = RecordFiles((Path(record),), Path(index), int(images))
reader = Reader((3, int(edge), int(edge)), int(size), (0.0,) * 3, (1.0,) * 3, threads=1)
training = RecordTraining(reader, files, 0, 1, 0, int(accumulation_steps), {})
validation = RecordValidation(reader, files, 0)
for epoch in range(9):
    if epoch == 3:
        before = resident()
    batches = training.epoch(epoch, int(first))
    # As the training's loop does: it never asks for a batch too many.
    for _ in range(training.batches_per_epoch - int(first)):
        next(batches).data.wait_to_read()
    for batch in validation.batches(0, 1):
        batch.data.wait_to_read()
print(resident() - before)
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> RecordFiles:
    """Records of as many images as fill the batches, each of them different."""
    folder = tmp_path_factory.mktemp("records")
    record, index = folder / "0.rec", folder / "0.idx"
    random = np.random.default_rng(0)
    writer = mx.recordio.MXIndexedRecordIO(str(index), str(record), "w")
    for number in range(BATCHES * BATCH_SIZE):
        image = np.full((EDGE, EDGE, 3), random.integers(0, 256, 3), np.uint8)
        image[: EDGE // 2] //= 2
        header = mx.recordio.IRHeader(0, float(number), number, 0)
        writer.write_idx(number, mx.recordio.pack_img(header, image))
    writer.close()
    return join([(record, index)], folder / "joined.idx")


@pytest.mark.costly
@pytest.mark.parametrize(("accumulation_steps", "first"), [(1, 0), (3, 2)])
def test_epochs_leave_no_batches_behind(
    files: RecordFiles, accumulation_steps: int, first: int
) -> None:
    numbers = (files.images, EDGE, BATCH_SIZE, accumulation_steps, first)
    ended = subprocess.run(
        [sys.executable, "-c", CHILD, files.records[0], files.index, *map(str, numbers)],
        # Freed arrays return to the system, so only leaks grow.
        env=plain_environment(MALLOC_MMAP_THRESHOLD_="1000000"),
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_SECONDS,
    )
    assert ended.returncode == 0, ended.stderr
    batch = BATCH_SIZE * 3 * EDGE * EDGE * 4
    assert int(ended.stdout) / batch < 5


def trained_on(batches: Iterator[Batch]) -> list[bytes]:
    """The gradients of every batch on two devices, where each begins with work that takes long."""
    data, weight = mx.sym.var(DATA), mx.sym.var("weight")
    dense = mx.sym.FullyConnected(data, weight, num_hidden=2, no_bias=True)
    devices = [mx.cpu(0), mx.cpu(1)]
    replicas = Replicas(mx.sym.SoftmaxOutput(dense, name="softmax"), devices, BATCH_SIZE, SHAPE)
    gradients = []
    slow = [mx.nd.ones((SLOW, SLOW), device) for device in devices]
    for batch in batches:
        # None of this has ended before the next batch is requested.
        for array in slow:
            mx.nd.dot(array, array, out=array)
        replicas.forward_backward(batch.data, batch.label)
        gradients += [gradient.copy() for gradient in replicas.gradients("weight")]
    return [gradient.asnumpy().tobytes() for gradient in gradients]


def unhurried(batches: Iterator[Batch]) -> Iterator[Batch]:
    for batch in batches:
        mx.nd.waitall()
        yield Batch(mx.nd.array(batch.data.asnumpy()), mx.nd.array(batch.label.asnumpy()), 0)


@pytest.mark.parametrize("first", [0, 3])
def test_a_batch_is_learned_from_before_its_memory_is_filled_anew(
    files: RecordFiles, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The last of the 9 batches is of a second lap.
    data = RecordTraining(
        Reader(SHAPE, BATCH_SIZE, (9.0,) * 3, (2.0,) * 3, threads=1),
        files,
        rank=0,
        ranks=1,
        seed=0,
        accumulation_steps=3,
        augmentation={"rand_mirror": True, "brightness": 0.5},
    )
    hurried = trained_on(data.epoch(2, first))

    original = mx.io.ImageRecordIter
    monkeypatch.setattr(
        mx.io,
        "ImageRecordIter",
        lambda **given: original(**(given | {"prefetch_buffer": 4, "ctx": "gpu"})),
    )
    wanted = trained_on(unhurried(data.epoch(2, first)))
    assert len(set(wanted)) == 2 * (BATCHES + 1 - first)
    assert hurried == wanted
