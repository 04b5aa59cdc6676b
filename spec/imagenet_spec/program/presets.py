"""Defaults that go together, by the name of the program of MXNet's that has them.

`imagenet` is train_imagenet.py (and what the groups declare), `cifar10` is train_cifar10.py.
IMAGENET_AUGMENTATION is what `--use-imagenet-data-augmentation` promises there, where it has no
effect because it is looked at after parsing; here an explicit option still wins over it.
"""

from typing import Any

from imagenet_spec.program.kinds import StepDecay

PRESETS: dict[str, dict[str, Any]] = {
    "imagenet": {},
    "cifar10": {
        "network": "resnet",
        "num_layers": 110,
        "num_classes": 10,
        "num_examples": 50000,
        "image_shape": (3, 28, 28),
        "pad_size": 4,
        "batch_size": 128,
        "num_epochs": 300,
        "lr": 0.05,
        "lr_step_epochs": StepDecay((200, 250)),
    },
}

IMAGENET_AUGMENTATION: dict[str, Any] = {
    "rgb_mean": (123.68, 116.779, 103.939),
    "rgb_std": (58.393, 57.12, 57.375),
    "random_crop": False,
    "random_resized_crop": True,
    "random_mirror": True,
    "min_random_area": 0.08,
    "max_random_aspect_ratio": 4 / 3,
    "min_random_aspect_ratio": 3 / 4,
    "brightness": 0.4,
    "contrast": 0.4,
    "saturation": 0.4,
    "pca_noise": 0.1,
}
