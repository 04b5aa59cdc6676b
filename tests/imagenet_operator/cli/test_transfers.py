"""`imagenetctl upload` and `download`: what they print, and their exit codes."""

from __future__ import annotations

import hashlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from imagenet_operator.cli.main import kubectl_main, main
from imagenet_operator.manifests import names
from imagenet_operator.sdk.background import run
from support.api_requests import Refusal
from support.client_jobs import UserCluster
from support.door_cluster import DoorKubelet
from support.processes import DEADLINE_SECONDS, wait_until
from support.sentences import assert_says

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def kubelet(cluster: UserCluster, tmp_path: Path) -> Iterator[DoorKubelet]:
    """A cluster whose pods of imagenet-door run, and serve folders."""
    (tmp_path / "volumes").mkdir()
    found = DoorKubelet(cluster.server, tmp_path / "volumes")
    cluster.server.effects.append(found.take)
    yield found
    run(found.close())


@pytest.fixture
def photos(tmp_path: Path) -> str:
    """A folder with a photograph and a link."""
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "cat.jpg").write_bytes(b"cat" * 100)
    (folder / "link.jpg").symlink_to("/etc/hostname")
    return str(folder)


def test_an_upload_says_where_it_sent_how_much_and_what_it_left_out(
    kubelet: DoorKubelet, photos: str, capsys: Captured
) -> None:
    to = ["-n", "vision", "--claim", "raw", "--path", "images"]
    assert main(["upload", photos, *to]) == 5
    assert_says(capsys.readouterr().err, "no PersistentVolumeClaim 'raw'", "--size 10Gi")
    assert main(["upload", photos, *to, "--size", "1Gi"]) == 0
    out, err = capsys.readouterr()
    assert_says(out, "sent 1 file with", "300 bytes", "images on the claim raw\n")
    assert "in the namespace 'vision' of the cluster" in err
    assert "on the claim: 300 bytes of 300 bytes, 1 of 1 files" in err
    assert "warning: left out link.jpg: " in err
    assert kubectl_main(["upload", photos, "--claim", "raw", "--path", "images"]) == 0
    assert capsys.readouterr().out.endswith("; 1 were there\n")


def test_a_terminal_has_a_bar(
    kubelet: DoorKubelet, photos: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    run(kubelet.claim("raw"))
    assert main(["upload", photos, "-n", "vision", "--claim", "raw"]) == 0
    assert "300/300 bytes" in capsys.readouterr().err


def test_a_model_is_brought_and_its_folder_printed(
    cluster: UserCluster, kubelet: DoorKubelet, tmp_path: Path, capsys: Captured
) -> None:
    cluster.add_job()
    job = cluster.server.get("ImageNetJob", "digits")
    assert job is not None
    path = names.attempt_folder("digits", job["metadata"]["uid"], 0)
    run(kubelet.claim("digits-dataset"))
    result = b'{"model": {}}'
    (tmp_path / "volumes" / "digits-dataset" / path).mkdir(parents=True)
    (tmp_path / "volumes" / "digits-dataset" / path / "result.json").write_bytes(result)
    to = ["-n", "vision", "--to", str(tmp_path / "model")]
    assert main(["download", "digits", *to]) == 5
    assert "digits has no model" in capsys.readouterr().err
    digest = hashlib.sha256(result).hexdigest()
    model = {"claimName": "digits-dataset", "path": path, "sha256": digest}
    cluster.set_status(phase="Succeeded", model=model)
    assert main(["download", "digits", *to]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'model'}\n"
    assert (tmp_path / "model" / "result.json").read_bytes() == result
    assert main(["download", "digits", *to, "--checkpoint", "last"]) == 5
    assert "digits has no checkpoint yet" in capsys.readouterr().err
    assert main(["download", "other", *to]) == 5


def test_a_missing_right_is_a_fault_of_the_environment_and_is_named(
    cluster: UserCluster, kubelet: DoorKubelet, photos: str, capsys: Captured
) -> None:
    run(kubelet.claim("raw"))
    refused = Refusal(403, "Forbidden", 'User "ann" cannot create resource "pods"')
    cluster.server.refuse(refused, lambda asked: asked.verb == "create")
    assert main(["upload", photos, "-n", "vision", "--claim", "raw"]) == 3
    assert_says(capsys.readouterr().err, "right to create pods is missing", "a Role with it")


def test_ctrl_c_deletes_the_pod(cluster: UserCluster, kubelet: DoorKubelet, photos: str) -> None:
    run(kubelet.claim("raw"))
    kubelet.starts = False
    command = "import sys; from imagenet_operator.cli.main import main; sys.exit(main())"
    arguments = ["upload", photos, "-n", "vision", "--claim", "raw"]
    program = subprocess.Popen([sys.executable, "-c", command, *arguments])
    try:
        wait_until(lambda: kubelet.created, "the pod is created")
        program.send_signal(signal.SIGINT)
        assert program.wait(DEADLINE_SECONDS) == 130
    finally:
        program.kill()
        program.wait()
    assert cluster.server.all("Pod") == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["upload", "photos"], "--claim"),
        (["download", "digits"], "--to"),
        (["download", "digits", "--to", "x", "--checkpoint", "newest"], "write best, last"),
    ],
)
def test_what_has_to_be_given(arguments: list[str], said: str, capsys: Captured) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_a_working_directory_is_not_uploaded_to(photos: str, capsys: Captured) -> None:
    assert main(["upload", photos, "--claim", "raw"]) == 2
    assert_says(capsys.readouterr().err, "imagenetctl run", f"--volume raw={photos}")
