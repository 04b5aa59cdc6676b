"""The commands in the pages, and the output that they show."""

from __future__ import annotations


def blocks(page: str, heading: str) -> list[list[str]]:
    """Return the blocks of a page's part, each as its lines, but for empty ones.

    Args:
        page: The page's text.
        heading: The part's, with its `#`.
    """
    _, found, rest = page.partition(f"\n{heading}\n")
    assert found, f"there is no {heading}"
    level = heading.partition(" ")[0]
    part = rest.partition(f"\n{level} ")[0]
    return [
        [line for line in block.splitlines()[1:] if line.strip()]
        for block in part.split("```")[1::2]
    ]
