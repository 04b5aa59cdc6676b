"""The parser of a command, and the arguments that several commands have.

argparse turns the ArgumentTypeError of a type into ``error: argument --workdir: …`` and exit code
2.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from imagenet_operator.cli import exit_codes

DEFAULT_WORKDIR = Path("imagenet-work")


class CommandParser(argparse.ArgumentParser):
    """The parser of a command, which refuses unknown options itself.

    By default argparse leaves them to `imagenetctl`, whose usage names no option of a command.
    """

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; exit with the usage of the command after an unknown argument."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return parsed, unknown


@dataclass(frozen=True)
class Command:
    """A command of the table in `main`, which its module declares."""

    subparsers: argparse._SubParsersAction[CommandParser]
    name: str

    def declare(
        self,
        run: Callable[[argparse.Namespace], int],
        *,
        summary: str,
        description: str,
        examples: str = "",
        epilog: str = "",
    ) -> argparse.ArgumentParser:
        """Return the parser of the command.

        `summary` is for the list of all commands, `description` for the command's own help. The
        exit codes of all commands follow `examples`; a command that starts no program gives its own
        as `epilog` instead.
        """
        parser = self.subparsers.add_parser(
            self.name,
            help=summary,
            description=description,
            epilog=epilog or f"{examples}\n{exit_codes.HELP}",
            formatter_class=argparse.HelpFormatter
            if epilog
            else argparse.RawDescriptionHelpFormatter,
        )
        parser.set_defaults(run=run)
        return parser


def add_job_file(parser: argparse.ArgumentParser) -> None:
    """Declare the file of a command that runs one job."""
    parser.add_argument(
        "file",
        type=not_empty,
        metavar="FILE",
        help="the manifest of one ImageNetJob, or - for the standard input",
    )


def add_workdir(
    parser: argparse.ArgumentParser, content: str, default: Path | None = DEFAULT_WORKDIR
) -> None:
    """Declare --workdir."""
    parser.add_argument(
        "--workdir",
        type=path,
        default=default,
        metavar="DIR",
        help=f"{content} (default: ./{DEFAULT_WORKDIR})",
    )


def add_output(parser: argparse.ArgumentParser, json: str) -> None:
    """Declare --output, which is text or, for scripts, the named form of JSON."""
    parser.add_argument(
        "-o",
        "--output",
        choices=("text", "json"),
        default="text",
        help=f"text, or {json} for scripts (default: text)",
    )


def add_price(parser: argparse.ArgumentParser) -> None:
    """Declare --price-per-gpu-hour."""
    parser.add_argument(
        "--price-per-gpu-hour",
        type=not_negative,
        metavar="PRICE",
        help="price of a GPU for one hour",
    )


def path(text: str) -> Path:
    """Read a path; an empty one would be the working directory."""
    return Path(not_empty(text))


def not_empty(text: str) -> str:
    """Read a path that may be `-` or an address, or a name."""
    if not text:
        raise argparse.ArgumentTypeError("is empty; write a path or a name")
    return text


def whole(least: int) -> Callable[[str], int]:
    """Return a type of whole numbers of at least `least`."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdecimal()) or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
        return int(text)

    return read


def not_negative(text: str) -> float:
    """Read a number of at least 0."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 0; write 2.5")
    return value
