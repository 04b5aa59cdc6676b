"""The programs beside a job: a real MLflow server, and a browser."""

import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError

import pytest
from playwright.sync_api import Browser, sync_playwright

from support.loopback import free_port
from support.processes import DEADLINE_SECONDS, wait_until


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-images", action="store_true", help="write the pictures of docs/images"
    )


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's chromium."""
    program = shutil.which("chromium")
    assert program is not None, "chromium is missing; type: apt-get install chromium"
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox"], timeout=1000 * DEADLINE_SECONDS
        )
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def mlflow_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an MLflow server with its own database."""
    folder = tmp_path_factory.mktemp("mlflow")
    address = f"http://127.0.0.1:{free_port()}"
    command = [
        str(Path(sys.executable).parent / "mlflow"),
        "server",
        *("--backend-store-uri", f"sqlite:///{folder}/mlflow.db"),
        *("--artifacts-destination", str(folder / "artifacts")),
        *("--host", "127.0.0.1", "--port", address.rpartition(":")[2], "--workers", "1"),
    ]
    # It sends nothing anywhere.
    quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **quiet},
            stdout=log,
            stderr=subprocess.STDOUT,
            # Its workers end with it.
            start_new_session=True,
        )
    try:
        wait_until(lambda: _answers(f"{address}/health", process), "MLflow answers")
        yield address
    finally:
        os.killpg(process.pid, 9)
        process.wait()


def _answers(url: str, process: "subprocess.Popen[bytes]") -> bool:
    assert process.poll() is None, f"MLflow ended with exit code {process.returncode}"
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return int(answer.status) == 200
    except (URLError, OSError):
        return False
