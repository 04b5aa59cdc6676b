"""What a checkpoint and an exported model hold, and what does not fit is refused."""

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from safetensors.torch import save as serialize
from torch import nn
from torchvision import models

from imagenet_workloads.checkpoint import Position
from imagenet_workloads.commands.train import parse
from imagenet_workloads.data.worker_data import Batch
from imagenet_workloads.errors import InputError, StorageError
from imagenet_workloads.fields import Fields
from imagenet_workloads.frameworks.pytorch import checkpoint_files, networks
from imagenet_workloads.frameworks.pytorch.checkpoint_files import load_network, restore, write
from imagenet_workloads.frameworks.pytorch.predictor import load
from imagenet_workloads.train.group import Flags
from imagenet_workloads.train.networks import NetworkRequest
from imagenet_workloads.train.receipts import State
from imagenet_workloads.train.resume import ResumePoint
from support.digit_datasets import prepare_digits
from support.pages import blocks
from support.pod_subset import REPOSITORY
from support.pytorch_learners import CLASSES, RESNET, SHAPE, batch, differing, learner, trained
from support.sentences import says
from support.training_cluster import train

OPTIONS = parse(["--framework", "PyTorch", "--network", "resnet"])


def test_a_checkpoint_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    whole = trained(2, learner())
    whole.snapshot().save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "states.safetensors",
        "weights.safetensors",
    ]
    again = learner()
    restore(OPTIONS, again.network, again.updater, ResumePoint(Position(0, 2), tmp_path, True))
    for made in (whole, again):
        made.train(batch(7), True, Flags())
    assert differing(again, whole) == []


def test_a_copy_is_not_moved_by_the_steps_that_follow(tmp_path: Path) -> None:
    made = trained(2, learner())
    copied, sums = made.snapshot(), _sums(made.snapshot().state())
    made.train(batch(7), True, Flags())
    assert _sums(copied.state()) == sums
    assert _sums(made.snapshot().state()) != sums
    copied.save(tmp_path)
    again = learner()
    restore(OPTIONS, again.network, again.updater, ResumePoint(Position(0, 2), tmp_path, True))
    assert differing(again, trained(2, learner())) == []


def _sums(state: State) -> dict[str, dict[str, bytes]]:
    return {
        part: {name: array.tobytes() for name, array in arrays.items()}
        for part, arrays in state.items()
    }


def test_a_file_has_the_librarys_bytes_with_its_fields_sorted(tmp_path: Path) -> None:
    """Receipts of an older version hold the checksums of what the library had written."""
    tensors = {
        "b": torch.arange(6, dtype=torch.float32).reshape(2, 3),
        "a": torch.ones(2, 3, 2, 2).to(memory_format=torch.channels_last),
        "steps": torch.tensor(7, dtype=torch.int64),
        "half": torch.ones(3, dtype=torch.bfloat16),
        "none": torch.empty(0),
        "masks": torch.tensor([True, False]),
    }
    metadata = {"optimizer": "sgd", "empty": ""}
    write(tmp_path / "found", tensors, metadata)
    whole = {name: tensor.contiguous() for name, tensor in tensors.items()}
    expected = serialize(whole, {"format": "pt", **metadata})
    size = int.from_bytes(expected[:8], "little")
    head = json.dumps(json.loads(expected[8 : 8 + size]), sort_keys=True).encode()
    head += b" " * (-len(head) % 8)
    found = (tmp_path / "found").read_bytes()
    assert found == len(head).to_bytes(8, "little") + head + expected[8 + size :]


def test_of_another_training_only_the_weights_are_taken(tmp_path: Path) -> None:
    first = trained(2, learner())
    first.snapshot().save(tmp_path)
    again = learner()
    restore(OPTIONS, again.network, again.updater, ResumePoint(Position(0, 0), tmp_path, False))
    assert differing(again, first) == []
    assert again.updater.states() == {}


