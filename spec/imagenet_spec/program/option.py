"""An option of a program: declared once, as a field of a frozen dataclass.

The attribute's name is the option's (`lr_factor` is `--lr-factor`). argparse's arguments are made
from the declaration, and a program's command line is written by it.
"""

import argparse
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from imagenet_spec.names import camel_case

Group = TypeVar("Group")

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Option:
    """One option.

    Its default never changes: images of other releases have it, and pods are not told a value that
    equals it. Another default is another option.

    Attributes:
        name: of the attribute.
        default: the program's, when the option is not given.
        description: a sentence for `--help`; the default is added to it.
        read: from the text to the value; raises ArgumentTypeError or ValueError for bad text.
        choices: the only values allowed, when they are few.
        aliases: other names of the option, as train_imagenet.py has them.
        field: of the resource that sets it, below ``spec``; empty if none does.
        is_optional: whether a framework may lack the field, which is absent unless a job gives it.
    """

    name: str
    default: Any
    description: str
    read: Callable[[str], Any]
    choices: Sequence[Any] | None
    aliases: Sequence[str]
    field: str
    is_optional: bool

    @property
    def flag(self) -> str:
        """The option as it is written on a command line."""
        return flag(self.name)


def flag(name: str) -> str:
    """Return an attribute's option: `lr_factor` is `--lr-factor`."""
    return f"--{name.replace('_', '-')}"


def option(
    default: Any,
    description: str,
    read: Callable[[str], Any] = str,
    choices: Sequence[Any] | None = None,
    aliases: Sequence[str] = (),
    field: str = "",
    is_optional: bool = False,
) -> Any:
    """Declare one option as a dataclass field; the arguments are those of `Option`."""
    declared = {"description": description, "read": read, "choices": choices, "aliases": aliases}
    of_resource = {"field": field, "is_optional": is_optional}
    return dataclasses.field(default=default, metadata={**declared, **of_resource})


def options_of(group: type[Any]) -> Iterator[Option]:
    """Yield the options of a group.

    A group with an attribute `FIELD` has options that are named like the fields below it.
    """
    below = getattr(group, "FIELD", None)
    for item in dataclasses.fields(group):
        declared = dict(item.metadata)
        if below is not None:
            declared["field"] = f"{below}.{camel_case(item.name)}"
        yield Option(item.name, item.default, **declared)


def add_group(
    parser: argparse.ArgumentParser,
    title: str,
    group: type[Any],
    choices: Mapping[str, Sequence[str]],
) -> None:
    """Add the options of a group to a parser.

    Args:
        parser: of the program.
        title: of the group in `--help`.
        group: the dataclass.
        choices: the values of options that the group leaves to others, by name.
    """
    arguments = parser.add_argument_group(title, description=group.__doc__)
    for item in options_of(group):
        allowed = item.choices or choices.get(item.name)
        arguments.add_argument(
            item.flag,
            *item.aliases,
            dest=item.name,
            default=item.default,
            type=item.read,
            choices=allowed,
            metavar=None if allowed else "VALUE",
            help=f"{item.description} (default: {_shown(item.default)})".replace("%", "%%"),
        )


def collect(namespace: argparse.Namespace, group: type[Group]) -> Group:
    """Take a group's values out of what the parser returned."""
    names = [item.name for item in dataclasses.fields(group)]  # type: ignore[arg-type]
    return group(**{name: getattr(namespace, name) for name in names})


def written(
    options: Iterable[Option], values: Mapping[str, Any], preset: Mapping[str, Any] = _NOTHING
) -> Iterator[str]:
    """Yield the arguments for values that differ from the program's defaults.

    Args:
        options: of the program, in the order of the arguments.
        values: by name; an option without one, or with None, is left out.
        preset: defaults in place of the options' own, if the command line chooses them.
    """
    for item in options:
        value = values.get(item.name)
        default = preset.get(item.name, item.default)
        if value is not None and (text := _text(value)) != _text(default):
            # argparse takes a text with a dash for an option.
            yield from (f"{item.flag}={text}",) if text.startswith("-") else (item.flag, text)


def _text(value: Any) -> str:
    """Return a value as the programs read it: switches are 0 and 1."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return ",".join(map(_text, value))
    return "" if value is None else str(value)


def _shown(default: Any) -> str:
    return "none" if default is None or default == () else _text(default) or "empty"
