"""An option of a program: declared once, as an attribute of a group.

The attribute's name is the option's (`lr_factor` is `--lr-factor`). argparse's arguments are made
from the declaration, and a program's command line is written by it.
"""

import argparse
import json
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple, Self, TypeVar, dataclass_transform

from imagenet_spec.names import camel_case
from imagenet_spec.program.kinds import Value

MISSING: Final[Any] = object()
"""The default of an option that must be given."""

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Option(NamedTuple):
    """One option.

    Its default never changes: images of other releases have it, and pods are not told a value that
    equals it. Another default is another option.

    Attributes:
        description: a sentence for `--help`; the default is added to it, if it has one.
        read: from the text to the value; raises ArgumentTypeError or ValueError for bad text.
            `bool` is a switch that is given without a value.
        aliases: other names of the option, as train_imagenet.py has them.
        is_repeated: whether each value has an option; together they are a tuple.
        field: of the resource that sets it, below ``spec``; empty if none does. ``*`` is the kind
            of source that a job gives.
        section: a field of the resource; a job without it says nothing of the option.
        below: the variable of the folder from whose root the field's path is.
        is_optional: whether a framework may lack the field, which is absent unless a job gives it.
        programs: that have it; empty for all that have its group.
    """

    name: str
    default: Any
    description: str
    read: Callable[[str], Any] = str
    choices: Sequence[Any] | None = None
    aliases: Sequence[str] = ()
    metavar: str = "VALUE"
    is_repeated: bool = False
    field: str = ""
    section: str = ""
    below: str = ""
    is_optional: bool = False
    programs: Sequence[str] = ()

    @property
    def flag(self) -> str:
        return flag(self.name)


def flag(name: str) -> str:
    """Return an attribute's option: `lr_factor` is `--lr-factor`, and `from_` is `--from`."""
    return f"--{name.rstrip('_').replace('_', '-')}"


def option(default: Any, description: str, read: Callable[[str], Any] = str, **further: Any) -> Any:
    """Declare an attribute of a group as an option; the arguments are the attributes of `Option`.

    Its group names it.
    """
    return Option("", default, description, read, **further)


@dataclass_transform(kw_only_default=True, frozen_default=True)
class OptionGroup(Value):
    """Options that go together: a subclass declares each, and its objects have their values."""

    FIELD: ClassVar[str] = ""
    """The field of the resource below which those of the options are named like them."""
    PREFIX: ClassVar[str] = ""
    """What the options' names have before those of the fields."""
    options: ClassVar[tuple[Option, ...]] = ()
    _defaults: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        options = list(cls.options)
        for name, item in list(vars(cls).items()):
            if isinstance(item, Option):
                own = cls.FIELD and f"{cls.FIELD}.{camel_case(name.removeprefix(cls.PREFIX))}"
                section, field = item.section or cls.FIELD, item.field or own
                options.append(item._replace(name=name, section=section, field=field))
                setattr(cls, name, item.default)
        cls.options = tuple(options)
        cls._defaults = {item.name: item.default for item in options}

    def __init__(self, **given: Any) -> None:
        values = vars(self)
        values.update(self._defaults)
        values.update(given)
        if unknown := given.keys() - self._defaults:
            raise TypeError(f"{type(self).__name__} has no {', '.join(sorted(unknown))}")
        if MISSING in values.values():
            missing = [name for name, value in values.items() if value is MISSING]
            raise TypeError(f"{type(self).__name__} needs {', '.join(missing)}")

    def replace(self, **changes: Any) -> Self:
        return type(self)(**vars(self) | changes)


GroupType = TypeVar("GroupType", bound=OptionGroup)


class Program:
    """A program of the pods.

    Attributes:
        groups: its options by their titles in `--help`.
        required: names of options that it needs, although others that have them do not.
    """

    def __init__(
        self, name: str, groups: Mapping[str, type[OptionGroup]], required: Sequence[str] = ()
    ) -> None:
        self.name = name
        self.groups = groups
        self.required = required

    def options_of(self, group: type[OptionGroup]) -> Iterator[Option]:
        for item in group.options:
            if not item.programs or self.name in item.programs:
                needed = item.name in self.required
                yield item._replace(default=MISSING) if needed else item

    @cached_property
    def options(self) -> tuple[Option, ...]:
        """All options, in the order of `--help`."""
        return tuple(item for group in self.groups.values() for item in self.options_of(group))


