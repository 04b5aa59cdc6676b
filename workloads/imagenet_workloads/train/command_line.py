"""The parser of `imagenet-train`, and the one value that the rest of training is given.

Two passes: what `--preset` and `--use-imagenet-data-augmentation` say changes defaults, so that an
explicit option wins at any position. Import-light: no MXNet, no numpy.
"""

import argparse
from collections.abc import Mapping, Sequence

from imagenet_spec.program.option import add_group, collect, flag
from imagenet_spec.program.presets import IMAGENET_AUGMENTATION, PRESETS
from imagenet_spec.program.train import (
    GROUPS,
    AugmentationOptions,
    DataOptions,
    Options,
    PresetOptions,
)
from imagenet_workloads.train.description import FrameworkDescription

DESCRIPTION = """\
Train an image classifier with MXNet, TensorFlow or PyTorch: on this machine, or as one member of a
job when the environment names its peers. The options are those of MXNet's
example/image-classification, with the defaults of its train_imagenet.py, and some more.
"""

EXAMPLE = """\
example:
  imagenet-train --dataset data/digits --network lenet --image-shape 3,28,28 --num-epochs 10
"""


def build_parser(frameworks: Mapping[str, FrameworkDescription]) -> argparse.ArgumentParser:
    """Build the parser; abbreviations of options are refused, since the operator compares names.

    Args:
        frameworks: that may be chosen, by name, with their strategies.
    """
    parser = argparse.ArgumentParser(
        prog="imagenet-train",
        description=DESCRIPTION,
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    for title, group in {"presets": PresetOptions, **GROUPS}.items():
        add_group(parser, title, group, _choices(frameworks))
    return parser


def parse(
    arguments: Sequence[str] | None, frameworks: Mapping[str, FrameworkDescription]
) -> Options:
    """Parse a command line; exits with 2 and a message for a bad one, as argparse does."""
    parser = build_parser(frameworks)
    presets = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    add_group(presets, "presets", PresetOptions, {})
    chosen, _ = presets.parse_known_args(arguments)
    parser.set_defaults(**PRESETS[chosen.preset])
    if chosen.use_imagenet_data_augmentation:
        parser.set_defaults(**IMAGENET_AUGMENTATION)
    namespace = parser.parse_args(arguments)
    options = Options(**{title: collect(namespace, group) for title, group in GROUPS.items()})
    if problem := _contradiction(options) or _framework_contradiction(options, frameworks):
        parser.error(problem)
    return options


def _choices(frameworks: Mapping[str, FrameworkDescription]) -> dict[str, list[str]]:
    """Return the values of the options that name a framework and its strategy."""
    choices = {"framework": list(frameworks)} if frameworks else {}
    for described in frameworks.values():
        known = choices.setdefault(described.option, [])
        known += [name for name in described.strategies if name not in known]
    return choices


def _framework_contradiction(
    options: Options, frameworks: Mapping[str, FrameworkDescription]
) -> str | None:
    """Name options that the chosen framework cannot use together, or give None."""
    described = frameworks.get(options.cluster.framework)
    if described is None:
        return None
    strategy = described.strategy_of(options)
    if strategy not in described.strategies:
        return (
            f"argument {described.strategy_option}: {described.name} has no {strategy}; write one "
            f"of {', '.join(described.strategies)}"
        )
    return described.contradiction(options)


def _contradiction(options: Options) -> str | None:
    """Name two options that cannot both hold, or None."""
    data, output, optimizer = options.data, options.output, options.optimizer
    if data.dataset is not None and (data.data_train or data.data_val):
        return "argument --dataset: not together with --data-train or --data-val"
    if problem := _url_contradiction(data):
        return problem
    if output.load_epoch is not None and not output.model_prefix:
        return "argument --load-epoch: needs --model-prefix, the files to load"
    if output.load_epoch is not None and output.init_from is not None:
        return "argument --load-epoch: not together with --init-from"
    if options.model.pretrained is not None and (output.init_from or output.load_epoch is not None):
        return "argument --pretrained: not together with --init-from or --load-epoch"
    if options.model.compile and options.cluster.deterministic:
        return "argument --compile: not together with --deterministic: the code may differ"
    if optimizer.warmup_strategy == "lars" and optimizer.optimizer != "lbsgd":
        return "argument --warmup-strategy: lars needs --optimizer lbsgd"
    if optimizer.batch_size < len(options.cluster.gpus):
        return (
            f"argument --batch-size: {optimizer.batch_size} images cannot be split over "
            f"{len(options.cluster.gpus)} GPUs"
        )
    if problem := _augmentation_contradiction(options.augmentation):
        return problem
    return None


def _url_contradiction(data: DataOptions) -> str | None:
    """Name options that do not fit --dataset-url or its absence, or give None."""
    if data.dataset_url is None:
        alone = ("dataset_endpoint", "dataset_region", "dataset_query_key", "cache")
        given = next((name for name in alone if getattr(data, name) is not None), None)
        return None if given is None else f"argument {flag(given)}: needs --dataset-url"
    if data.dataset is not None or data.data_train or data.data_val:
        return "argument --dataset-url: not together with --dataset, --data-train or --data-val"
    if data.cache_size is not None and data.cache is None:
        return "argument --cache-size: needs --cache"
    return None


def _augmentation_contradiction(varied: AugmentationOptions) -> str | None:
    """Name augmentations that no framework can combine, or give None.

    The resource refuses the same. What one framework alone refuses is in its description.
    """
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
