"""Training and validation on images of several sizes: killed, it ends with the same bytes."""

import hashlib
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path

import cv2
import pytest
import torch
from safetensors import safe_open
from torch._dynamo.utils import counters

from imagenet_spec.program.train import PROCESSES, THREADS
from imagenet_workloads.commands.train import parse
from imagenet_workloads.data.inputs import count_sizes
from imagenet_workloads.data.worker_data import Batch
from imagenet_workloads.errors import InputError
from imagenet_workloads.fields import Fields
from imagenet_workloads.frameworks.pytorch import data as datasets
from imagenet_workloads.frameworks.pytorch import exporter, networks
from imagenet_workloads.frameworks.pytorch.compilation import CompiledNetwork
from imagenet_workloads.frameworks.pytorch.learner import PyTorchLearner
from imagenet_workloads.train.group import Flags
from support.digit_datasets import VALIDATION, prepare_digits
from support.digits import digit, label
from support.pod_subset import REPOSITORY
from support.pytorch_learners import RESNET, learner
from support.training_cluster import PROGRAM, result, train

# 1,455 images are 6 batches of 256, the last one with 175 images.
STEPS, EPOCHS = 6, 3
ARGUMENTS = (
    *("--framework", "PyTorch", "--network", "resnet", "--num-layers", "8"),
    *("--image-shape", "3,28,28", "--image-sizes", "0:16,1:24,2:20", "--validation-size", "32"),
    *("--batch-size", "256", "--num-epochs", str(EPOCHS), "--warmup-epochs", "1"),
    *("--random-resized-crop", "1", "--min-random-area", "0.5", "--random-mirror", "1"),
    *("--mixup", "0.2", "--cutmix", "1", "--deterministic", "1", "--data-nthreads", "2"),
    *("--disp-batches", "1", "--checkpoint-every-seconds", "0.000001"),
)
KILLER = REPOSITORY / "tests/chaos/kill_after_step"


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return prepare_digits(tmp_path_factory.mktemp("digits"), "RecordIO")


