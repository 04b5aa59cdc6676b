"""`imagenetctl doctor`: what is found, its remedy, and the exit code."""

import json
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from imagenet_operator.cli import doctor, exit_codes
from imagenet_operator.cli.doctor import GPU, Finding, Level
from imagenet_operator.cli.main import main
from imagenet_operator.clusters.kubernetes.login import Connection
from imagenet_operator.clusters.local import environments, frameworks
from imagenet_spec.frameworks import FRAMEWORKS
from imagenet_spec.frameworks.installation import WORKLOADS
from support.asynchronous import asynchronous

H200 = GPU("NVIDIA H200", (9, 0), "143771 MiB", "570.86.15")
V100 = GPU("Tesla V100", (7, 0), "16384 MiB", "470.57")


def test_a_line_has_level_subject_text_and_remedy() -> None:
    line = str(Finding(Level.MISSING, "HEIC images", "without pillow-heif", "type: pip install x"))
    assert line.split(None, 1)[0] == "-"
    assert line.endswith("HEIC images        without pillow-heif; type: pip install x")


def test_this_machine_can_run_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])

    code = main(["doctor", "--workdir", str(tmp_path / "work"), "--metrics-port", port])

    output = capsys.readouterr().out
    assert code == exit_codes.SUCCESS, output
    assert f"Python             {sys.version.split()[0]}" in output
    assert f"ok   MXNet              {metadata.version('mxnet')}" in output
    subjects = ("packages", *FRAMEWORKS, *doctor.LIBRARIES.values(), "GPUs", "ports", "/dev/shm")
    for subject in (*subjects, "working directory", "cluster"):
        assert f" {subject} " in output
    assert not (tmp_path / "work").exists(), "nothing is written"


def test_without_a_framework_no_local_run_is_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "has_framework", lambda _: False)
    monkeypatch.setattr(frameworks, "is_checkout", lambda: False)
    found = list(doctor.of_frameworks(0))
    assert [one.level for one in found].count(Level.FAILURE) == 1
    remedies = {one.subject: one.remedy for one in found}
    assert "--no-deps mxnet==" in remedies["MXNet"]
    assert "torch==" in remedies["PyTorch"]
    assert remedies["frameworks"]


def test_a_framework_that_cannot_be_imported_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("imagenet-train", "python"):
        program = tmp_path / "env-pytorch" / "bin" / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text("#!/bin/sh\necho libgomp.so.1 is missing >&2\nexit 1\n")
        program.chmod(0o755)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    found = doctor.of_framework(FRAMEWORKS["PyTorch"], 0)
    assert found.level is Level.MISSING
    assert "libgomp.so.1 is missing" in found.text
    assert found.remedy


def test_a_framework_that_sees_no_gpu_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, output in {"imagenet-train": "", "python": "2.0 0"}.items():
        program = tmp_path / "env-pytorch" / "bin" / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\necho {output}\n")
        program.chmod(0o755)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    found = doctor.of_framework(FRAMEWORKS["PyTorch"], 8)
    assert "sees 0 of 8 GPUs" in found.text
    assert "GPU" in found.remedy
    assert doctor.of_framework(FRAMEWORKS["PyTorch"], 0).remedy == ""


def test_packages_of_different_versions_are_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = dict.fromkeys(doctor.DISTRIBUTIONS, "0.1.0")
    monkeypatch.setattr(metadata, "version", versions.__getitem__)
    assert doctor.distributions().level is Level.OK
    versions[doctor.DISTRIBUTIONS[1]] = "0.2.0"
    assert doctor.distributions().level is Level.FAILURE


def test_a_package_that_is_missing_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        if name == WORKLOADS:
            raise metadata.PackageNotFoundError(name)
        return "0.1.0"

    monkeypatch.setattr(metadata, "version", version)
    found = doctor.distributions()
    assert found.level is Level.FAILURE
    assert WORKLOADS in found.text and found.remedy


def test_a_library_that_is_missing_is_named_with_its_requirement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    version = metadata.version

    def without(name: str) -> str:
        if name == "pillow-heif":
            raise metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(metadata, "version", without)
    found = {one.subject: one for one in doctor.libraries()}
    assert found["HEIC images"].level is Level.MISSING
    assert "pillow-heif>=" in found["HEIC images"].remedy
    assert found["plots"].level is Level.OK


