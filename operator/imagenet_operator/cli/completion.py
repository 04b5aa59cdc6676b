"""`imagenetctl completion SHELL`: completes commands, options, their values and file names."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from imagenet_operator.cli import exit_codes
from imagenet_operator.cli.arguments import Command, not_empty, path

SHELLS = ("bash", "zsh", "fish")

_EXAMPLES = """examples:
  source <(imagenetctl completion bash)              in ~/.bashrc
  imagenetctl completion zsh > FOLDER/_imagenetctl   a FOLDER of zsh's $fpath
  imagenetctl completion fish > ~/.config/fish/completions/imagenetctl.fish
"""

_FILES = ("FILE", "IMAGE", "ADDRESS", "NAME")
"""Arguments that are no path for argparse, but may be one."""


def add_parser(command: Command) -> None:
    """Declare the command."""
    parser = command.declare(
        run,
        summary="print the completion for bash, zsh or fish",
        description="Print a shell's completion of commands, options and files.",
        examples=_EXAMPLES,
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell")


def run(arguments: argparse.Namespace) -> int:
    """Print the completion; return the exit code."""
    # Imported here: `main` imports the module of the typed command, and no other needs shtab.
    import shtab

    from imagenet_operator.cli.main import build_parser

    root = build_parser()
    for action in _actions(root):
        if action.type is path or (
            action.type is not_empty and not action.option_strings and action.metavar in _FILES
        ):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(root, arguments.shell))
    return exit_codes.SUCCESS


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the options and arguments of a program and its commands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)
