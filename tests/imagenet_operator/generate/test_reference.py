"""The reference and the CRD: complete, and the committed files are those that are made."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from imagenet_operator.generate import files as generate
from imagenet_operator.generate.crd import definition
from imagenet_operator.generate.reference import render
from imagenet_spec.resource.extra_arguments import OPERATOR_OPTIONS
from imagenet_spec.resource.job import root_schema

ROOT = Path(__file__).parents[3]
PAGES = render()
PAGE = "\n".join(PAGES.values())


def _fields(node: dict[str, Any], path: str) -> list[tuple[str, str]]:
    """Return each field with its heading."""
    found = []
    for name, child in node.get("properties", {}).items():
        found.append((path, name))
        place = f"{path}.{name}"
        found += _fields(child, place)
        found += _fields(child.get("items", {}), f"{place}[]")
        found += _fields(child.get("additionalProperties", {}), f"{place}.*")
    return found


def test_every_field_has_a_row_under_its_object() -> None:
    sections = dict(re.findall(r"^##? (\S+)\n(.*?)(?=^##? |\Z)", PAGE, re.DOTALL | re.MULTILINE))
    properties = root_schema()["properties"]
    for part in ("spec", "status"):
        for heading, name in _fields(properties[part], part):
            assert f"\n| `{name}` | " in sections[heading], f"{heading}.{name}"


def test_each_object_has_one_table_and_the_fields_that_hold_it_link_to_it() -> None:
    tables = [
        f"{name}#{re.sub(r'[^a-z0-9]', '', heading.lower())}"
        for name, page in PAGES.items()
        for heading in re.findall(r"^##? (?:spec|status)\S*$", page, re.MULTILINE)
    ]
    linked = [
        f"{target or name}#{anchor}"
        for name, page in PAGES.items()
        for target, anchor in re.findall(r"\[object\]\(([\w.-]*)#(\w+)\)", page)
    ]
    assert sorted(tables) == sorted([*linked, "README.md#spec", "status.md#status"])
    assert len(tables) > 60


def test_a_row_has_type_default_constraint_unit_and_sentence() -> None:
    assert "| `batchSize` | integer | required | ≥ 1; images | Images" in PAGE
    assert "| `quality` | integer | `90` | ≥ 1, ≤ 100 | JPEG quality" in PAGE
    assert "| `randomCrop` | boolean | `false` |  | Crop" in PAGE


def test_rules_options_and_combinations_are_there() -> None:
    assert re.search("^- `batchSize`: .*divisible.* devices", PAGE, re.MULTILINE)
    assert "| `MXNet` | `RecordIO` | `single` |" in PAGE
    assert all(f"| `{option}` | `{field}` |" in PAGE for option, field in OPERATOR_OPTIONS.items())


def test_no_row_has_too_many_cells() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and line.count("`") > 1]
    assert {len(re.split(r"(?<!\\)\|", row)) - 2 for row in rows} <= {2, 3, 5}


def test_the_committed_files_are_those_that_are_made() -> None:
    assert generate.main(["--check", "--root", str(ROOT)]) == 0


def test_the_committed_definition_reads_back() -> None:
    assert yaml.safe_load((ROOT / generate.CRD).read_text()) == definition()


def test_generate_writes_what_check_then_accepts(tmp_path: Path, capsys: Any) -> None:
    arguments = ["--root", str(tmp_path)]
    assert generate.main([*arguments, "--check"]) == 1
    assert "run make generate" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []
    assert generate.main(arguments) == 0
    assert generate.main([*arguments, "--check"]) == 0
    (tmp_path / generate.REFERENCE / "README.md").write_text("by hand")
    assert generate.main([*arguments, "--check"]) == 1
