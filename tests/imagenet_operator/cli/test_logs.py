"""`imagenetctl logs`: each line with its pod, one file for each pod, and refused choices."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from imagenet_operator.cli.main import main
from imagenet_operator.manifests import names
from imagenet_operator.sdk.background import run
from support.client_jobs import UserCluster, add_pod, condition, set_status
from support.door_cluster import DoorKubelet
from support.processes import wait_until

AT = "2026-01-01T00:00:00.000000001Z"


@pytest.fixture
def ended(cluster: UserCluster) -> UserCluster:
    """A job of two workers that has ended."""
    cluster.add_job(phase="Succeeded", conditions=[condition("Succeeded")], training={})
    for index in (0, 1):
        name = f"digits-r0-worker-{index}"
        run(add_pod(cluster.server, name, "terminated"))
        cluster.server.timed_logs[name] = [(AT, f"I am {index}")]
    return cluster


def test_each_line_has_the_name_of_its_pod(
    ended: UserCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["logs", "digits", "-n", "vision"]) == 0
    assert capsys.readouterr().out == "digits-r0-worker-0  I am 0\n"
    assert main(["logs", "digits", "-n", "vision", "-f", "--role", "worker", "--index", "1"]) == 0
    assert capsys.readouterr().out == "digits-r0-worker-1  I am 1\n"


def test_all_logs_go_into_files(
    ended: UserCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "logs"
    assert main(["logs", "digits", "-n", "vision", "--all", "--to", str(folder)]) == 0
    assert {file.name: file.read_text() for file in folder.iterdir()} == {
        f"digits-r0-worker-{index}.log": f"I am {index}\n" for index in (0, 1)
    }
    (tmp_path / "file").touch()
    assert main(["logs", "digits", "-n", "vision", "--to", str(tmp_path / "file")]) == 3


def test_a_log_on_the_volume_comes_through_a_pod_of_the_image_that_is_named(
    ended: UserCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(set_status(ended.server, phase="Running", training={"attempt": 1}))
    job = ended.server.get("ImageNetJob", "digits")
    assert job is not None
    run(ended.server.remove("Pod", "digits-r0-worker-0"))
    folder = names.attempt_folder("digits", job["metadata"]["uid"], 0)
    log = tmp_path / "volumes" / "digits-dataset" / folder / "train.log"
    log.parent.mkdir(parents=True)
    log.write_text("I was 0\n")
    kubelet = DoorKubelet(ended.server, tmp_path / "volumes")
    ended.server.effects.append(kubelet.take)
    try:
        run(kubelet.claim("digits-dataset"))
        code = main(["logs", "digits", "-n", "vision", "--attempt", "0", "--image", "mine:2"])
    finally:
        run(kubelet.close())
    assert code == 0
    assert capsys.readouterr().out == "digits-r0-worker-0  I was 0\n"
    (pod,) = kubelet.created
    assert pod["spec"]["containers"][0]["image"] == "mine:2"


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--all", "--preparation"], 2, "write one of them"),
        (["--preparation", "--attempt", "1"], 2, "the preparation has no attempts"),
        (["--attempt", "7"], 5, "has no pod digits-r7-worker-0"),
        (["--role", "server"], 5, "has no pod digits-r0-server-0"),
    ],
)
def test_a_wrong_choice_is_explained(
    options: list[str], code: int, said: str, ended: UserCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["logs", "digits", "-n", "vision", *options]) == code
    assert said in capsys.readouterr().err


def test_ctrl_c_ends_a_followed_log_without_a_traceback(cluster: UserCluster) -> None:
    cluster.add_job(phase="Running", training={"attempt": 0})
    name = "digits-r0-worker-0"
    run(add_pod(cluster.server, name))
    cluster.server.timed_logs[name] = [(AT, "I am 0")]
    code = "import sys; from imagenet_operator.cli.main import main; sys.exit(main())"
    following = subprocess.Popen(
        [sys.executable, "-c", code, "logs", "digits", "-n", "vision", "-f"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert following.stdout is not None
    assert following.stdout.readline() == f"{name}  I am 0\n"
    looks = len(cluster.server.requests)
    wait_until(lambda: len(cluster.server.requests) > looks, "it waits for the next line")
    following.send_signal(signal.SIGINT)
    _, errors = following.communicate()
    assert following.returncode == 130
    assert "Traceback" not in errors
    assert "destroyed" not in errors
