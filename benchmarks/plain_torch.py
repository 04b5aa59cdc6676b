"""A plain training loop of PyTorch, which `gpu` measures beside imagenet-train.

    python -m benchmarks.plain_torch --batch 256 --steps 100 --compile
    python -m benchmarks.plain_torch --batch 256 --steps 90 --images FOLDER --threads 16

As one writes it by hand for a GPU: torchvision's ResNet-50, channels last, autocast to bfloat16,
cuDNN's own choice of algorithms, fused SGD with momentum, and nothing that waits for the GPU. With
--compile, which is the best that such a loop does, torch.compile fuses the network. It reads
one batch that stays on the GPU, or JPEGs in class folders by a DataLoader, whose processes crop and
flip by torchvision's operations on tensors. Prints the images per second after the first third of
the steps.
"""

import argparse
import itertools
import time
from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader
from torchvision import datasets, io, models
from torchvision.transforms import v2

EDGE = 224
# The mean of imagenet-train, which divides by nothing.
MEAN = (123.68, 116.779, 103.939)

Batches = Iterator[tuple[torch.Tensor, torch.Tensor]]


def main() -> None:
    """Train."""
    options = _options()
    device = torch.device(options.device)
    torch.backends.cudnn.benchmark = True
    network: nn.Module = models.resnet50().to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(
        network.parameters(), 0.1, momentum=0.9, weight_decay=1e-4, fused=True
    )
    if options.compile:
        network = torch.compile(network)
    batches = _from_files(options) if options.images else _on_device(options, device)
    _train(network, optimizer, itertools.islice(batches, options.steps // 3), device)
    _wait_for(device)
    started = time.monotonic()
    measured = options.steps - options.steps // 3
    _train(network, optimizer, itertools.islice(batches, measured), device)
    _wait_for(device)
    print(measured * options.batch / (time.monotonic() - started))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True, help="in all")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--images", help="class folders of JPEGs")
    parser.add_argument("--threads", type=int, default=1, help="processes that decode")
    return parser.parse_args()


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def _train(
    network: nn.Module, optimizer: torch.optim.Optimizer, batches: Batches, device: torch.device
) -> None:
    mean = torch.tensor(MEAN, device=device).view(1, 3, 1, 1)
    for images, labels in batches:
        images = images.to(device, non_blocking=True, memory_format=torch.channels_last)
        labels = labels.to(device, non_blocking=True)
        with torch.autocast(device.type, torch.bfloat16):
            loss = nn.functional.cross_entropy(network(images - mean), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def _on_device(options: argparse.Namespace, device: torch.device) -> Batches:
    images = torch.randint(0, 256, (options.batch, 3, EDGE, EDGE), device=device)
    images = images.float().contiguous(memory_format=torch.channels_last)
    return itertools.repeat((images, torch.randint(0, 1000, (options.batch,), device=device)))


def _from_files(options: argparse.Namespace) -> Batches:
    def read(path: str) -> torch.Tensor:
        return io.decode_image(io.read_file(path), io.ImageReadMode.RGB)

    crop = v2.Compose([v2.RandomCrop(EDGE), v2.RandomHorizontalFlip()])
    loader = DataLoader(
        datasets.ImageFolder(options.images, crop, loader=read),
        options.batch,
        shuffle=True,
        drop_last=True,
        num_workers=options.threads,
        pin_memory=True,
    )
    return iter(loader)


if __name__ == "__main__":
    main()
