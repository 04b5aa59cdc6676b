"""Variations of training images that cannot be had, so that no run waits for data to find out.

The resource refuses the same. What one framework alone refuses is in its description.
"""

from imagenet_workloads.train.options.groups import AugmentationOptions


def contradiction(varied: AugmentationOptions) -> str | None:
    """Name variations that go together in no framework, or give None."""
    if not varied.random_resized_crop:
        return None
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
    smallest, largest = varied.min_random_aspect_ratio, varied.max_random_aspect_ratio
    if smallest is not None and smallest > largest:
        return (
            f"argument --max-random-aspect-ratio: {largest:g} is below --min-random-aspect-ratio "
            f"{smallest:g}: write {smallest:g} or more"
        )
    return None