def test_gpus_are_read_from_nvidia_smi() -> None:
    listing = "NVIDIA H200, 9.0, 143771 MiB, 570.86.15\nTesla V100, 7.0, 16384 MiB, 470.57\n"
    assert doctor.read_gpus(listing) == [H200, V100]
    assert doctor.read_gpus("NVIDIA GRID, [N/A], 1 MiB, 1\n") == []


@pytest.mark.parametrize(
    ("gpu", "newest", "not_that"), [(V100, "MXNet", "PyTorch"), (H200, "PyTorch", "MXNet")]
)
def test_a_gpu_is_listed_with_the_frameworks_that_run_on_it(
    gpu: GPU, newest: str, not_that: str
) -> None:
    (found,) = doctor.of_gpus([gpu, gpu], {})
    runs, _, others = found.text.partition("runs ")[2].partition(", and not ")
    assert found.text.startswith(f"2 x {gpu.name}")
    assert newest in runs and newest not in others
    assert not_that in others and not_that not in runs


def test_gpus_that_the_environment_hides_are_counted() -> None:
    *_, hidden = doctor.of_gpus([V100, V100], {"CUDA_VISIBLE_DEVICES": "1"})
    assert "1 of 2" in hidden.text and "unset" in hidden.remedy


def test_a_port_in_use_names_another_one() -> None:
    with closing(socket.socket()) as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        port = taken.getsockname()[1]
        *_, found = doctor.ports(port)
    assert found.level is Level.MISSING, "--metrics-port has a remedy"
    assert f"port {port} " in found.text and "--metrics-port" in found.text


@pytest.mark.parametrize("problem", ["absent", "small"])
def test_little_shared_memory_has_a_remedy(
    problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path
    if problem == "absent":
        folder = tmp_path / "shm"
    else:
        monkeypatch.setattr(doctor, "SMALL_SHARED_MEMORY", 1 << 80)
    found = doctor.shared_memory(folder)
    assert found.level is Level.MISSING
    assert "--shm-size" in found.remedy


def test_a_working_directory_that_is_a_file_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = doctor.working_directory(tmp_path / "file" / "work")
    assert found.level is Level.FAILURE
    assert "--workdir" in found.remedy


@contextmanager
def api_server(*, operator: bool, allowed: bool, version: str) -> Iterator[Connection]:
    """An API server that knows its version, one group, and what the user may do."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/version":
                self.answer(200, {"gitVersion": version})
            else:
                self.answer(200 if operator else 404, {"message": "not found"})

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert asked["spec"]["resourceAttributes"]["namespace"] == "vision"
            self.answer(201, {**asked, "status": {"allowed": allowed}})

        def answer(self, code: int, body: dict[str, Any]) -> None:
            content = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield Connection(f"http://127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@asynchronous
async def test_a_cluster_is_examined_by_its_rights() -> None:
    with api_server(operator=True, allowed=True, version="v1.34.2") as connection:
        found = await doctor.of_cluster(connection, "vision")
    assert {one.level for one in found} == {Level.OK}
    assert "v1.34.2" in found[0].text
    assert "create imagenetjobs in namespace vision" in found[2].text


@asynchronous
async def test_what_a_cluster_lacks_has_a_remedy() -> None:
    with api_server(operator=False, allowed=False, version="v1.28.1") as connection:
        old, operator, *rights = await doctor.of_cluster(connection, "vision")
    assert {one.level for one in (old, operator, *rights)} == {Level.MISSING}
    assert "1.29" in old.remedy
    assert "docs/install.md" in operator.remedy
    assert all("kubectl create rolebinding" in one.remedy for one in rights)


@asynchronous
async def test_a_cluster_that_does_not_answer_stops_no_local_run() -> None:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        connection = Connection(f"http://127.0.0.1:{free.getsockname()[1]}")
    (found,) = await doctor.of_cluster(connection, "vision")
    assert found.level is Level.MISSING
    assert found.remedy
