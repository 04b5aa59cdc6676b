"""The parser of `imagenet-train`, and the one value that the rest of training is given.

Two passes: what `--preset` and `--use-imagenet-data-augmentation` say changes defaults, so that an
explicit option wins at any position. Import-light: no MXNet, no numpy.
"""

import argparse
from collections.abc import Mapping, Sequence

from imagenet_spec.program.option import Program, collect, flag, parser
from imagenet_spec.program.presets import IMAGENET_AUGMENTATION, PRESETS
from imagenet_spec.program.train import (
    GROUPS,
    TRAIN,
    AugmentationOptions,
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
    """Build the parser; abbreviations of options are refused, since the operator compares names."""
    choices = {"framework": list(frameworks)} if frameworks else {}
    for described in frameworks.values():
        known = choices.setdefault(described.option, [])
        known += [name for name in described.strategies if name not in known]
    return parser(TRAIN, choices, description=DESCRIPTION, epilog=EXAMPLE, allow_abbrev=False)


def parse(
    arguments: Sequence[str] | None, frameworks: Mapping[str, FrameworkDescription]
) -> Options:
    """Parse a command line; exits with 2 and a message for a bad one, as argparse does."""
    built = build_parser(frameworks)
    first = Program(TRAIN.name, {"presets": PresetOptions})
    presets = parser(first, add_help=False, allow_abbrev=False)
    chosen, _ = presets.parse_known_args(arguments)
    built.set_defaults(**PRESETS[chosen.preset])
    if chosen.use_imagenet_data_augmentation:
        built.set_defaults(**IMAGENET_AUGMENTATION)
    namespace = built.parse_args(arguments)
    options = Options(**{title: collect(namespace, group) for title, group in GROUPS.items()})
    problem = _contradiction(options)
    if problem is None and (described := frameworks.get(options.cluster.framework)) is not None:
        strategy = described.strategy_of(options)
        if strategy in described.strategies:
            problem = described.contradiction(options)
        else:
            problem = (
                f"argument {described.strategy_option}: {described.name} has no {strategy}; write "
                f"one of {', '.join(described.strategies)}"
            )
    if problem:
        built.error(problem)
    return options


def _contradiction(options: Options) -> str | None:
    data, output, optimizer = options.data, options.output, options.optimizer
    if data.dataset is not None and (data.data_train or data.data_val):
        return "argument --dataset: not together with --data-train or --data-val"
    if data.dataset_url is None:
        alone = ("dataset_endpoint", "dataset_region", "dataset_query_key", "cache")
        given = next((name for name in alone if getattr(data, name) is not None), None)
        if given is not None:
            return f"argument {flag(given)}: needs --dataset-url"
    elif data.dataset is not None or data.data_train or data.data_val:
        return "argument --dataset-url: not together with --dataset, --data-train or --data-val"
    elif data.cache_size is not None and data.cache is None:
        return "argument --cache-size: needs --cache"
    if output.load_epoch is not None and not output.model_prefix:
        return "argument --load-epoch: needs --model-prefix, the files to load"
    if output.load_epoch is not None and output.init_from is not None:
        return "argument --load-epoch: not together with --init-from"
    if options.model.pretrained is not None and (output.init_from or output.load_epoch is not None):
        return "argument --pretrained: not together with --init-from or --load-epoch"
    starts = {
        "--init-from-url": output.init_from_url,
        "--pretrained-url": options.model.pretrained_url,
        "--init-from": output.init_from,
        "--pretrained": options.model.pretrained,
        "--load-epoch": output.load_epoch,
    }
    chosen = [name for name, value in starts.items() if value is not None]
    if chosen and chosen[0].endswith("-url"):
        if len(chosen) > 1:
            return f"argument {chosen[0]}: not together with {chosen[1]}"
    elif output.start_endpoint is not None or output.start_region is not None:
        return "argument --start-endpoint, --start-region: need --init-from-url or --pretrained-url"
    if options.model.compile and options.cluster.deterministic:
        return "argument --compile: not together with --deterministic: the code may differ"
    if optimizer.warmup_strategy == "lars" and optimizer.optimizer != "lbsgd":
        return "argument --warmup-strategy: lars needs --optimizer lbsgd"
    if (optimizer.early_stopping_metric is None) != (optimizer.early_stopping_patience is None):
        return "argument --early-stopping-metric: goes with --early-stopping-patience"
    if optimizer.batch_size < len(options.cluster.gpus):
        return (
            f"argument --batch-size: {optimizer.batch_size} images cannot be split over "
            f"{len(options.cluster.gpus)} GPUs"
        )
    return _augmentation_contradiction(options.augmentation)


def _augmentation_contradiction(varied: AugmentationOptions) -> str | None:
    """The resource refuses the same. What one framework alone refuses is in its description."""
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
