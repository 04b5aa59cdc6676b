"""`imagenetctl dashboard` as a process: its address, its output and its end."""

import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from imagenet_operator.cli.main import main
from support import dashboards, report_pages
from support.client_jobs import UserCluster
from support.processes import wait_until
from support.sentences import assert_says


def fetch(address: str) -> str:
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    with opener.open(address, timeout=30) as answer:
        assert "token" not in answer.url
        return str(answer.read().decode())


def test_the_address_is_printed_once_and_opens_the_jobs(tmp_path: Path) -> None:
    report_pages.write(tmp_path)
    with dashboards.served("--workdir", str(tmp_path)) as (address, process):
        place = urlsplit(address)
        assert place.hostname == "127.0.0.1" and place.query.startswith("token=")
        assert "shapes" in fetch(address)
        with pytest.raises(urllib.error.HTTPError, match="403"):
            fetch(f"http://{place.netloc}/")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 0
    token = place.query.partition("=")[2]
    assert out == "" and token not in err
    assert_says(err, f"in the working directory {tmp_path}")
    assert "Traceback" not in err and "GET" not in err


def test_a_damaged_job_is_said_once(tmp_path: Path) -> None:
    report_pages.write(tmp_path)
    (tmp_path / "jobs" / "damaged").mkdir()
    (tmp_path / "jobs" / "damaged" / "job.json").write_text("{")
    with dashboards.served("--workdir", str(tmp_path)) as (address, process):
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        times = set()

        def is_read_again() -> bool:
            with opener.open(address, timeout=30) as answer:
                times.add(answer.headers["Read-At"])
            return len(times) > 1

        wait_until(is_read_again, "the jobs are read again")
        process.terminate()
        err = process.communicate(timeout=30)[1]
    assert err.count("left out") == 1


def test_it_listens_on_this_machine_only(tmp_path: Path) -> None:
    with dashboards.served("--workdir", str(tmp_path)) as (address, process):
        port = urlsplit(address).port
        listening = subprocess.run(
            ["cat", f"/proc/{process.pid}/net/tcp"], capture_output=True, text=True, check=True
        ).stdout
        assert f" 0100007F:{port:04X} 00000000:0000 0A" in listening
        assert f" 00000000:{port:04X} 00000000:0000 0A" not in listening


def test_of_a_cluster(tmp_path: Path) -> None:
    cluster = UserCluster(tmp_path)
    cluster.add_job(phase="Running")
    environment = {"KUBECONFIG": str(cluster.kubeconfig)}
    try:
        with dashboards.served("-n", "vision", environment=environment) as (address, _):
            text = fetch(address)
        assert "digits" in text
        assert "the namespace &#x27;vision&#x27; of the cluster" in text
    finally:
        cluster.close()


def test_a_port_that_is_taken_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["dashboard", "--workdir", str(tmp_path), "--port", port]) == 3
    assert_says(capsys.readouterr().err, f"--port {port}", "in use", "name another one")
    assert main(["dashboard", "--workdir", str(tmp_path), "--port", "70000"]) == 3


@pytest.mark.parametrize("option", ["--host=0.0.0.0", "--host=192.168.0.7"])
def test_no_other_address_can_be_chosen(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["dashboard", option])
    assert ended.value.code == 2
    assert_says(capsys.readouterr().err, "unrecognized arguments: --host")


@pytest.mark.parametrize("missing", ["starlette", "uvicorn"])
def test_without_the_extra_it_says_what_to_install(missing: str) -> None:
    program = f"import sys; sys.modules[{missing!r}] = None; {dashboards.PROGRAM}"
    command = [sys.executable, "-c", program, "dashboard"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 3
    assert_says(ended.stderr, f"{missing} is not installed", "pip install")


def test_a_cluster_that_does_not_answer_is_said_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = UserCluster(tmp_path)
    cluster.close()
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    assert main(["dashboard", "-n", "vision"]) == 3
    assert "token" not in capsys.readouterr().out
