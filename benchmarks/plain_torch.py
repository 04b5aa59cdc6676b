"""A plain training loop of PyTorch, which `gpu` measures beside imagenet-train.

    python -m benchmarks.plain_torch --network resnet-50 --batch 256 --steps 96 --compile
    python -m benchmarks.plain_torch --network resnet-20 --batch 512 --steps 294 \
        --images-on-gpu 50176

As one writes it by hand for a GPU: channels last, autocast to bfloat16, cuDNN's own choice of
algorithms, fused SGD with momentum, and nothing that waits for the GPU. With --compile,
torch.compile fuses the network. All images are on the GPU: one batch, which is trained again and
again, or so many images, of which each batch draws some and mirrors half. Prints the images per
second after the first third of the steps.
"""

import argparse
import itertools
import time
from collections.abc import Iterator

import torch
from torch import nn

from imagenet_workloads.frameworks.pytorch import networks
from imagenet_workloads.train.networks import NetworkRequest

RESNET_20, RESNET_50 = "resnet-20", "resnet-50"
REQUESTS = {
    RESNET_20: NetworkRequest("resnet", 20, 10, (3, 32, 32)),
    # It is torchvision's.
    RESNET_50: NetworkRequest("resnet", 50, 1000, (3, 224, 224)),
}
# The mean of imagenet-train, which divides by nothing.
MEAN = (123.68, 116.779, 103.939)

Batches = Iterator[tuple[torch.Tensor, torch.Tensor]]


def main() -> None:
    """Train."""
    options = _options()
    device = torch.device(options.device)
    torch.backends.cudnn.benchmark = True
    request = REQUESTS[options.network]
    network: nn.Module = networks.build(request).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(
        network.parameters(), 0.1, momentum=0.9, weight_decay=1e-4, fused=True
    )
    if options.compile:
        network = torch.compile(network)
    batches = _batches(options, request, device)
    _train(network, optimizer, itertools.islice(batches, options.steps // 3), device)
    _wait_for(device)
    started = time.monotonic()
    measured = options.steps - options.steps // 3
    _train(network, optimizer, itertools.islice(batches, measured), device)
    _wait_for(device)
    print(measured * options.batch / (time.monotonic() - started))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--network", choices=REQUESTS, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True, help="in all")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--images-on-gpu", type=int, help="different ones; else one batch")
    return parser.parse_args()


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def _train(
    network: nn.Module, optimizer: torch.optim.Optimizer, batches: Batches, device: torch.device
) -> None:
    mean = torch.tensor(MEAN, device=device).view(1, 3, 1, 1)
    for images, labels in batches:
        with torch.autocast(device.type, torch.bfloat16):
            loss = nn.functional.cross_entropy(network(images - mean), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def _batches(options: argparse.Namespace, request: NetworkRequest, device: torch.device) -> Batches:
    count = options.images_on_gpu or options.batch
    images = torch.randint(0, 256, (count, *request.image_shape), dtype=torch.uint8, device=device)
    labels = torch.randint(0, request.classes, (count,), device=device)
    images = images.contiguous(memory_format=torch.channels_last)
    if not options.images_on_gpu:
        yield from itertools.repeat((images.float(), labels))
    used = count // options.batch * options.batch
    while True:
        for drawn in torch.randperm(count, device=device)[:used].split(options.batch):
            batch = images[drawn].float().contiguous(memory_format=torch.channels_last)
            is_mirrored = torch.rand(len(drawn), 1, 1, 1, device=device) < 0.5
            yield torch.where(is_mirrored, batch.flip(3), batch), labels[drawn]


if __name__ == "__main__":
    main()
