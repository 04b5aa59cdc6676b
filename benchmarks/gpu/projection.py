"""GPU-hours of recipes for ImageNet, projected from measured speeds: pure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

TRAINING_IMAGES, VALIDATION_IMAGES = 1_281_167, 50_000
"""Of ILSVRC2012. Validation follows each epoch."""

FORWARD = 2.0
"""How many images are validated in the computing time of one that is trained: a third of the
passes, in float32."""

_GAIN = 0.02
"""The least part of the hours that counts as a gain."""


@dataclass(frozen=True)
class Recipe:
    """A training of ResNet-50.

    Attributes:
        name: in tables.
        stages: pairs of the size of training images, in pixels, and the number of its epochs.
        validation_size: of validation images, in pixels.
        eager: sizes at which the network is not compiled.
    """

    name: str
    stages: tuple[tuple[int, int], ...]
    validation_size: int
    eager: frozenset[int] = frozenset()

    @property
    def epochs(self) -> int:
        """Of all stages."""
        return sum(epochs for _, epochs in self.stages)


# ffcv's rn50_16_epochs.yaml and rn50_32_epochs.yaml: a ramp, which it rounds to 32 pixels.
SIXTEEN = Recipe("16 epochs, 160 to 192", ((160, 12), (192, 4)), 256)
THIRTY_TWO = Recipe("32 epochs, 160 to 192", ((160, 25), (192, 7)), 256)
NINETY = Recipe("90 epochs, 224", ((224, 90),), 224)
RECIPES = (
    SIXTEEN,
    THIRTY_TWO,
    Recipe("32 epochs, 160 to 192, 192 eager", THIRTY_TWO.stages, 256, frozenset({192})),
    NINETY,
)

PUBLISHED = (
    # https://developer.nvidia.com/deep-learning-performance-training-inference/training, 13.466
    # minutes on 8 GPUs: entry 3.0-2053.
    ("MLPerf Training v3.0, MXNet, to the target", "0.759", "8 H100", 13.466),
    # https://github.com/libffcv/ffcv-imagenet, its README's table.
    ("ffcv, 16 epochs, 160 to 192", "0.738", "8 A100", 14.9),
    ("ffcv, 32 epochs, 160 to 192", "0.766", "8 A100", 28.7),
    ("ffcv, 88 epochs, 160 to 192", "0.784", "8 A100", 77.2),
)
"""ResNet-50: whose, top-1, GPUs, minutes."""

AIMS = {8: 2.0, 16: 1.4}
"""The most GPU-hours of `THIRTY_TWO`, by cores."""


@dataclass(frozen=True)
class Speeds:
    """Measured images/s.

    Attributes:
        compiled: of training one batch that stays on the GPU, by the images' size in pixels.
        eager: the same without compiling.
        reading: of reading alone, by cores.
        small_reading: the same from records of 160 pixels.
    """

    compiled: Mapping[int, float]
    eager: Mapping[int, float]
    reading: Mapping[int, float]
    small_reading: Mapping[int, float]


@dataclass(frozen=True)
class Projection:
    """What a recipe would take on one GPU.

    Attributes:
        hours: of training and validation, without starting, compiling and checkpoints.
        limits: `reading` or `computing` by the size of the training images.
    """

    hours: float
    limits: Mapping[int, str]

    def limit(self) -> str:
        """Return the limits in words."""
        if len(set(self.limits.values())) == 1:
            return next(iter(self.limits.values()))
        return ", ".join(f"{size}: {limit}" for size, limit in self.limits.items())


def interpolated(speeds: Mapping[int, float], size: int) -> float:
    """Return the images/s at a size from those at other sizes.

    The seconds of an image are linear in its pixels between the two measured sizes beside it, and
    proportional to its pixels outside of all.

    Args:
        speeds: images/s by size, at least one.
        size: height and width in pixels.
    """
    smaller = max((one for one in speeds if one <= size), default=None)
    larger = min((one for one in speeds if one >= size), default=None)
    if smaller is None or larger is None:
        nearest = larger if smaller is None else smaller
        assert nearest is not None
        return speeds[nearest] * nearest**2 / size**2
    if smaller == larger:
        return speeds[size]
    part = (size**2 - smaller**2) / (larger**2 - smaller**2)
    return 1 / ((1 - part) / speeds[smaller] + part / speeds[larger])


def project(recipe: Recipe, speeds: Speeds, cores: int) -> Projection | None:
    """Project a recipe: each image takes the longer of its reading and its computing.

    Returns:
        the projection; None if a speed that it needs was not measured.
    """
    needed = [
        speeds.eager if size in recipe.eager else speeds.compiled for size, _ in recipe.stages
    ]
    if cores not in speeds.reading or not all(needed) or not speeds.compiled:
        return None
    reading = speeds.reading[cores]
    seconds, limits = 0.0, {}
    for (size, epochs), of in zip(recipe.stages, needed, strict=True):
        computing = interpolated(of, size)
        limits[size] = "reading" if reading < computing else "computing"
        seconds += epochs * TRAINING_IMAGES / min(reading, computing)
    validating = FORWARD * interpolated(speeds.compiled, recipe.validation_size)
    seconds += recipe.epochs * VALIDATION_IMAGES / min(reading, validating)
    return Projection(seconds / 3600, limits)


def help_for(recipe: Recipe, speeds: Speeds, cores: int) -> str | None:
    """Return a sentence on what would help a recipe whose smaller images gain nothing.

    Returns:
        the sentence; None if smaller images save time, or nothing was measured.
    """
    (size, _), (largest, _) = recipe.stages[0], recipe.stages[-1]
    resized = project(recipe, speeds, cores)
    fixed = project(
        Recipe("", ((largest, recipe.epochs),), recipe.validation_size, recipe.eager), speeds, cores
    )
    if resized is None or fixed is None or resized.limits[size] != "reading":
        return None
    if resized.hours < (1 - _GAIN) * fixed.hours:
        return None
    reading, computing = speeds.reading[cores], interpolated(speeds.compiled, size)
    wanted = math.ceil(computing / (reading / cores))
    records = speeds.small_reading.get(cores, 0.0)
    from_small = (
        f", or for the images of 160 pixels records of that size, read at {records:,.0f} images/s"
        if records > reading
        else ""
    )
    return (
        f"{recipe.name}, on {cores} cores: smaller images gain nothing, because reading limits: "
        f"{reading:,.0f} images/s, and the GPU takes {computing:,.0f} at {size} pixels. "
        f"About {wanted} cores would help{from_small}."
    )


def tables(speeds: Speeds, card: str) -> str:
    """Return the projections as Markdown, beside published times; what lacks a speed is not run."""
    lines = [
        f"GPU-hours of ResNet-50 on ImageNet, **projected** for {card} from the speeds above. They "
        "are of records of 256 pixels and crops of one size; larger records with "
        "randomResizedCrop, as the examples have them, are read at about half the speed:",
        "",
        "| recipe | top-1 | 8 cores | limit | 16 cores | limit |",
        "|---|---|---:|---|---:|---|",
    ]
    for recipe in RECIPES:
        cells = [recipe.name, "not run"]
        for cores in AIMS:
            found = project(recipe, speeds, cores)
            cells += ["not run", ""] if found is None else [f"{found.hours:.2f}", found.limit()]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "| published | top-1 | GPUs | minutes | GPU-hours |", "|---|---|---|---:|---:|"]
    for name, top1, gpus, minutes in PUBLISHED:
        hours = minutes * int(gpus.split()[0]) / 60
        lines.append(f"| {name} | {top1} | {gpus} | {minutes:.1f} | {hours:.2f} |")
    lines += ["", f"| aim, {THIRTY_TWO.name}, projected | result |", "|---|---|"]
    for cores, most in AIMS.items():
        found = project(THIRTY_TWO, speeds, cores)
        result = "not run"
        if found is not None:
            verdict = "reached" if found.hours <= most else "**missed**"
            result = f"{verdict}: {found.hours:.2f} on {card}"
        lines.append(f"| at most {most} GPU-hours on {cores} cores | {result} |")
    helps = [
        said for one in RECIPES[:2] for cores in AIMS if (said := help_for(one, speeds, cores))
    ]
    lines += ["", *helps] if helps else []
    return "\n".join(lines)