def parser(
    program: Program, choices: Mapping[str, Sequence[str]] = _NOTHING, **settings: Any
) -> argparse.ArgumentParser:
    """Return the parser of a program; `settings` are further arguments of ArgumentParser.

    `choices` are the values of options that the groups leave to others, by name.
    """
    built = argparse.ArgumentParser(
        prog=program.name, formatter_class=argparse.RawDescriptionHelpFormatter, **settings
    )
    for title, group in program.groups.items():
        if options := tuple(program.options_of(group)):
            add_group(built, title, group, options, choices)
    return built


def add_group(
    parser: argparse.ArgumentParser,
    title: str,
    group: type[OptionGroup],
    options: Iterable[Option],
    choices: Mapping[str, Sequence[str]] = _NOTHING,
) -> None:
    """Add the options that a program has of a group, whose docstring describes it in `--help`.

    `choices` are the values of options that the group leaves to others, by name.
    """
    arguments = parser.add_argument_group(title, description=group.__doc__)
    for item in options:
        allowed = item.choices or choices.get(item.name)
        text = item.description
        has_default = item.default not in (MISSING, None, ()) and item.read is not bool
        if has_default and "default:" not in text:
            text += f" (default: {_text(item.default) or 'empty'})"
        settings: dict[str, Any] = {"dest": item.name, "help": text.replace("%", "%%")}
        if item.read is bool:
            arguments.add_argument(item.flag, action="store_true", **settings)
            continue
        if item.is_repeated:
            settings["action"] = _Repeated
        if item.default is MISSING:
            settings["required"] = True
        else:
            settings["default"] = item.default
        arguments.add_argument(
            item.flag,
            *item.aliases,
            type=item.read,
            choices=allowed,
            metavar=None if allowed else item.metavar,
            **settings,
        )


class _Repeated(argparse.Action):
    """Add the values up to a tuple."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, (*getattr(namespace, self.dest), values))


def objects(of: type[GroupType]) -> Callable[[str], tuple[GroupType, ...]]:
    """Return the reader of a JSON list of objects, whose keys are the options of a group."""
    known = {camel_case(item.name): item for item in of.options}

    def read(text: str) -> tuple[GroupType, ...]:
        try:
            found = json.loads(text)
        except ValueError as error:
            raise ArgumentTypeError(f"is not JSON: {error}") from None
        if not (isinstance(found, list) and all(isinstance(one, dict) for one in found)):
            raise ArgumentTypeError("is not a list of objects, such as [{…}]")
        return tuple(map(read_object, found))

    def read_object(given: dict[str, Any]) -> GroupType:
        needed = {name for name, item in known.items() if item.default is MISSING}
        if given.keys() - known.keys() or needed - given.keys():
            raise ArgumentTypeError(
                f"{json.dumps(given)} must have {', '.join(sorted(needed))}, and may have "
                f"{', '.join(sorted(known.keys() - needed))}"
            )
        values = {}
        for name, value in given.items():
            try:
                values[known[name].name] = known[name].read(_text(value))
            except (ArgumentTypeError, ValueError) as error:
                raise ArgumentTypeError(f"{name}: {error}") from None
        return of(**values)

    return read


def collect(namespace: argparse.Namespace, group: type[GroupType]) -> GroupType:
    """Take a group's values out of what the parser returned."""
    return group(**{item.name: getattr(namespace, item.name) for item in group.options})


def written(
    options: Iterable[Option], values: Mapping[str, Any], preset: Mapping[str, Any] = _NOTHING
) -> Iterator[str]:
    """Yield the arguments for values, by name, that differ from the defaults and are not None.

    `preset` has defaults in place of the options' own, if the command line chooses them.
    """
    for item in options:
        value = values.get(item.name)
        default = preset.get(item.name, item.default)
        if value is None or value is default or _text(value) == _text(default):
            continue
        if item.read is bool:
            yield item.flag
            continue
        for one in value if item.is_repeated and not isinstance(value, str) else (value,):
            text = _text(one)
            # argparse takes a text with a dash for an option.
            yield from (f"{item.flag}={text}",) if text.startswith("-") else (item.flag, text)


def _text(value: Any) -> str:
    """Return a value as the programs read it: switches are 0 and 1, and objects are JSON."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        if value and isinstance(value[0], (dict, OptionGroup)):
            return json.dumps([one if isinstance(one, dict) else _object(one) for one in value])
        return ",".join(map(_text, value))
    return "" if value is None else str(value)


def _object(group: OptionGroup) -> dict[str, Any]:
    return {camel_case(name): value for name, value in vars(group).items() if value is not None}
