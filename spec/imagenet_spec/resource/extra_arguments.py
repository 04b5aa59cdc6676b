"""`spec.training.extraArgs`: the verdict that `imagenet-train` would give after preparation.

`validate` and the worker's builder ask for it; two rules of the resource are here as well. Names,
readers of values and presets are those of the program's own parser (`imagenet_spec.program`).
"""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Iterator
from typing import Any

from imagenet_spec import rules
from imagenet_spec.errors import Problem
from imagenet_spec.frameworks import FRAMEWORKS
from imagenet_spec.names import HINT, nearest
from imagenet_spec.program.presets import IMAGENET_AUGMENTATION, PRESETS
from imagenet_spec.program.train import OPTIONS
from imagenet_spec.resource import capabilities
from imagenet_spec.resource.augmentation import Augmentation
from imagenet_spec.resource.fields import given_option, without_options_cel
from imagenet_spec.resource.frameworks import rules_of
from imagenet_spec.rules import Rule

FIELD = "spec.training.extraArgs"

OPERATOR_OPTIONS: dict[str, str] = {
    item.flag: f"spec.{item.field}" for item in OPTIONS if item.field
}
"""The options of ``imagenet-train`` that the operator sets → the field of each. An extraArg that
repeats one is rejected, because the program would ignore the field."""


def _explain(training: Any) -> tuple[str, str]:
    option = given_option(training, OPERATOR_OPTIONS)
    return f"{option} is set by the operator", f"write {OPERATOR_OPTIONS[option]} instead"


NO_REPEATED_OPTION = Rule(
    cel=without_options_cel(OPERATOR_OPTIONS),
    message="must not repeat an option that the operator sets from another field",
    field="extraArgs",
    explain=_explain,
)
"""The rule for `spec.training`."""

_DTYPE = "^--dtype(=|$)"

# `--dtype` is older than the field, so extraArgs may have it where the field is absent.
NO_SECOND_PRECISION = Rule(
    cel=(
        "!has(self.precision) || !has(self.extraArgs)"
        f" || !self.extraArgs.exists(text, text.matches('{_DTYPE}'))"
    ),
    message="must not have --dtype beside precision",
    field="extraArgs",
    hint="remove --dtype",
)
"""The rule for `spec.training` that its precision is given once."""

_OPTIONS = {name: item for item in OPTIONS if not item.field for name in (item.flag, *item.aliases)}
"""The options that no field sets."""

_PRESETS = {
    **{("--preset", name): values for name, values in PRESETS.items()},
    ("--use-imagenet-data-augmentation", "1"): IMAGENET_AUGMENTATION,
}
"""Option and value → what they set."""

_PRINTS = ("-h", "--help")
"""Options with which the program ends without training."""

_NEGATIVE = re.compile(r"-\d+|-\d*\.\d+")
"""The values with a dash that argparse does not take for options."""


def problems(training: Any) -> list[Problem]:
    """Return every reason why `imagenet-train` would refuse the arguments.

    With an image of the user's, whose program may know further options, unknown ones are none.
    """
    unknown, wrong, given = _parsed(training.extra_args)
    refused = [*wrong] if training.image is not None else [*unknown, *wrong]
    refused += [
        (f"{option} only prints", "remove it")
        for option in (text.partition("=")[0] for text in training.extra_args)
        if option in _PRINTS
    ]
    # Another rule refuses a job with no strategy, or two.
    if not refused and len(training.strategy.given) == 1:
        framework = FRAMEWORKS[training.framework]
        contradictions = rules_of(framework.name).contradictions(training, given)
        refused = [*_preset_problems(training, given), *contradictions]
        precision = given.get("--dtype")
        if precision is not None and precision in framework.lacks_precisions:
            refused.append(capabilities.precision_problem(framework, precision))
    return [Problem(FIELD, message, hint, "operator") for message, hint in refused]


def warnings(training: Any) -> list[Problem]:
    """Return what only the program in the user's image can judge."""
    if training.image is None:
        return []
    unknown, _, _ = _parsed(training.extra_args)
    return [Problem(FIELD, message, hint, "operator") for message, hint in unknown]


def values(training: Any) -> dict[str, str]:
    """Return the value of each option that `imagenet-train` knows."""
    return _parsed(training.extra_args)[2]


_Finding = tuple[str, str | None]


def _parsed(texts: tuple[str, ...]) -> tuple[list[_Finding], list[_Finding], dict[str, str]]:
    """Return what is unknown, what is wrong, and the values by option."""
    unknown: list[_Finding] = []
    wrong: list[_Finding] = []
    given: dict[str, str] = {}
    rest = list(texts)
    while rest:
        option, equals, value = rest.pop(0).partition("=")
        if option in _PRINTS:
            continue
        if option not in _OPTIONS:
            # Another rule refuses those that the operator sets.
            if option not in OPERATOR_OPTIONS:
                meant = nearest(option, _OPTIONS, HINT)
                hint = f"write {meant}" if meant else "see imagenet-train --help"
                unknown.append((f"imagenet-train has no {option}", hint))
            # Whatever follows may be its value.
            if not equals and rest and not rest[0].startswith("-"):
                rest.pop(0)
            continue
        if not equals:
            if not rest or (rest[0].startswith("-") and not _NEGATIVE.fullmatch(rest[0])):
                wrong.append((f"{option} has no value", f"write {option}=VALUE"))
                continue
            value = rest.pop(0)
        if problem := _value_problem(option, value):
            wrong.append(problem)
        given[option] = value
    return unknown, wrong, given


def _value_problem(option: str, text: str) -> _Finding | None:
    item = _OPTIONS[option]
    try:
        value = item.read(text)
    except (ArgumentTypeError, ValueError) as error:
        return f"{option}: {error}", None
    if item.choices and value not in item.choices:
        listing = ", ".join(map(str, item.choices))
        return f"{option} cannot be {text!r}", f"write one of {listing}"
    return None


def _preset_problems(training: Any, given: dict[str, str]) -> Iterator[_Finding]:
    """Yield the rules that a preset breaks together with the job's fields."""
    presets = [
        (f"{option} {value}", _PRESETS[option, value])
        for option, value in given.items()
        if (option, value) in _PRESETS
    ]
    # An option of a field wins; at its default the builder leaves it out.
    unchanged = {
        name
        for name, field in Augmentation.model_fields.items()
        if getattr(training.augmentation, name) == field.default
    }
    for option, values in presets:
        changes = {name: value for name, value in values.items() if name in unchanged}
        varied = training.augmentation.model_copy(update=changes)
        changed = training.model_copy(update={"augmentation": varied})
        for model in (changed, varied):
            for rule in rules.broken(model.rules, model.to_manifest()):
                message = rule.explain(model)[0] if rule.explain else rule.message
                yield f"{option} sets augmentation: {message}", f"remove {option}"
