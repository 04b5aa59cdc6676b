"""The options of `imagenet-train` that no field sets, as its parser has them.

`make generate` writes this module. An option that only prints, such as --help, is not in it.
"""

CHOICES: dict[str, tuple[str, ...]] = {
    "--preset": ("cifar10", "imagenet"),
    "--use-imagenet-data-augmentation": ("0", "1"),
    "--dtype": ("float32", "bfloat16", "float16"),
    "--initializer": (
        "default",
        "xavier",
        "msra",
        "orthogonal",
        "normal",
        "uniform",
        "one",
        "zero",
    ),
    "--decoding": ("processes", "threads"),
    "--gc-type": ("none", "2bit"),
}
"""Option → its values."""


KINDS: dict[str, str] = {
    "--loss": "losses",
    "--top-k": "count",
    "--clip-gradient": "amount_above_zero",
    "--macrobatch-size": "count",
    "--rgb-mean": "colour",
    "--rgb-std": "colour_scale",
    "--validation-resize": "count",
    "--benchmark": "switch",
    "--test-io": "switch",
    "--max-batches": "count",
    "--model-prefix": "text",
    "--model": "text",
    "--save-period": "positive",
    "--disp-batches": "positive",
    "--monitor": "count",
    "--gc-threshold": "amount_above_zero",
    "--seed": "count",
    "--termination-grace": "amount",
}
"""Option → the kind of its value."""


PRESETS: dict[str, dict[str, object]] = {
    "--preset=cifar10": {
        "network": "resnet",
        "num_layers": 110,
        "num_classes": 10,
        "num_examples": 50000,
        "image_shape": (3, 28, 28),
        "pad_size": 4,
        "batch_size": 128,
        "num_epochs": 300,
        "lr": 0.05,
    },
    "--use-imagenet-data-augmentation=1": {
        "rgb_mean": (123.68, 116.779, 103.939),
        "rgb_std": (58.393, 57.12, 57.375),
        "random_crop": False,
        "random_resized_crop": True,
        "random_mirror": True,
        "min_random_area": 0.08,
        "max_random_aspect_ratio": 1.3333333333333333,
        "min_random_aspect_ratio": 0.75,
        "brightness": 0.4,
        "contrast": 0.4,
        "saturation": 0.4,
        "pca_noise": 0.1,
    },
}
"""Option → what it sets."""
