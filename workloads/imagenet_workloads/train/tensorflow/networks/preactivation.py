"""The residual unit with pre-activation (He et al. 2016) that both kinds of resnet are made of."""

from typing import Any

from imagenet_workloads.train.tensorflow.networks import layers


def unit(
    body: Any,
    width: int,
    stride: int,
    projects: bool,
    bottleneck: bool,
    name: str,
    epsilon: float = 2e-5,
) -> Any:
    """Add a residual: the shortcut is a projection if it `projects`, else the identity."""
    first = layers.relu(layers.normalized(body, f"{name}_bn1", epsilon))
    if bottleneck:
        plan = [(width // 4, 1, 1), (width // 4, 3, stride), (width, 1, 1)]
    else:
        plan = [(width, 3, stride), (width, 3, 1)]
    branch = first
    for number, (filters, size, step) in enumerate(plan, start=1):
        if number > 1:
            branch = layers.relu(layers.normalized(branch, f"{name}_bn{number}", epsilon))
        branch = layers.convolution(branch, filters, size, step, name=f"{name}_conv{number}")
    shortcut = layers.convolution(first, width, 1, stride, name=f"{name}_sc") if projects else body
    return branch + shortcut