def test_load_epoch_takes_the_exported_values(tmp_path: Path) -> None:
    first = trained(1, learner())
    first.export(tmp_path / "p", 3)
    again = learner()
    options = parse(["--model-prefix", str(tmp_path / "p"), "--load-epoch", "3"])
    restore(options, again.network, again.updater, ResumePoint(Position(3, 0)))
    assert differing(again, first) == []


def test_another_network_and_another_optimizer_are_refused(tmp_path: Path) -> None:
    trained(1, learner()).snapshot().save(tmp_path)
    begin = ResumePoint(Position(0, 1), tmp_path, True)
    other = learner(NetworkRequest("resnet", 8, 3, SHAPE))
    with pytest.raises(
        InputError, match=says("does not fit resnet", "size mismatch for fc1.weight")
    ):
        restore(OPTIONS, other.network, other.updater, begin)
    adam = learner(RESNET, "--optimizer", "adam")
    with pytest.raises(
        InputError, match=says("it has states of sgd", "not of adam", "use it with --init")
    ):
        restore(OPTIONS, adam.network, adam.updater, begin)


@pytest.mark.parametrize("content", [b"", b"no safetensors", None])
def test_a_file_that_is_none_is_named(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "weights.safetensors").write_bytes(content)
    made = learner()
    begin = ResumePoint(Position(0, 1), tmp_path, False)
    with pytest.raises(InputError, match=r"weights\.safetensors: not a file of safetensors"):
        restore(OPTIONS, made.network, made.updater, begin)


def test_the_model_is_one_file_that_names_its_network(tmp_path: Path) -> None:
    made = trained(1, learner())
    assert made.export(tmp_path / "model", 5) == {"weights": "model-0005.safetensors"}
    path = tmp_path / "model-0005.safetensors"
    with safe_open(path, "pt") as file:
        assert file.metadata() == {
            **{"format": "pt", "network": "resnet", "num_layers": "8", "classes": "4"},
            "image_shape": "3,28,28",
        }
    network, request = load_network(path)
    assert request == RESNET
    assert network.state_dict().keys() == load_file(path).keys()

    predictor = load(tmp_path, Fields.parse('{"weights": "model-0005.safetensors"}', "x"), SHAPE)
    images = batch(9)
    found = predictor.classify(np.ascontiguousarray(images.data.numpy().transpose(0, 3, 1, 2)))
    np.testing.assert_allclose(found, made.predict(images).probabilities, atol=1e-6)
    with pytest.raises(InputError, match=r"takes images of \(3, 28, 28\), not \(3, 32, 32\)"):
        load(tmp_path, Fields.parse('{"weights": "model-0005.safetensors"}', "x"), (3, 32, 32))


def test_the_page_shows_how_to_load_the_file_without_this_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = learner(NetworkRequest("resnet", 50, 1000, (3, 224, 224)))
    made.export(tmp_path / "model", 1)
    (tmp_path / "model-0001.safetensors").rename(tmp_path / "model.safetensors")
    monkeypatch.chdir(tmp_path)
    page = (REPOSITORY / "docs/running-locally.md").read_text()
    code = "\n".join(blocks(page, "## Export a model")[1])
    names: dict[str, Any] = {}
    exec(code, names)
    loaded = names["network"].state_dict()
    torch.testing.assert_close(loaded, made.network.state_dict(), rtol=0, atol=0)
    assert len(loaded) == 320


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"gone/model-0001\.safetensors"):
        learner().export(tmp_path / "gone" / "model", 1)


def test_padding_trains_nothing() -> None:
    """A batch of another worker's images alone moves weights by their mean over all."""
    made = learner(NetworkRequest("mlp", None, CLASSES, SHAPE))
    expected = learner(NetworkRequest("mlp", None, CLASSES, SHAPE))
    half = batch(1)
    labels = half.label.clone()
    labels[4:] = -1
    made.train(Batch(half.data, labels, 4), True, Flags())
    expected.train(Batch(half.data[:4], half.label[:4], 4), True, Flags())
    # Some processors round products of 8 rows and of 4 in different ways.
    torch.testing.assert_close(made.network.state_dict(), expected.network.state_dict())
    none = learner(NetworkRequest("mlp", None, CLASSES, SHAPE), "--wd", "0")
    before = none.network.fc1.weight.clone()
    _, outputs = none.train(Batch(half.data, labels, 0), True, Flags())
    assert len(outputs.labels) == 0
    assert torch.equal(before, none.network.fc1.weight)


