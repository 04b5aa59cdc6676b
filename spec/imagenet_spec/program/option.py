"""Options declared once, as fields of frozen dataclasses, become argparse arguments and come back.

The field's name is the option's (`lr_factor` is `--lr-factor`); type, default, reader and help are
one line of `groups`. Used only by `command_line`.
"""

import argparse
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

Group = TypeVar("Group")


def option(
    default: Any,
    description: str,
    read: Callable[[str], Any] = str,
    choices: Sequence[str] | None = None,
    aliases: Sequence[str] = (),
) -> Any:
    """Declare one option as a dataclass field.

    Args:
        default: the value when the option is not given.
        description: a sentence for `--help`; the default is added to it.
        read: from the text to the value; raises ArgumentTypeError or ValueError for bad text.
        choices: the only values allowed, when they are few.
        aliases: other names of the option, as train_imagenet.py has them.
    """
    metadata = {"help": description, "read": read, "choices": choices, "aliases": aliases}
    return dataclasses.field(default=default, metadata=metadata)


def add_group(
    parser: argparse.ArgumentParser,
    title: str,
    group: type[Any],
    choices: Mapping[str, Sequence[str]],
) -> None:
    """Add every field of a group's dataclass as an option of the parser.

    Args:
        parser: of the program.
        title: of the group in `--help`.
        group: the dataclass.
        choices: the values of fields that the group leaves to others, by field.
    """
    arguments = parser.add_argument_group(title, description=group.__doc__)
    for field in dataclasses.fields(group):
        allowed = field.metadata["choices"] or choices.get(field.name)
        arguments.add_argument(
            "--" + field.name.replace("_", "-"),
            *field.metadata["aliases"],
            dest=field.name,
            default=field.default,
            type=field.metadata["read"],
            choices=allowed,
            metavar=None if allowed else "VALUE",
            help=f"{field.metadata['help']} (default: {_shown(field.default)})".replace("%", "%%"),
        )


def collect(namespace: argparse.Namespace, group: type[Group]) -> Group:
    """Take a group's values out of what the parser returned."""
    names = [field.name for field in dataclasses.fields(group)]  # type: ignore[arg-type]
    return group(**{name: getattr(namespace, name) for name in names})


def _shown(default: Any) -> str:
    if default is None:
        return "none"
    if isinstance(default, bool):
        return str(int(default))
    if isinstance(default, tuple):
        return ",".join(str(part) for part in default) or "none"
    return str(default) if default != "" else "empty"
