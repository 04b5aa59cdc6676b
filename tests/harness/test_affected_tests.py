"""Which tests `make check` runs."""

import subprocess
from pathlib import Path

import pytest

from support.affected_tests import affected, changed_files, imports_by_file, module_of

IMPORTS = {
    "operator/shop/prices.py": set[str](),
    "operator/shop/orders.py": {"shop.prices"},
    "operator/shop/bills.py": {"shop.orders"},
    "tests/shop/test_prices.py": {"shop.prices"},
    "tests/shop/test_orders.py": {"shop.orders", "shop.orders.order"},
    "tests/shop/test_bills.py": {"shop.bills"},
    "tests/kind/test_shop.py": {"shop.prices"},
}


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        (["operator/shop/prices.py"], ["test_prices", "test_orders"]),
        (["operator/shop/orders.py"], ["test_orders", "test_bills"]),
        (
            ["tests/shop/test_bills.py", "operator/shop/prices.py"],
            ["test_bills", "test_prices", "test_orders"],
        ),
        (["docs/index.md"], []),
    ],
)
def test_nearest_first_and_no_further_than_the_importers(
    changed: list[str], tests: list[str]
) -> None:
    found = affected(changed, IMPORTS, ["tests/kind"])
    assert [Path(file).stem for file in found] == tests


def test_a_package_is_named_as_its_folder() -> None:
    assert module_of("operator/shop/__init__.py") == "shop"
    assert module_of("tests/support/chart.py") == "support.chart"
    assert module_of("images/lock.py") == "lock"
    assert module_of("benchmarks/reading.py") == "benchmarks.reading"


def test_what_changed_and_what_is_imported(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True)

    git("init", "--quiet")
    (tmp_path / "spec").mkdir()
    (tmp_path / "spec" / "old.py").write_text("import json\nfrom shop import prices\n")
    git("add", ".")
    git("commit", "--quiet", "--message", "first")
    assert changed_files(tmp_path) == []
    (tmp_path / "spec" / "old.py").write_text("from shop import orders\n")
    (tmp_path / "spec" / "new.py").touch()
    assert changed_files(tmp_path) == ["spec/new.py", "spec/old.py"]
    assert imports_by_file(tmp_path, ["spec"]) == {
        "spec/new.py": set(),
        "spec/old.py": {"shop", "shop.orders"},
    }
