"""Rules for what frameworks lack: networks, optimizers, augmentations and options.

The rules are derived from the frameworks' descriptors (`api.frameworks`). A job that uses what its
framework lacks is rejected. Otherwise the program would train something else than the manifest
specifies, or fail at the first batch after hours of preparation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, get_args

from imagenet_operator.api.augmentation import Augmentation
from imagenet_operator.api.base import Rule
from imagenet_operator.api.frameworks import FRAMEWORKS, NETWORKS, Framework
from imagenet_operator.api.optimizer import OptimizerName


def rules() -> Iterator[Rule]:
    """Yield the rules for `spec.training` that follow from the registered frameworks."""
    for framework in FRAMEWORKS.values():
        yield from (_only_for(framework, rule) for rule in _rules_of(framework))


def _rules_of(framework: Framework) -> Iterator[Rule]:
    """Yield the rules for jobs of one framework, without the condition on the framework."""
    if framework.networks.keys() != NETWORKS.keys():
        yield _networks(framework)
    if framework.lacks_optimizers:
        yield _optimizers(framework)
    if framework.lacks_augmentations:
        yield _augmentations(framework)
    if framework.lacks_grey_augmentations:
        yield _grey_augmentations(framework)
    if framework.lacks_options:
        yield _options(framework)
    if not all(support.gpu_image for support in framework.strategies.values()):
        yield _images(framework)
    yield from framework.training_rules


def _only_for(framework: Framework, rule: Rule) -> Rule:
    """Return a rule that is also true for jobs of other frameworks."""
    return replace(
        rule,
        cel=f"self.framework != '{framework.name}' || ({rule.cel})",
        holds=lambda training: training.framework != framework.name or rule.holds(training),
    )


def _or(has: Callable[[Framework], bool], remedy: str) -> str:
    """Return a remedy, and as an alternative the frameworks for which a condition is true."""
    names = [name for name, framework in FRAMEWORKS.items() if has(framework)]
    if not names:
        return remedy
    verb = "" if remedy.startswith("write") else "write "
    return f"{remedy}, or {verb}framework: {' or '.join(names)}"


def _networks(framework: Framework) -> Rule:
    known = list(framework.networks)

    def explain(training: Any) -> tuple[str, str]:
        network = training.model.network
        remedy = f"write one of {', '.join(known)}"
        return (
            f"{framework.name} has no {network}",
            _or(lambda other: network in other.networks, remedy),
        )

    return Rule(
        cel=f"self.model.network in {known}",
        message=f"must be a network of the framework {framework.name}",
        field="model.network",
        holds=lambda training: training.model.network in framework.networks,
        explain=explain,
    )


def _optimizers(framework: Framework) -> Rule:
    lacking = framework.lacks_optimizers
    usual = next(name for name in get_args(OptimizerName) if name not in lacking)

    def explain(training: Any) -> tuple[str, str]:
        name = training.optimizer.name
        return (
            f"{framework.name} has no {name}",
            _or(
                lambda other: name not in other.lacks_optimizers, f"write another, such as {usual}"
            ),
        )

    return Rule(
        cel=f"!(self.optimizer.name in {list(lacking)})",
        message=f"cannot be {' or '.join(lacking)} with the framework {framework.name}",
        field="optimizer.name",
        holds=lambda training: training.optimizer.name not in lacking,
        explain=explain,
    )


def _augmentations(framework: Framework) -> Rule:
    lacking = framework.lacks_augmentations

    def explain(training: Any) -> tuple[str, str]:
        changed = _changed(training.augmentation, lacking)
        return (
            f"{framework.name} has no {_none_of(changed)}",
            _or(lambda other: not set(changed) & set(other.lacks_augmentations), "remove it"),
        )

    return Rule(
        cel=_unchanged_cel(lacking),
        message=f"must not have these with the framework {framework.name}: {_listed(lacking)}",
        field="augmentation",
        holds=lambda training: not _changed(training.augmentation, lacking),
        explain=explain,
    )


def _grey_augmentations(framework: Framework) -> Rule:
    lacking = framework.lacks_grey_augmentations

    def explain(training: Any) -> tuple[str, str]:
        changed = _changed(training.augmentation, lacking)
        _, height, width = training.model.image_shape
        return (
            f"{framework.name} has no {_none_of(changed)} for images of 1 channel",
            f"remove it, or write model.imageShape: [3, {height}, {width}]",
        )

    return Rule(
        cel=(
            "self.model.imageShape.size() != 3 || self.model.imageShape[0] != 1"
            f" || ({_unchanged_cel(lacking)})"
        ),
        message=(
            f"must not have these with the framework {framework.name} and a model.imageShape of 1"
            f" channel: {_listed(lacking)}"
        ),
        field="augmentation",
        holds=lambda training: (
            training.model.image_shape[0] != 1 or not _changed(training.augmentation, lacking)
        ),
        explain=explain,
    )


def _options(framework: Framework) -> Rule:
    pattern = f"^--({'|'.join(framework.lacks_options)})(=|$)"

    def repeated(training: Any) -> list[str]:
        return [text.partition("=")[0] for text in training.extra_args if re.match(pattern, text)]

    def explain(training: Any) -> tuple[str, str]:
        option = repeated(training)[0]
        bare = option.removeprefix("--")
        return (
            f"{framework.name} has no {option}",
            _or(lambda other: bare not in other.lacks_options, "remove it"),
        )

    listing = ", ".join(f"--{option}" for option in framework.lacks_options)
    return Rule(
        cel=(f"!has(self.extraArgs) || !self.extraArgs.exists(text, text.matches('{pattern}'))"),
        message=f"must not have these with the framework {framework.name}: {listing}",
        field="extraArgs",
        holds=lambda training: not repeated(training),
        explain=explain,
    )


def _images(framework: Framework) -> Rule:
    """Return the rule that a job names an image if the published ones cannot train it on GPUs."""
    kinds = [kind for kind, support in framework.strategies.items() if not support.gpu_image]
    others = [kind for kind in framework.strategies if kind not in kinds]

    def explain(training: Any) -> tuple[str, str]:
        kind = next(kind for kind in kinds if kind in training.strategy.given)
        strategies = f", or strategy: {' or '.join(others)}" if others else ""
        return (
            f"is required: no published image has {framework.name} with {kind} for GPUs",
            _or(
                lambda other: kind in other.strategies and other.strategies[kind].gpu_image,
                f"write an image that has it{strategies}",
            ),
        )

    return Rule(
        cel=(
            "self.workers.gpus < 1 || has(self.image)"
            f" || !({' || '.join(f'has(self.strategy.{kind})' for kind in kinds)})"
        ),
        message=(
            f"is required for workers.gpus with the framework {framework.name} and the strategy"
            f" {' or '.join(kinds)}"
        ),
        field="image",
        holds=lambda training: (
            training.workers.gpus < 1
            or training.image is not None
            or not set(kinds) & set(training.strategy.given)
        ),
        explain=explain,
    )


def _changed(augmentation: Augmentation, names: Iterable[str]) -> list[str]:
    """Return the Python names of the fields that differ from their defaults."""
    fields = Augmentation.model_fields
    return [name for name in names if getattr(augmentation, name) != fields[name].default]


def _none_of(names: Iterable[str]) -> str:
    return " and no ".join(str(Augmentation.model_fields[name].alias) for name in names)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(str(Augmentation.model_fields[name].alias) for name in names)


def _unchanged_cel(names: Iterable[str]) -> str:
    clauses = []
    for name in names:
        field = Augmentation.model_fields[name]
        path = f"self.augmentation.{field.alias}"
        # A field without a default has none in the schema, and may be absent.
        if field.default is None:
            clauses.append(f"!has({path})")
        # CEL treats a whole number in a number field as an integer.
        elif isinstance(field.default, float):
            clauses.append(f"double({path}) == {field.default}")
        else:
            clauses.append(f"{path} == {str(field.default).lower()}")
    return " && ".join(clauses)


RULES = tuple(rules())
"""The rules for `spec.training`."""
