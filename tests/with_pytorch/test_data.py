"""Images on their way to the network: numbers for a CPU, bytes for a GPU, channels as last axis."""

from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest
import torch
from torch import nn

from imagenet_spec.program.train import Options
from imagenet_workloads.checkpoint import Identity, Position
from imagenet_workloads.commands.train import parse
from imagenet_workloads.data.worker_data import Batch, Data
from imagenet_workloads.frameworks.pytorch import data as datasets
from imagenet_workloads.frameworks.pytorch.framework import create
from imagenet_workloads.frameworks.pytorch.learner import PyTorchLearner
from imagenet_workloads.rendezvous.none import NoRendezvous
from imagenet_workloads.train.framework import Outputs, UpdatePlan
from imagenet_workloads.train.group import Flags
from imagenet_workloads.train.networks import NetworkRequest
from imagenet_workloads.train.resume import ResumePoint
from imagenet_workloads.train.schedule import Schedule
from support.decoded import decoded_at_the_end
from support.digit_datasets import prepare_digits
from support.pytorch_learners import SHAPE, learner
from support.reading import poison_free_slots

CPU, GPU = torch.device("cpu"), torch.device("cuda")
NETWORK = ("--network", "resnet", "--num-layers", "8", "--image-shape", "3,28,28")


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> Options:
    dataset = prepare_digits(tmp_path_factory.mktemp("digits"), "RecordIO")
    more = ("--batch-size", "8", "--data-nthreads", "1", "--rgb-std", "58,57,57")
    return parse(["--framework", "PyTorch", "--dataset", str(dataset), *NETWORK, *more])


def opened(options: Options, device: torch.device) -> tuple[Data, Batch]:
    data = datasets.choose(options, 0, 1, 1, device)
    return data, next(data.training.epoch(0, 0))


def trained(data: Data, batch: Batch) -> tuple[PyTorchLearner, Outputs]:
    request = NetworkRequest("resnet", 8, data.class_count, SHAPE)
    made = learner(request, inputs=data.inputs)
    return made, made.train(batch, True, Flags())[1]


def test_a_resumed_epoch_reads_no_earlier_batch(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So there is nothing to report to the watchdog before the first batch."""
    # Of a next epoch, batches would be begun meanwhile.
    alone = options._replace(optimizer=options.optimizer.replace(num_epochs=1))
    training = datasets.choose(alone, 0, 1, 1, CPU).training
    assert decoded_at_the_end(training, monkeypatch) == (training.images % 8, training.images % 8)


def test_bytes_for_a_gpu_train_like_the_numbers_for_a_cpu(options: Options) -> None:
    data, numbers = opened(options, CPU)
    _, pixels = opened(options, GPU)
    assert (numbers.data.dtype, pixels.data.dtype) == (torch.float32, torch.uint8)
    assert data.inputs.std == (58.0, 57.0, 57.0)
    (expected, outputs), (found, others) = trained(data, numbers), trained(data, pixels)
    torch.testing.assert_close(others.probabilities, outputs.probabilities)
    states = expected.network.state_dict()
    torch.testing.assert_close(dict(found.network.state_dict()), dict(states))
    predicted = (found.predict(pixels), expected.predict(numbers))
    torch.testing.assert_close(*(one.probabilities for one in predicted))


@pytest.mark.parametrize("device", [CPU, GPU])
def test_channels_are_the_last_axis_of_images_and_weights(
    options: Options, device: torch.device, tmp_path: Path
) -> None:
    framework = create(options, NoRendezvous(), tmp_path, Identity("", ""))
    framework.check()
    framework.join()
    data, batch = opened(options, device)
    plan = UpdatePlan(1, 8, Schedule(0.1, 10, 1), 0)
    made = framework.learner(data, ResumePoint(Position(0, 0)), plan)
    seen: list[torch.Tensor] = []

    def note(_: nn.Module, images: tuple[torch.Tensor]) -> None:
        seen.extend(images)

    for layer in made.network.modules():
        if isinstance(layer, nn.Conv2d):
            layer.register_forward_pre_hook(note)
            seen.append(layer.weight)
    made.train(batch, True, Flags())
    assert all(one.is_contiguous(memory_format=torch.channels_last) for one in seen)
    # 9 convolutions, by weights and images.
    assert len(seen) == 18


def weights_of_an_epoch(options: Options) -> dict[str, torch.Tensor]:
    data = datasets.choose(options, 0, 1, 1, CPU)
    with closing(data):
        request = NetworkRequest("resnet", 8, data.class_count, SHAPE)
        made = learner(request, inputs=data.inputs)
        for batch in islice(data.training.epoch(0, 0), 12):
            made.train(batch, True, Flags())
    weights: dict[str, torch.Tensor] = made.network.state_dict()
    return weights


def test_a_step_reads_no_slot_that_is_free(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = weights_of_an_epoch(options)
    poison_free_slots(monkeypatch)
    for name, found in weights_of_an_epoch(options).items():
        assert torch.equal(found, expected[name]), name
