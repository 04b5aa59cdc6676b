"""What a server gets, whatever fails between."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from imagenet_spec.events import CheckpointWritten, Event, Finished, Progress, Started
from imagenet_spec.program.programs import TrackOptions
from imagenet_workloads.errors import InputError, WorkloadError
from imagenet_workloads.telemetry.event_log import EventLog
from imagenet_workloads.tracking.follow import Follower
from imagenet_workloads.tracking.mlflow import Job, TrackingError
from support.certificates import Authority
from support.mlflow_server import MlflowServer, Mode
from support.processes import wait_until

JOB = Job("digits", "vision", "6f3c1f0e")
TOKEN = "t0ken"


@pytest.fixture
def server() -> Iterator[MlflowServer]:
    with MlflowServer().served() as found:
        yield found


@pytest.fixture
def secret(tmp_path: Path, server: MlflowServer) -> Path:
    folder = tmp_path / "secret"
    folder.mkdir()
    (folder / "MLFLOW_TRACKING_URI").write_text(f"{server.address}/\n")
    (folder / "MLFLOW_TRACKING_TOKEN").write_text(f"{TOKEN}\n")
    return folder


def write(results: Path, attempt: int, *events: Event) -> None:
    log = EventLog(results / "attempts" / f"r{attempt}")
    for event in events:
        log.write(event)
    log.close()


def started(attempt: int, batch: int = 0) -> Started:
    return Started(attempt, 1, 0, batch, None, 10, "t", 100, "key", {"lr": "0.1"})


def progress(*batches: int) -> list[Event]:
    return [Progress(0, batch, 5.0, 1.0 / batch) for batch in batches]


def checkpoint(batch: int) -> CheckpointWritten:
    return CheckpointWritten(0, batch, "c", 1.0)


def follower(results: Path, secret: Path) -> Follower:
    options = TrackOptions(mlflow_experiment="ours")
    return Follower(results, options, JOB, {"IMAGENET_TRACKING_CREDENTIALS": str(secret)})


def sent(results: Path, secret: Path) -> int:
    """Read all and send it, as a new process does."""
    found = follower(results, secret)
    found.read()
    return found.send()


def test_a_run_is_found_by_the_uid_before_it_is_created(
    tmp_path: Path, secret: Path, server: MlflowServer
) -> None:
    write(tmp_path, 0, started(0), *progress(3, 5), checkpoint(5), *progress(7))
    sent(tmp_path, secret)
    assert server.steps("train/loss") == [30, 50]
    write(tmp_path, 1, started(1, 5), *progress(6, 10), Finished(1))
    sent(tmp_path, secret)
    assert server.steps("train/loss") == [30, 50, 60, 100]
    (run,) = server.runs
    assert run["info"]["status"] == "FINISHED"
    tags = {item["key"]: item["value"] for item in run["data"]["tags"]}
    assert tags["imagenet.job"] == "digits" and tags["imagenet.namespace"] == "vision"
    assert tags["imagenet.restart.1"].startswith("attempt 1 ")
    assert {item["key"]: item["value"] for item in run["data"]["params"]} == {
        "lr": "0.1",
        "dataset_key": "key",
    }
    # Nothing is left to be sent, not even a tag.
    before = len(server.requests)
    assert sent(tmp_path, secret) == 0
    assert [path for path, _ in server.requests[before:]] == [
        "experiments/get-by-name",
        "runs/search",
    ]


def test_files_that_cannot_be_written_hold_nothing_up(
    tmp_path: Path, secret: Path, server: MlflowServer, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, 0, started(0), *progress(3, 5), Finished(1))
    (tmp_path / "tensorboard").write_text("in the way")
    options = TrackOptions(tensorboard=True, mlflow_experiment="ours")
    variables = {"IMAGENET_TRACKING_CREDENTIALS": str(secret)}
    ending = threading.Event()
    ending.set()
    # By a clock that stands still, it would wait for its deadline for ever.
    Follower(tmp_path, options, JOB, variables).follow(ending, clock=lambda: 0.0)
    assert server.steps("train/loss") == [30, 50]
    (said,) = [item for item in caplog.messages if "tensorboard" in item]
    assert "TensorBoard" in said


def test_an_answer_that_is_lost_doubles_nothing(
    tmp_path: Path, secret: Path, server: MlflowServer
) -> None:
    write(tmp_path, 0, started(0), *progress(3, 5), checkpoint(5))
    found = follower(tmp_path, secret)
    found.read()
    found.send()
    write(tmp_path, 0, *progress(7, 9), Finished(1))
    found.read()
    server.mode = "forgets to answer"
    with pytest.raises(TrackingError):
        found.send()
    assert server.steps("train/loss") == [30, 50, 70, 90]
    server.mode = "works"
    assert found.send() == 0
    assert server.steps("train/loss") == [30, 50, 70, 90]
    assert len(server.points) == len(set(server.points))


def test_many_points_are_several_requests(
    tmp_path: Path, secret: Path, server: MlflowServer
) -> None:
    many = [Progress(0, batch, 5.0, 1.0) for batch in range(1, 801)]
    first = Started(0, 1, 0, 0, None, 1000, "t", 10_000)
    write(tmp_path, 0, first, *many, Finished(1))
    sent(tmp_path, secret)
    assert len(server.steps("train/loss")) == 800
    assert [path for path, _ in server.requests].count("runs/log-batch") > 1


@pytest.mark.parametrize(
    ("keys", "header"),
    [
        ({"MLFLOW_TRACKING_TOKEN": "a"}, "Bearer a"),
        ({"MLFLOW_TRACKING_USERNAME": "u", "MLFLOW_TRACKING_PASSWORD": "p"}, "Basic dTpw"),
        ({}, None),
    ],
)
def test_the_login_of_the_secret_is_sent(
    keys: dict[str, str], header: str | None, tmp_path: Path, server: MlflowServer
) -> None:
    secret = tmp_path / "keys"
    secret.mkdir()
    for key, value in {"MLFLOW_TRACKING_URI": server.address, **keys}.items():
        (secret / key).write_text(value)
    write(tmp_path, 0, started(0))
    sent(tmp_path, secret)
    assert {login for _, login in server.requests} == {header}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"MLFLOW_TRACKING_URI": "ftp://x.example"}, "the key MLFLOW_TRACKING_URI of the Secret"),
        ({"MLFLOW_TRACKING_URI": "https://me:pw@x.example"}, "without user and query"),
        ({"MLFLOW_TRACKING_URI": "https://x.example/?key=pw"}, "without user and query"),
        ({"ca.crt": "x"}, "the key ca.crt of the Secret is no certificate"),
        ({"MLFLOW_TRACKING_USERNAME": "me"}, "lacks the key MLFLOW_TRACKING_PASSWORD"),
    ],
)
def test_a_wrong_secret_is_said_without_what_is_in_it(
    keys: dict[str, str], message: str, tmp_path: Path, secret: Path
) -> None:
    (secret / "MLFLOW_TRACKING_TOKEN").unlink()
    for key, value in keys.items():
        (secret / key).write_text(value)
    write(tmp_path, 0, started(0))
    with pytest.raises(InputError) as raised:
        sent(tmp_path, secret)
    assert message in str(raised.value)
    assert not any(part in str(raised.value) for part in ("pw", "x.example", "me:"))


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("refuses", "the server answers 503: TEMPORARILY_UNAVAILABLE"),
        ("forgets to answer", "the server cannot be reached"),
    ],
)
def test_an_error_names_neither_the_server_nor_its_words(
    mode: Mode, message: str, tmp_path: Path, secret: Path, server: MlflowServer
) -> None:
    write(tmp_path, 0, started(0))
    server.mode = mode
    with pytest.raises(WorkloadError) as raised:
        sent(tmp_path, secret)
    assert str(raised.value) == message


def test_a_server_that_answers_again_gets_what_it_missed(
    tmp_path: Path, secret: Path, server: MlflowServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    write(tmp_path, 0, started(0), *progress(3, 5), Finished(1))
    server.mode = "refuses"
    ending = threading.Event()
    thread = threading.Thread(target=follower(tmp_path, secret).follow, args=(ending,))
    thread.start()
    wait_until(lambda: "tracking waits" in caplog.text, "it was tried in vain")
    server.mode = "works"
    # The training ends, so it does not wait for its next try.
    ending.set()
    thread.join(60)
    assert server.steps("train/loss") == [30, 50]
    assert "tracking waits: MLflow: the server answers 503" in caplog.text
    assert "tracking goes on" in caplog.text
    assert server.address not in caplog.text and TOKEN not in caplog.text


def test_the_rest_is_sent_for_a_limited_time(
    tmp_path: Path, secret: Path, server: MlflowServer
) -> None:
    write(tmp_path, 0, started(0), Finished(1))
    server.mode = "refuses"
    ending = threading.Event()
    ending.set()
    moments = iter([0.0, 0.0, 1.0, 29.0, 31.0, 31.0, 31.0])
    follower(tmp_path, secret).follow(ending, lambda: next(moments, 31.0))
    assert server.points == []


@pytest.mark.parametrize("is_known", [True, False])
def test_the_authority_of_the_secret_is_trusted_and_no_other(
    is_known: bool, tmp_path: Path, secret: Path
) -> None:
    authority = Authority()
    write(tmp_path, 0, started(0), *progress(3), Finished(1))
    with MlflowServer().served(authority.server_tls(tmp_path, "127.0.0.1")) as server:
        (secret / "MLFLOW_TRACKING_URI").write_text(server.address)
        trusted = authority if is_known else Authority()
        (secret / "ca.crt").write_bytes(trusted.pem)
        if is_known:
            sent(tmp_path, secret)
            assert server.steps("train/loss") == [30]
        else:
            with pytest.raises(TrackingError, match="no trusted encrypted connection; the key ca"):
                sent(tmp_path, secret)
            assert server.requests == []
