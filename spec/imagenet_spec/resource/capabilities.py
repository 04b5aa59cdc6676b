"""Rules for what frameworks, readers and deterministic training lack.

The rules of frameworks are derived from their descriptors (`frameworks`). A job that uses what
its framework lacks is rejected. Otherwise the program would train something else than the manifest
specifies, or fail at the first batch after hours of preparation.

`deterministic: true` refuses what cannot give the same bits each time. With two workers, a sum of
gradients has the same bits in any order. MXNet's servers sum in the order of arrival, in its
compiled code. So `parameterServer` takes at most two workers. Servers that sum in the order of
ranks would have to be written and maintained outside MXNet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, get_args

from imagenet_spec.frameworks import FRAMEWORKS
from imagenet_spec.frameworks.descriptor import Framework
from imagenet_spec.program.option import Option
from imagenet_spec.program.train import (
    ONLY_IMAGE_RECORD_ITER,
    ONLY_ORDERED,
    PRECISIONS,
    READERS,
    OptimizerName,
)
from imagenet_spec.resource.augmentation import Augmentation
from imagenet_spec.resource.fields import given_option, without_options_cel
from imagenet_spec.resource.frameworks import NETWORKS, is_named_cel, rules_of
from imagenet_spec.resource.schema import is_default_when_read
from imagenet_spec.rules import Rule


def rules() -> Iterator[Rule]:
    """Yield the rules for `spec.training` that follow from the registered frameworks."""
    yield _ordered_reader()
    yield _image_record_iter()
    for framework in FRAMEWORKS.values():
        # True for jobs of other frameworks.
        elsewhere = f"self.framework != '{framework.name}'"
        for rule in _rules_of(framework):
            yield replace(rule, cel=f"{elsewhere} || ({rule.cel})")


def _rules_of(framework: Framework) -> Iterator[Rule]:
    """Yield the rules for jobs of one framework, without the condition on the framework."""
    if framework.networks.keys() != NETWORKS.keys() or not framework.network_prefix:
        yield _networks(framework)
    if framework.lacks_optimizers:
        yield _optimizers(framework)
    if framework.lacks_precisions:
        yield _precisions(framework)
    if framework.readers != READERS:
        yield _readers(framework)
    if framework.lacks_augmentations:
        yield _augmentations(framework)
    if framework.lacks_grey_augmentations:
        yield _grey_augmentations(framework)
    yield from (_field(framework, item) for item in framework.lacks_fields)
    if framework.lacks_options:
        yield _options(framework)
    yield from rules_of(framework.name).training


def _or(has: Callable[[Framework], bool], remedy: str) -> str:
    """Add to a remedy the frameworks for which a condition is true, as an alternative."""
    names = [name for name, framework in FRAMEWORKS.items() if has(framework)]
    if not names:
        return remedy
    verb = "" if remedy.startswith("write") else "write "
    return f"{remedy}, or {verb}framework: {' or '.join(names)}"


def _networks(framework: Framework) -> Rule:
    known, prefix = list(framework.networks), framework.network_prefix
    has = [f"self.model.network in {known}"]
    if prefix:
        has.append(f"self.model.network.startsWith('{prefix}')")

    def explain(training: Any) -> tuple[str, str]:
        network = training.model.network
        remedy = f"write one of {', '.join((*known, *([f'{prefix}NAME'] if prefix else [])))}"
        return (
            f"{framework.name} has no {network}",
            _or(lambda other: other.has_network(network), remedy),
        )

    return Rule(
        cel=f"{' || '.join(has)} || !({is_named_cel('self.model.network')})",
        message=f"must be a network of the framework {framework.name}",
        field="model.network",
        # A name of no network is the model's error.
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
        explain=explain,
    )


def _precisions(framework: Framework) -> Rule:
    lacking = framework.lacks_precisions
    return Rule(
        cel=f"!has(self.precision) || !(self.precision in {list(lacking)})",
        message=f"cannot be {' or '.join(lacking)} with the framework {framework.name}",
        field="precision",
        explain=lambda training: precision_problem(framework, training.precision),
    )


def precision_problem(framework: Framework, precision: str) -> tuple[str, str]:
    """Return what is wrong with a precision that a framework lacks, and what to write."""
    having = [name for name in PRECISIONS if name not in framework.lacks_precisions]
    return (
        f"{framework.name} has no {precision}",
        _or(
            lambda other: precision not in other.lacks_precisions,
            f"write {' or '.join(having)}",
        ),
    )


def _ordered_reader() -> Rule:
    lacking = ONLY_IMAGE_RECORD_ITER
    return Rule(
        cel=f"!has(self.reader) || self.reader != 'Ordered' || ({unchanged_cel(lacking)})",
        message=f"must not be Ordered with these in augmentation: {listed(lacking)}",
        field="reader",
        explain=lambda training: (
            f"Ordered has no {none_of(changed(training.augmentation, lacking))}",
            "remove it, or write reader: ImageRecordIter",
        ),
    )


def _image_record_iter() -> Rule:
    """Return the rule for jobs that ImageRecordIter reads, named or because of an augmentation."""
    lacking, others = ONLY_ORDERED, ONLY_IMAGE_RECORD_ITER

    def explain(training: Any) -> tuple[str, str]:
        varied = training.augmentation
        remedies = [name for name in (listed(changed(varied, others)), training.reader) if name]
        return (
            f"ImageRecordIter has no {none_of(changed(varied, lacking))}",
            f"remove it, or remove {' and '.join(remedies)}",
        )

    return Rule(
        cel=(
            "(has(self.reader) ? self.reader != 'ImageRecordIter'"
            f" : ({unchanged_cel(others)})) || ({unchanged_cel(lacking)})"
        ),
        message=f"must not have these with ImageRecordIter as reader: {listed(lacking)}",
        field="augmentation",
        explain=explain,
    )


def _readers(framework: Framework) -> Rule:
    known = list(framework.readers)
    return Rule(
        cel=f"!has(self.reader) || self.reader in {known}",
        message=f"must be {' or '.join(known)} with the framework {framework.name}",
        field="reader",
        explain=lambda training: (
            f"{framework.name} has no {training.reader}",
            _or(lambda other: training.reader in other.readers, f"write {' or '.join(known)}"),
        ),
    )


def _augmentations(framework: Framework) -> Rule:
    lacking = framework.lacks_augmentations

    def explain(training: Any) -> tuple[str, str]:
        found = changed(training.augmentation, lacking)
        return (
            f"{framework.name} has no {none_of(found)}",
            _or(lambda other: not set(found) & set(other.lacks_augmentations), "remove it"),
        )

    return Rule(
        cel=unchanged_cel(lacking),
        message=f"must not have these with the framework {framework.name}: {listed(lacking)}",
        field="augmentation",
        explain=explain,
    )


def _grey_augmentations(framework: Framework) -> Rule:
    lacking = framework.lacks_grey_augmentations

    def explain(training: Any) -> tuple[str, str]:
        found = changed(training.augmentation, lacking)
        _, height, width = training.model.image_shape
        return (
            f"{framework.name} has no {none_of(found)} for images of 1 channel",
            f"remove it, or write model.imageShape: [3, {height}, {width}]",
        )

    return Rule(
        cel=(
            "self.model.imageShape.size() != 3 || self.model.imageShape[0] != 1"
            f" || ({unchanged_cel(lacking)})"
        ),
        message=(
            f"must not have these with the framework {framework.name} and a model.imageShape of 1"
            f" channel: {listed(lacking)}"
        ),
        field="augmentation",
        explain=explain,
    )


def _field(framework: Framework, item: Option) -> Rule:
    name = item.field.removeprefix("training.")
    return Rule(
        cel=f"!has(self.{name})",
        message=f"must be absent with the framework {framework.name}",
        field=name,
        explain=lambda training: (
            f"{framework.name} has no {name.rpartition('.')[2]}",
            _or(lambda other: item not in other.lacks_fields, "remove it"),
        ),
    )


def _options(framework: Framework) -> Rule:
    lacking = [item.flag for item in framework.lacks_options]

    def explain(training: Any) -> tuple[str, str]:
        option = given_option(training, lacking)
        return (
            f"{framework.name} has no {option}",
            _or(
                lambda other: option not in [item.flag for item in other.lacks_options], "remove it"
            ),
        )

    return Rule(
        cel=without_options_cel(lacking),
        message=f"must not have these with the framework {framework.name}: {', '.join(lacking)}",
        field="extraArgs",
        explain=explain,
    )


def changed(augmentation: Augmentation, names: Iterable[str]) -> list[str]:
    """Return the Python names of the fields that differ from their defaults."""
    fields = Augmentation.model_fields
    return [name for name in names if getattr(augmentation, name) != fields[name].default]


def none_of(names: Iterable[str]) -> str:
    """Return fields as what is missing: A and no B."""
    return " and no ".join(str(Augmentation.model_fields[name].alias) for name in names)


def listed(names: Iterable[str]) -> str:
    """Return the names of fields in a manifest: A, B."""
    return ", ".join(str(Augmentation.model_fields[name].alias) for name in names)


def unchanged_cel(names: Iterable[str], augmentation: str = "self.augmentation") -> str:
    """Return the CEL expression that fields, by their Python names, have their defaults."""
    clauses = []
    for name in names:
        field = Augmentation.model_fields[name]
        path = f"{augmentation}.{field.alias}"
        # A field whose default is not in the schema may be absent.
        if field.default is None:
            clauses.append(f"!has({path})")
            continue
        absent = f"!has({path}) || " if is_default_when_read(field) else ""
        # CEL treats a whole number in a number field as an integer.
        if isinstance(field.default, float):
            clause = f"double({path}) == {field.default}"
        else:
            clause = f"{path} == {str(field.default).lower()}"
        clauses.append(f"({absent}{clause})" if absent else clause)
    return " && ".join(clauses)


MOST_WORKERS = 2
"""Workers of `parameterServer` with `deterministic`."""

_OFF = "!(has(self.deterministic) && self.deterministic) || "
_ELSEWHERE = "!has(self.strategy.parameterServer) || "


IN_ORDER_CEL = (
    f"(has(self.reader) ? self.reader == 'Ordered' : ({unchanged_cel(ONLY_IMAGE_RECORD_ITER)}))"
)
"""`reads_in_order` as a CEL expression over `spec.training`."""


def reads_in_order(training: Any) -> bool:
    """Whether the ordered reader reads the records, named or by default."""
    if training.reader is not None:
        return bool(training.reader == "Ordered")
    return not changed(training.augmentation, ONLY_IMAGE_RECORD_ITER)


_DETERMINISTIC = (
    Rule(
        cel=f"{_OFF}!(has(self.compile) && self.compile)",
        message="must not be true with deterministic: compiled code may differ each time",
        hint="remove compile or deterministic",
        field="compile",
    ),
    Rule(
        cel=f"{_OFF}{_ELSEWHERE}self.strategy.parameterServer.kvStore != 'dist_async'",
        message="must not be dist_async with deterministic: it applies gradients as they arrive",
        hint="write kvStore: dist_sync, or remove deterministic",
        field="strategy.parameterServer.kvStore",
    ),
    Rule(
        cel=f"{_OFF}{_ELSEWHERE}self.workers.replicas <= {MOST_WORKERS}",
        message=(
            f"must be at most {MOST_WORKERS} with parameterServer and deterministic: servers sum "
            "in the order of arrival"
        ),
        hint=f"write replicas: {MOST_WORKERS}, or another strategy",
        field="workers.replicas",
    ),
    Rule(
        cel=f"{_OFF}{IN_ORDER_CEL}",
        message="must be Ordered with deterministic, without augmentations that only "
        "ImageRecordIter has",
        hint="write reader: Ordered",
        field="reader",
    ),
)

RULES = (*rules(), *_DETERMINISTIC)
"""The rules for `spec.training`."""
