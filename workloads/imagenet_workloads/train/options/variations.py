"""Variations of training images that cannot be had, so that nobody waits for data to learn it.

The resource refuses the same in the operator's `augmentation` and `capabilities`.
"""

from imagenet_workloads.train.options.groups import AugmentationOptions, Options

MXNET_COLOURS = (
    "max_random_h",
    "max_random_s",
    "max_random_l",
    "brightness",
    "contrast",
    "saturation",
    "pca_noise",
)
"""Options that MXNet has for colour images alone. With grey ones it fails at the first batch; but
`pca_noise` it does not check, and writes beyond the end of the image."""


def contradiction(options: Options) -> str | None:
    """Name variations that cannot be had, or None."""
    problem = _grey(options) if options.cluster.framework == "MXNet" else None
    if problem or not options.augmentation.random_resized_crop:
        return problem
    return _resized_crop(options.augmentation, options.cluster.framework)


def _grey(options: Options) -> str | None:
    channels, height, width = options.model.image_shape
    changed = [
        f"--{name.replace('_', '-')}"
        for name in MXNET_COLOURS
        if getattr(options.augmentation, name)
    ]
    if channels == 1 and changed:
        return (
            f"argument {', '.join(changed)}: MXNet changes no colours of images of 1 channel; "
            f"leave it out, or write --image-shape 3,{height},{width}"
        )
    return None


def _resized_crop(varied: AugmentationOptions, framework: str) -> str | None:
    if varied.random_crop or (varied.min_random_scale, varied.max_random_scale) != (1, 1):
        return (
            "argument --random-resized-crop: not together with --random-crop, --min-random-scale "
            "or --max-random-scale, which MXNet refuses"
        )
    if varied.min_random_area > varied.max_random_area:
        return (
            f"argument --min-random-area: {varied.min_random_area:g} is above --max-random-area "
            f"{varied.max_random_area:g}: write {varied.max_random_area:g} or less"
        )
    return _aspect_ratio(varied.min_random_aspect_ratio, varied.max_random_aspect_ratio, framework)


def _aspect_ratio(smallest: float | None, largest: float, framework: str) -> str | None:
    if smallest is not None and smallest > largest:
        return (
            f"argument --max-random-aspect-ratio: {largest:g} is below --min-random-aspect-ratio "
            f"{smallest:g}: write {smallest:g} or more"
        )
    # TensorFlow's side takes the inverse of the largest ratio for the smallest, MXNet's 1 - change.
    if smallest is None and largest >= 1 and framework == "MXNet":
        return (
            f"argument --max-random-aspect-ratio: {largest:g} without --min-random-aspect-ratio is "
            f"a change, to ratios from 1 - {largest:g}, which is not above 0: write "
            "--min-random-aspect-ratio too, or a change below 1"
        )
    return None
