"""Mixes the images of a batch and their losses on the device, as `data.mixing` has drawn it.

Imports PyTorch.
"""

import torch
from torch.nn import functional

from imagenet_workloads.data.mixing import Mixing


def mix_images(images: torch.Tensor, mixing: Mixing) -> torch.Tensor:
    """Mix each image with the next one; what is behind the mixed ones stays as it is.

    Args:
        images: (batch size, channels, height, width), normalised.
        mixing: of the first ones.
    """
    count = len(mixing.shares)
    rows, columns = (torch.arange(side, device=images.device) for side in images.shape[2:])
    boxes = torch.from_numpy(mixing.boxes).to(images.device, non_blocking=True)
    top, left, bottom, right = (edge.view(-1, 1, 1) for edge in boxes.unbind(1))
    in_rows = (rows.view(1, -1, 1) >= top) & (rows.view(1, -1, 1) < bottom)
    in_columns = (columns >= left) & (columns < right)
    is_cut = (bottom > top) & (right > left)
    shares = torch.from_numpy(mixing.shares).to(images.device, non_blocking=True).view(-1, 1, 1)
    own = torch.where(is_cut, (~(in_rows & in_columns)).float(), shares).unsqueeze(1)
    real = images[:count]
    return torch.cat((torch.lerp(real.roll(-1, 0), real, own), images[count:]))


def summed_loss(
    scores: torch.Tensor, labels: torch.Tensor, smoothing: float, mixing: Mixing | None
) -> torch.Tensor:
    """Return the cross-entropy of some images, summed.

    Args:
        scores: (images, classes).
        labels: (images,).
        smoothing: part of each label that all classes get alike (Szegedy et al. 2016).
        mixing: of these images; None if they are not mixed.
    """
    if mixing is None:
        return functional.cross_entropy(scores, labels, reduction="sum", label_smoothing=smoothing)
    shares = torch.from_numpy(mixing.shares).to(scores.device, non_blocking=True)
    own, others = (
        functional.cross_entropy(scores, wanted, reduction="none", label_smoothing=smoothing)
        for wanted in (labels, labels.roll(-1))
    )
    return torch.lerp(others, own, shares).sum()