@pytest.fixture(scope="module")
def whole(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of a training that nothing has interrupted."""
    output = tmp_path_factory.mktemp("whole")
    assert run(digits, output, 0, THREADS) == 0
    return output


def run(digits: Path, output: Path, attempt: int, decoding: str, **environment: str) -> int:
    job = {"IMAGENET_JOB_UID": "uid", "IMAGENET_SPEC_HASH": "hash"}
    ended = train(
        [*ARGUMENTS, "--dataset", str(digits), "--output", str(output), "--decoding", decoding],
        **job,
        IMAGENET_ATTEMPT=str(attempt),
        **environment,
    )
    return ended.returncode


def ended(attempt: Path) -> Mapping[str, str]:
    """The SHA-256 of the exported model, and of each file of the last checkpoint's state."""
    checkpoint = attempt / f"checkpoints/epoch-{EPOCHS:04}-batch-00000000"
    files = [attempt / f"model-{EPOCHS:04}.safetensors"]
    files += [checkpoint / name for name in ("weights.safetensors", "states.safetensors")] + [
        checkpoint / "statistics.npy"
    ]
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@pytest.mark.parametrize(
    ("step", "decoding"),
    [(4, (THREADS, PROCESSES)), (STEPS, (PROCESSES, THREADS)), (2 * STEPS + 2, (THREADS,) * 2)],
    ids=["before a change", "at a change", "after all changes"],
)
def test_a_killed_training_ends_with_the_same_bytes(
    digits: Path, whole: Path, tmp_path: Path, step: int, decoding: tuple[str, str]
) -> None:
    path = os.pathsep.join(filter(None, (str(KILLER), os.environ.get("PYTHONPATH"))))
    killer = {"PYTHONPATH": path, "KILL_AFTER_STEP": str(step)}
    assert run(digits, tmp_path, 0, decoding[0], **killer) == 128 + 9
    assert not (tmp_path / "attempts/r0/result.json").exists()
    assert run(digits, tmp_path, 1, decoding[1]) == 0
    assert ended(tmp_path / "attempts/r1") == ended(whole / "attempts/r0")
    found = result(tmp_path, attempt=1)
    assert found["resumedFrom"].startswith(str(tmp_path / "attempts/r0"))
    assert found["validation"] == result(whole)["validation"]


def test_the_model_takes_images_of_the_size_of_validation(whole: Path, tmp_path: Path) -> None:
    found = result(whole)
    assert found["validation"]["images"] == VALIDATION
    assert found["inputs"]["imageShape"] == [3, 32, 32]
    (crop,) = (step for step in found["inputs"]["steps"] if step["step"] == "centerCrop")
    assert (crop["height"], crop["width"]) == (32, 32)
    attempt = whole / "attempts/r0"
    with safe_open(attempt / "model-0003.safetensors", "pt") as file:
        assert file.metadata()["image_shape"] == "3,32,32"
    files = Fields.read(attempt / "result.json").object("model")
    exporter.load(attempt, files, (3, 32, 32)).write("torchscript", tmp_path / "model.pt")
    with torch.inference_mode():
        assert torch.jit.load(tmp_path / "model.pt")(torch.zeros(1, 3, 32, 32)).shape == (1, 9)

    image = tmp_path / "digit.png"
    cv2.imwrite(str(image), digit(6))
    program = PROGRAM.with_name("imagenet-predict")
    command = [str(program), "--model", str(whole), "--top", "9", "--output", "json", str(image)]
    said = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert str(label(6)) in {one["class"] for one in said[0]["predictions"]}


def test_made_up_images_have_the_sizes_too() -> None:
    options = parse([*ARGUMENTS, "--benchmark", "1", "--num-examples", "512", "--batch-size", "4"])
    data = datasets.choose(options, 0, 1, 1, torch.device("cpu"))
    with closing(data):
        shapes = [next(data.training.epoch(epoch, 0)).data.shape for epoch in range(4)]
    assert [tuple(shape) for shape in shapes] == [(4, side, side, 3) for side in (16, 24, 20, 20)]
    assert data.inputs.image_shape == (3, 32, 32)


EIGHT = (16, 18, 20, 22, 24, 26, 28, 30)


class SavedCode:
    """Counts how often code is saved, in place of a `CompileCache`."""

    def __init__(self) -> None:
        self.saved = 0

    def save(self) -> None:
        self.saved += 1


def batch(side: int) -> Batch:
    images = torch.randn(8, side, side, 3, generator=torch.Generator().manual_seed(side))
    return Batch(images, torch.arange(8) % 4, 8)


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """torch.compile that captures graphs and runs them as they are, which takes no minutes."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def pass_through(made: PyTorchLearner) -> None:
    """Train with each of eight sizes, and validate after each with a ninth."""
    for side in EIGHT:
        for _ in range(2):
            made.train(batch(side), True, Flags())
        made.predict(batch(32))


def test_each_size_has_one_compiled_network_whose_code_is_kept(graphs: None) -> None:
    sizes = ",".join(f"{epoch}:{side}" for epoch, side in enumerate(EIGHT))
    options = parse([*ARGUMENTS, "--image-sizes", sizes])
    compiled = partial(CompiledNetwork, is_required=True, sizes=count_sizes(options.model))
    cache = SavedCode()
    made = learner(RESNET, compiled=compiled, cache=cache)  # type: ignore[arg-type]
    pass_through(made)
    # None has been compiled for any size, and none beyond PyTorch's limit runs without compiling.
    assert counters["stats"]["unique_graphs"] == len(EIGHT) + 1
    assert cache.saved == len(EIGHT) + 1
    plain = learner(RESNET)
    pass_through(plain)
    torch.testing.assert_close(dict(made.network.state_dict()), dict(plain.network.state_dict()))


@pytest.mark.parametrize(
    ("network", "more", "named"),
    [
        ("timm/vit_tiny_patch16_224", ("--image-sizes", "0:128"), "image-sizes (model.imageSizes)"),
        (
            "timm/swin_tiny_patch4_window7_224",
            ("--validation-size", "256"),
            "validation-size (model.validationSize)",
        ),
    ],
)
def test_a_network_of_timm_with_a_fixed_input_is_refused(
    network: str, more: tuple[str, ...], named: str
) -> None:
    options = parse(["--framework", "PyTorch", "--network", network, *more])
    with pytest.raises(InputError) as refused:
        networks.require_sizes(options.model)
    assert str(refused.value).startswith(f"--{named}: {network} has a fixed input")
    assert "\n" not in str(refused.value)


def test_another_network_of_timm_takes_all_sizes() -> None:
    arguments = ("--network", "timm/resnet18", "--image-sizes", "0:128,3:160")
    networks.require_sizes(parse(["--framework", "PyTorch", *arguments]).model)
