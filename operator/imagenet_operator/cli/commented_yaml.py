"""A manifest as YAML with comments: why a field has its value stands above the field."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

_WIDTH = 100

Path = tuple[str, ...]
"""The path of a field: the names from the root."""


def as_text(manifest: Mapping[str, Any], reasons: Mapping[Path, str], header: Sequence[str]) -> str:
    """Return a manifest as YAML, with comments above fields and a paragraph each at the beginning.

    Small mappings without reasons in them are written in one line.
    """
    lines = [line for text in header for line in _comment(text, "")]
    return "\n".join([*lines, *_lines(manifest, reasons, ())]) + "\n"


def _lines(content: Mapping[str, Any], reasons: Mapping[Path, str], path: Path) -> list[str]:
    lines: list[str] = []
    indent = "  " * len(path)
    for name, value in content.items():
        below = (*path, name)
        if below in reasons:
            lines += _comment(reasons[below], indent)
        has_reasons_inside = any(one[: len(below)] == below != one for one in reasons)
        flow = f"{indent}{_flow(name)}: {_flow(value)}"
        if isinstance(value, Mapping) and value and (has_reasons_inside or len(flow) > _WIDTH):
            lines += [f"{indent}{_flow(name)}:", *_lines(value, reasons, below)]
        else:
            lines.append(flow)
    return lines


def _comment(text: str, indent: str) -> list[str]:
    # A file's name may hold any character, the end of a line too.
    plain = "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)
    prefix = f"{indent}# "
    return textwrap.wrap(
        plain,
        _WIDTH,
        initial_indent=prefix,
        subsequent_indent=prefix,
        break_on_hyphens=False,
        break_long_words=False,
    )


def _flow(value: Any) -> str:
    text: str = yaml.safe_dump(
        value, default_flow_style=True, sort_keys=False, width=math.inf, allow_unicode=True
    )
    # A scalar has the end of its document behind it.
    return text.removesuffix("\n").removesuffix("\n...")