OTHER = NetworkRequest("resnet", 8, 7, SHAPE)


def test_an_exported_model_is_loaded_but_for_its_head(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = trained(1, learner())
    first.export(tmp_path / "model", 1)
    file = tmp_path / "model-0001.safetensors"
    same, other = learner(), learner(OTHER)
    head = other.network.fc1.weight.clone()
    caplog.set_level(logging.INFO)
    checkpoint_files.load_pretrained(file, same.network, RESNET)
    assert differing(same, first) == []
    assert "is new" not in caplog.text
    checkpoint_files.load_pretrained(file, other.network, OTHER)
    assert differing(other, first) == ["fc1.weight", "fc1.bias"]
    assert torch.equal(other.network.fc1.weight, head)
    assert "fc1 is new, for 7 classes: model-0001.safetensors has 4" in caplog.text


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_file_of_torchvision_is_loaded(tmp_path: Path, wrapped: bool) -> None:
    of_torchvision = models.resnet18()
    # As its older files are.
    state = {k: v for k, v in of_torchvision.state_dict().items() if "num_batches" not in k}
    torch.save({"model": state, "epoch": 3} if wrapped else state, tmp_path / "resnet18.pth")
    request = NetworkRequest("resnet", 18, 10, (3, 64, 64))
    network = networks.build(request)
    checkpoint_files.load_pretrained(tmp_path / "resnet18.pth", network, request)
    assert torch.equal(network.conv1.weight, of_torchvision.conv1.weight)
    assert network.fc.weight.shape == (10, 512)


class Own(nn.Module):  # type: ignore[misc]
    """A class that unpickling would import."""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (Own(), "is no file of tensors alone"),
        ([1, 2], "has no state_dict"),
        ({"epoch": 3}, "has no state_dict"),
        (models.resnet18().state_dict(), r"it lacks bn_data.running_mean, .* and \d+ more; it has"),
    ],
)
def test_what_does_not_fit_is_one_error(tmp_path: Path, content: object, message: str) -> None:
    file = tmp_path / "weights.pth"
    torch.save(content, file)
    made = learner()
    with pytest.raises(InputError, match=message) as caught:
        checkpoint_files.load_pretrained(file, made.network, RESNET)
    assert "\n" not in str(caught.value)
    assert differing(made, learner()) == []


def test_other_shapes_are_named(tmp_path: Path) -> None:
    state = {name: one.contiguous() for name, one in learner().network.state_dict().items()}
    state["conv0.weight"] = torch.zeros(16, 1, 3, 3)
    save_file(state, tmp_path / "w.safetensors")
    message = says("not fit resnet", "conv0.weight as 16x1x3x3", "16x3x3x3") + "$"
    with pytest.raises(InputError, match=message):
        checkpoint_files.load_pretrained(tmp_path / "w.safetensors", learner().network, RESNET)
    with pytest.raises(InputError, match="cannot be read: No such file"):
        checkpoint_files.load_pretrained(tmp_path / "gone.pth", learner().network, RESNET)


def test_the_program_starts_from_it(tmp_path: Path) -> None:
    made = learner(NetworkRequest("mlp", None, 4, SHAPE))
    made.export(tmp_path / "model", 1)
    digits = prepare_digits(tmp_path, "RecordIO")
    arguments = ["--framework", "PyTorch", "--dataset", str(digits), "--output", str(tmp_path)]
    arguments += ["--network", "mlp", "--image-shape", "3,28,28", "--num-epochs", "1"]
    ended = train([*arguments, "--pretrained", str(tmp_path / "model-0001.safetensors")])
    assert ended.returncode == 0, ended.stderr
    log = (tmp_path / "attempts/r0/train.log").read_text() + ended.stderr
    assert "fc3 is new, for 9 classes: model-0001.safetensors has 4" in log
