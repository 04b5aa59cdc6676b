"""The source that docs/add-a-source.md adds is read: its code is applied to a copy and run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.file_server import serve
from support.pod_subset import REPOSITORY
from support.walkthroughs import Walkthrough, run

PAGE = Walkthrough.read(REPOSITORY / "docs" / "add-a-source.md")
BIN = Path(sys.executable).parent
MANIFEST = "examples/digits-webdav.yaml"
JOB = "digits-webdav"
PORT = "http://127.0.0.1:8000"


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Return a copy of the tree with the page's code, and the environment that runs it."""
    folder = tmp_path_factory.mktemp("project")
    environment = PAGE.apply(folder)
    run(
        folder,
        environment,
        sys.executable,
        "-m",
        "imagenet_workloads.commands.digits",
        "work/digits.tar",
    )
    (folder / "login").mkdir()
    (folder / "login" / "username").write_text("reader\n")
    (folder / "login" / "password").write_text("secret\n")
    return folder, environment


def command(folder: Path, server: str, workdir: str) -> list[str | Path]:
    manifest = (folder / MANIFEST).read_text()
    assert PORT in manifest
    (folder / workdir).mkdir()
    job = folder / workdir / "job.yaml"
    job.write_text(manifest.replace(PORT, server))
    secret = f"{JOB.removesuffix('-webdav')}-login={folder / 'login'}"
    return [BIN / "imagenetctl", "run", job, "--workdir", workdir, "--secret", secret]


def test_it_changes_only_the_registries() -> None:
    assert set(PAGE.changes) == {
        "spec/imagenet_spec/resource/sources/__init__.py",
        "spec/imagenet_spec/program/sources.py",
        "workloads/imagenet_workloads/prepare/sources/kinds.py",
    }
    others = {path for path in PAGE.new if not path.endswith("/sources/webdav.py")}
    assert others == {MANIFEST}


def test_all_parts_are_registered(copy: tuple[Path, dict[str, str]]) -> None:
    folder, environment = copy
    # Pytest's own settings are at the top of the tree.
    (folder / "pyproject.toml").write_text((REPOSITORY / "pyproject.toml").read_text())
    contract = "tests/contract/test_sources.py"
    run(folder, environment, sys.executable, "-m", "pytest", "-p", "no:cacheprovider", contract)


@pytest.mark.costly
def test_it_trains_on_images_of_a_server(copy: tuple[Path, dict[str, str]]) -> None:
    folder, environment = copy
    archive = (folder / "work" / "digits.tar").read_bytes()
    with serve({"/digits.tar": archive}, "reader", "secret") as server:
        run(folder, environment, *command(folder, server, "served"))

    (dataset,) = (folder / "served" / "volumes").glob("*/datasets/*/dataset.json")
    assert len(json.loads(dataset.read_text())["classes"]) == 9
    model = (folder / "served" / "jobs" / JOB / "model").resolve()
    result = json.loads((model / "result.json").read_text())
    assert (result["epochs"], result["validation"]["images"]) == (2, 180)


def test_a_refused_login_ends_the_job_at_once(copy: tuple[Path, dict[str, str]]) -> None:
    folder, environment = copy
    with serve({}, "reader", "another") as server:
        ended = subprocess.run(
            command(folder, server, "refused"),
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    assert ended.returncode != 0
    assert "/digits.tar: 401 Unauthorized" in ended.stdout + ended.stderr
    assert "secret" not in ended.stdout + ended.stderr
