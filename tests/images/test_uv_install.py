"""uv asks the indexes that pip would ask."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import uv_install

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param("", "", id="none"),
        pytest.param("global.timeout='180'", "", id="not of an index"),
        pytest.param(
            ":env:.index-url='https://b'\nglobal.index-url='https://a'",
            "--default-index=https://b",
            id="the environment wins",
        ),
        pytest.param(
            "install.index-url='https://b'\nglobal.index-url='https://a'",
            "--default-index=https://b",
            id="the command wins",
        ),
        pytest.param(
            r"global.extra-index-url='\nhttps://a\nhttps://b'",
            "--index-strategy=unsafe-best-match --index=https://a --index=https://b",
            id="several",
        ),
        pytest.param(
            "global.find-links='/absent https://a'", "--find-links=https://a", id="absent"
        ),
        pytest.param("global.trusted-host='a'", "--allow-insecure-host=a", id="host"),
        pytest.param("global.cert='/a.pem'", "--cert=/a.pem", id="authorities"),
        pytest.param(":env:.no-index='0'", "", id="with an index"),
    ],
)
def test_settings_of_pip_are_given_to_uv(settings: str, expected: str) -> None:
    assert " ".join(uv_install.options(settings)) == expected


def test_uv_finds_what_pip_would_find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that is in one folder alone, which a variable of pip names."""
    (tmp_path / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        '[project]\nname = "imagenetjob-test-of-an-index"\nversion = "1.0"\n'
        '[tool.hatch.build]\ninclude = ["pyproject.toml"]\n'
    )
    wheels = tmp_path / "wheels"
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, f"--wheel-dir={wheels}", str(tmp_path)], check=True)
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    # All of them are options that uv knows, also several times, although it asks none of these.
    for name, value in {
        "PIP_INDEX_URL": "https://a.invalid/simple",
        "PIP_EXTRA_INDEX_URL": "https://b.invalid/simple https://c.invalid/simple",
        "PIP_TRUSTED_HOST": "b.invalid c.invalid",
    }.items():
        monkeypatch.setenv(name, value)
    uv = REPOSITORY / "build" / "tools" / "bin" / "uv"
    assert uv_install.main(str(uv), "--dry-run", "imagenetjob-test-of-an-index") == 0
    assert uv_install.main(str(uv), "--dry-run", "imagenetjob-test-elsewhere") != 0
