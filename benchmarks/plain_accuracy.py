"""A plain training loop of PyTorch on a sealed dataset, whose accuracy `fidelity_gpu` compares.

    .venv-pytorch/bin/python -m benchmarks.plain_accuracy DATASET MANIFEST.json --seed 0

As one writes it by hand: all images are decoded first and stay on the device, where they are
padded, cropped and mirrored; autocast, SGD with Nesterov's momentum, and one rate for each update.
It shares with imagenet-train the network's module and the pixels of the dataset, and has order,
augmentation, optimizer, schedule and validation of its own. The recipe is `spec.training` of an
ImageNetJob. Prints one JSON object: the accuracy after each epoch, the seconds until then, which
begin when the images are on the device, and the device's name.
"""

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.cifar_images import rows
from torch import nn

from imagenet_workloads.dataset import Dataset, Split, read_dataset
from imagenet_workloads.frameworks.pytorch import networks
from imagenet_workloads.records.split import open_split
from imagenet_workloads.train.networks import NetworkRequest

# Validation images that are scored together.
TOGETHER = 1000

Images = tuple[torch.Tensor, torch.Tensor]
"""Bytes (images, channels, height, width), and labels."""


def main() -> None:
    """Train and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("dataset", type=Path, help="its folder")
    parser.add_argument("manifest", type=Path, help="an ImageNetJob as JSON")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    torch.backends.cudnn.benchmark = True
    recipe = json.loads(options.manifest.read_text())["spec"]["training"]
    device = torch.device(options.device)
    name = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    print(json.dumps({**train(options.dataset, recipe, device), "sha256": None, "device": name}))


def train(folder: Path, recipe: Mapping[str, Any], device: torch.device) -> dict[str, list[float]]:
    """Train from random values; return `top1` (0..1) and `seconds` by epoch.

    Args:
        folder: of a sealed dataset with validation images, all of the recipe's image shape.
        recipe: `spec.training`: model, batchSize, epochs, precision, optimizer (as `nag` with a
            linear fall), labelSmoothing, augmentation.padSize and fillValue. The images are cropped
            and mirrored at random.
        device: that trains.
    """
    dataset = read_dataset(folder)
    training, validation = (
        _decoded(split, dataset, folder, recipe["model"]["imageShape"], device)
        for split in (dataset.train, dataset.validation)
    )
    network = _network(recipe, len(dataset.classes), device)
    optimizer = _optimizer(recipe["optimizer"], network)
    updates = -(-len(training[0]) // recipe["batchSize"])
    mean, std = (
        torch.tensor(colour, device=device).view(1, 3, 1, 1)
        for colour in (dataset.mean, dataset.std)
    )

    def scores(images: torch.Tensor) -> torch.Tensor:
        with torch.autocast(
            device.type, torch.bfloat16, enabled=recipe.get("precision") is not None
        ):
            scored: torch.Tensor = network((images - mean) / std)
        return scored.float()

    update = 0
    found: dict[str, list[float]] = {"top1": [], "seconds": []}
    started = time.monotonic()
    for _ in range(recipe["epochs"]):
        network.train()
        for images, labels in _batches(training, recipe):
            optimizer.param_groups[0]["lr"] = optimizer.param_groups[1]["lr"] = rate(
                recipe["optimizer"], update, updates, recipe["epochs"]
            )
            smoothing = recipe.get("labelSmoothing", 0.0)
            loss = nn.functional.cross_entropy(scores(images), labels, label_smoothing=smoothing)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            update += 1
        network.eval()
        with torch.no_grad():
            correct = sum(
                (scores(images.float()).argmax(1) == labels).sum().item()
                for images, labels in zip(
                    *(part.split(TOGETHER) for part in validation), strict=True
                )
            )
        found["top1"].append(correct / len(validation[0]))
        found["seconds"].append(round(time.monotonic() - started, 3))
    return found


def rate(optimizer: Mapping[str, Any], update: int, updates: int, epochs: int) -> float:
    """Return the learning rate of an update: a linear rise, then a linear fall to 0.

    Args:
        optimizer: `spec.training.optimizer`.
        update: from 0 over the whole training.
        updates: of an epoch.
        epochs: of the training.
    """
    peak, rise = optimizer["learningRate"], optimizer["warmupEpochs"] * updates
    if update < rise:
        return float(peak * (update + 1) / rise)
    return float(peak * (1 - (update - rise) / (epochs * updates - rise)))


def _decoded(
    split: Split, dataset: Dataset, folder: Path, shape: Sequence[int], device: torch.device
) -> Images:
    records = open_split(split, dataset.format, folder)
    try:
        found = [
            records.parse(number, records.read(range(number, number + 1))[0])
            for number in range(records.count)
        ]
    finally:
        records.close()
    pixels = np.stack([rows(one.encoded) for one in found]).reshape(-1, *shape)
    labels = torch.tensor([one.label for one in found])
    return torch.from_numpy(pixels).to(device), labels.to(device)


def _network(recipe: Mapping[str, Any], classes: int, device: torch.device) -> nn.Module:
    model = recipe["model"]
    shape = tuple(model["imageShape"])
    network: nn.Module = networks.build(
        NetworkRequest(model["network"], model.get("numLayers"), classes, shape)
    )
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight)
    return network.to(device, memory_format=torch.channels_last)


def _optimizer(optimizer: Mapping[str, Any], network: nn.Module) -> torch.optim.Optimizer:
    named = list(network.named_parameters())
    groups = [
        {
            "params": [weight for name, weight in named if name.endswith("weight") is decays],
            "weight_decay": optimizer["weightDecay"] if decays else 0.0,
        }
        for decays in (True, False)
    ]
    return torch.optim.SGD(groups, 0.1, optimizer["momentum"], nesterov=True)


def _batches(training: Images, recipe: Mapping[str, Any]) -> Iterator[Images]:
    """Yield an epoch: each image once, cropped from its padded form and mirrored by chance."""
    images, labels = training
    augmentation = recipe["augmentation"]
    pad, fill = augmentation["padSize"], augmentation.get("fillValue", 127)
    padded = nn.functional.pad(images, (pad,) * 4, value=fill)
    height, width = images.shape[2:]
    every = torch.randperm(len(images), device=images.device)
    for drawn in every.split(recipe["batchSize"]):
        top, left = torch.randint(0, 2 * pad + 1, (2, len(drawn), 1), device=images.device)
        rows = (top + torch.arange(height, device=images.device))[:, :, None]
        columns = (left + torch.arange(width, device=images.device))[:, None, :]
        # The channels come last.
        cropped = padded[drawn[:, None, None], :, rows, columns].permute(0, 3, 1, 2).float()
        is_mirrored = torch.rand(len(drawn), 1, 1, 1, device=images.device) < 0.5
        yield torch.where(is_mirrored, cropped.flip(3), cropped), labels[drawn]


if __name__ == "__main__":
    main()
