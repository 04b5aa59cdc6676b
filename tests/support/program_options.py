"""Write the operator's table of the options of `imagenet-train`, from the program's own parser.

PYTHONPATH=tests python -m support.program_options            # make generate
PYTHONPATH=tests python -m support.program_options --check    # make verify
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence

from imagenet_operator.api.options import OPERATOR_OPTIONS
from imagenet_spec.program.presets import IMAGENET_AUGMENTATION, PRESETS
from imagenet_workloads.commands.train import build_parser
from support.pod_subset import REPOSITORY

MODULE = REPOSITORY / "operator" / "imagenet_operator" / "api" / "program_options.py"
HEAD = '''"""The options of `imagenet-train` that no field sets, as its parser has them.

`make generate` writes this module. An option that only prints, such as --help, is not in it.
"""
'''


def rendered() -> str:
    """Return the module's text."""
    actions = {
        option: action
        for action in build_parser()._actions
        for option in action.option_strings
        if option.startswith("--") and option not in OPERATOR_OPTIONS and action.nargs != 0
    }
    choices = {
        option: tuple(map(str, action.choices))
        for option, action in actions.items()
        if action.choices
    }
    kinds = {
        option: getattr(action.type, "__name__", "str")
        for option, action in actions.items()
        if not action.choices
    }
    presets = {
        **{f"--preset={name}": values for name, values in PRESETS.items() if values},
        "--use-imagenet-data-augmentation=1": IMAGENET_AUGMENTATION,
    }
    tables = (
        ("CHOICES", "dict[str, tuple[str, ...]]", choices, "Option → its values."),
        ("KINDS", "dict[str, str]", kinds, "Option → the kind of its value."),
        ("PRESETS", "dict[str, dict[str, object]]", _plain(presets), "Option → what it sets."),
    )
    text = HEAD + "\n".join(
        f'\n{name}: {kind} = {table!r}\n"""{meaning}"""\n' for name, kind, table, meaning in tables
    )
    return _formatted(text)


def _plain(presets: dict[str, dict[str, object]]) -> dict[str, dict[str, object]]:
    """Return the values that are literals: no other is one of an augmentation's."""
    literals = (bool, int, float, str, tuple)
    return {
        option: {name: value for name, value in values.items() if isinstance(value, literals)}
        for option, values in presets.items()
    }


def _formatted(text: str) -> str:
    command = ["ruff", "format", "--stdin-filename", str(MODULE), "-"]
    ended = subprocess.run(
        [sys.executable, "-m", *command], input=text, capture_output=True, text=True, check=True
    )
    return ended.stdout


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the module, or with ``--check`` compare it; return the exit code."""
    parser = argparse.ArgumentParser(prog="support.program_options", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail on a difference")
    options = parser.parse_args(arguments)
    before = MODULE.read_text(encoding="utf-8") if MODULE.exists() else ""
    after = rendered()
    if before != after and options.check:
        print(f"{MODULE.name}: differs from what it is made from; run make generate")
    elif before != after:
        MODULE.write_text(after, encoding="utf-8")
        print(f"{MODULE.name}: written")
    return 1 if options.check and before != after else 0


if __name__ == "__main__":
    sys.exit(main())
