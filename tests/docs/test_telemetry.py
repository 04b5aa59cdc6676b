"""docs/telemetry.md lists what the operator and its pods export, as `make generate` writes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import telemetry_page
from support.telemetry_page import PAGE, operator_metrics, rendered


def test_the_page_is_as_it_is_generated() -> None:
    text = PAGE.read_text()
    assert rendered(text) == text
    for name, kind, labels, meaning in operator_metrics():
        assert f"| {name} | {kind} | {labels} | {meaning} |" in text


def test_a_table_that_differs_is_found_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = PAGE.read_text()
    changed = tmp_path / "telemetry.md"
    changed.write_text(text.replace("| counter |", "| gauge |", 1))
    monkeypatch.setattr(telemetry_page, "PAGE", changed)
    assert telemetry_page.main(["--check"]) == 1
    assert telemetry_page.main([]) == 0
    assert changed.read_text() == text
    assert telemetry_page.main(["--check"]) == 0
