"""The client of a working directory: real runs of `imagenetctl`, on stand-ins for the workloads."""

import hashlib
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from imagenet_operator.clusters.interface import ClusterError, LocalError
from imagenet_operator.sdk.blocking import Client
from imagenet_operator.sdk.errors import NotFound, Rejected
from imagenet_spec.errors import ImageNetJobError
from support import dashboards, stand_ins
from support.processes import wait_until
from support.sentences import says
from support.stand_ins import Workplace

SUBMIT = """
import signal, sys
from imagenetjob import Client
client = Client.local(sys.argv[1])
job = client.submit(sys.argv[2])
print(job.metadata.uid, flush=True)
client.submit(sys.argv[2])
if sys.argv[3:] == ["wait"]:
    print(client.wait("digits", timeout=250).status.phase)
else:
    signal.pause()
"""


@pytest.fixture
def workplace(tmp_path: Path) -> Iterator[Workplace]:
    place = Workplace(tmp_path)
    yield place
    # The child of a script that has ended may still end.
    wait_until(lambda: not place.left(), "every process has gone")


def test_a_finished_job_is_listed_read_and_downloaded(workplace: Workplace) -> None:
    finished = workplace.run()
    assert finished.code == 0, finished.errors
    client = Client.local(workplace.workdir)
    assert client.place == f"the working directory {workplace.workdir}"
    (job,) = client.list()
    assert client.wait("digits") == client.get("digits") == job
    events = client.events("digits")
    assert events[-1].reason == "Succeeded"
    assert f"{events[-1].reason}: {events[-1].message}" in finished.errors
    with (workplace.workdir / "jobs" / "digits" / "events.jsonl").open("a") as file:
        file.write('{"time": "2026-')
    assert client.events("digits") == events
    log = workplace.workdir / "jobs" / "digits" / "logs" / "digits-r0-worker-1.log"
    log.write_text("one\ntwo")
    found = client.logs("digits", index=1, follow=True)
    assert [(line.pod, line.text) for line in found] == [
        ("digits-r0-worker-1", "one"),
        ("digits-r0-worker-1", "two"),
    ]
    with pytest.raises(NotFound, match="no pod digits-r3-worker-0"):
        list(client.logs("digits", attempt=3))
    with pytest.raises(ImageNetJobError, match="--volume raw="):
        client.upload(workplace.workdir, "raw")
    link = workplace.workdir / "jobs" / "digits" / "model"
    attempt = link.resolve()
    # The run makes it a moment after the job has succeeded.
    link.unlink()
    target = workplace.workdir.parent / "model"
    assert client.download("digits", target) == target
    assert json.loads((target / "result.json").read_text())["model"]
    with pytest.raises(LocalError, match="exists; name a new folder"):
        client.download("digits", target)
    with pytest.raises(NotFound, match=r"no spec\.training\.checkpoint\.best"):
        client.download("digits", target, checkpoint="best")
    (attempt / "train.log").write_text("kept\n")
    log.with_name("digits-r0-worker-0.log").unlink()
    assert [line.text for line in client.logs("digits")] == ["kept"]
    checkpoint = attempt / "checkpoints" / "epoch-0002-batch-00000000"
    checkpoint.mkdir(parents=True)
    (checkpoint / "params").write_bytes(b"weights")
    sums = {"params": {"bytes": 7, "sha256": hashlib.sha256(b"weights").hexdigest()}}
    (checkpoint / "manifest.json").write_text(json.dumps({"files": sums}))
    last = client.download("digits", target.with_name("last"), checkpoint="last")
    assert (last / "params").read_bytes() == b"weights"
    (checkpoint / "params").write_bytes(b"WEIGHTS")
    with pytest.raises(LocalError, match="params: its SHA-256 is"):
        client.download("digits", target.with_name("again"), checkpoint=2)
    assert not target.with_name("again").exists()
    (attempt / "escaped").write_bytes(b"weights")
    wrong: list[object] = [{"../../escaped": sums["params"]}, {"params": {}}, ["params"]]
    for listed in wrong:
        (checkpoint / "manifest.json").write_text(json.dumps({"files": listed}))
        with pytest.raises(ClusterError, match="a file of the job's results lists"):
            client.download("digits", target.with_name("hostile"), checkpoint=2)
    assert list(workplace.workdir.parent.rglob("escaped")) == [attempt / "escaped"]


def test_the_metrics_are_the_events_of_all_attempts(workplace: Workplace) -> None:
    assert workplace.run().code == 0
    client = Client.local(workplace.workdir)
    results = (workplace.workdir / "jobs" / "digits" / "model").resolve().parents[1]
    for file in results.glob("attempts/*/metrics.jsonl"):
        file.unlink()
    with pytest.raises(NotFound, match="has not trained yet"):
        client.metrics("digits")
    for attempt in (0, 1):
        folder = results / "attempts" / f"r{attempt}"
        folder.mkdir(exist_ok=True)
        event = {"time": 5.0, "event": "progress", "epoch": attempt, "batch": 1, "loss": 0.5}
        torn = '{"time": 6.0, "event": "prog'
        (folder / "metrics.jsonl").write_text(json.dumps(event) + "\n" + torn)
    rows = client.metrics("digits")
    records = rows if isinstance(rows, list) else rows.to_dict("records")
    assert [(row["attempt"], row["epoch"], row["loss"]) for row in records] == [
        (0, 0, 0.5),
        (1, 1, 0.5),
    ]


@pytest.mark.parametrize(
    ("log", "tail", "expected"),
    [
        ("one\ntwo\nthree\n", 2, ["two", "three"]),
        ("one\ntwo\nthr", 2, ["two", "thr"]),
        ("one\n\nthree\n", 2, ["", "three"]),
        ("one\ntwo\n\n", 2, ["two", ""]),
        ("one\n", 5, ["one"]),
        ("one\n", 0, []),
        ("", 5, []),
        ("x" * 200_000 + "\nlast\n", 2, ["x" * 200_000, "last"]),
        ("line\n" * 50_000 + "last\n", 2, ["line", "last"]),
    ],
)
def test_the_end_of_a_log_is_read_alone(
    tmp_path: Path, log: str, tail: int, expected: list[str]
) -> None:
    dashboards.write_running(tmp_path, "digits")
    (tmp_path / "jobs" / "digits" / "logs" / "digits-r0-worker-0.log").write_text(log)
    found = Client.local(tmp_path).logs("digits", tail=tail)
    assert [line.text for line in found] == expected


def test_a_log_is_followed_while_the_job_runs_and_suspend_interrupts_it(
    workplace: Workplace,
) -> None:
    workplace.behaviour = {"train": "hold", "worker": "hold"}
    # As a shell starts `imagenetctl run … &`.
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    running = workplace.start_run()
    signal.signal(signal.SIGINT, handler)
    workplace.wait_for_pod("digits-r0-worker-0")
    workplace.wait_for_record_of_attempt(0)
    client = Client.local(workplace.workdir)
    log = workplace.workdir / "jobs" / "digits" / "logs" / "digits-r0-worker-0.log"
    following = client.logs("digits", follow=True, index=0)
    with log.open("a") as file:
        file.write("begun\n")
    while (line := next(following)).text != "begun":
        assert line.pod == "digits-r0-worker-0"
    with pytest.raises(LocalError, match="another imagenetctl is running"):
        client.delete("digits")
    client.suspend("digits")
    assert running.finish().code == 130
    assert [line for line in following if line.pod != "digits-r0-worker-0"] == []
    with pytest.raises(
        LocalError, match=says("no process of this user", "runs digits", "imagenetctl run FILE")
    ):
        client.wait("digits")
    client.delete("digits")
    assert client.list() == ()


def test_a_submitted_job_runs_in_a_child(workplace: Workplace) -> None:
    script = workplace.start_python(SUBMIT, workplace.workdir, workplace.manifest, "wait")
    finished = script.finish()
    assert finished.code == 0, finished.errors
    assert finished.output.splitlines()[1] == "Succeeded"
    assert finished.output.split()[0] == workplace.job_file()["job"]["metadata"]["uid"]


WAIT = """
import os, signal, sys
from imagenetjob import Client
os.setsid()
client = Client.local(sys.argv[1])
client.submit(sys.argv[2])
print("submitted", flush=True)
try:
    client.wait("digits")
except KeyboardInterrupt:
    print("interrupted", flush=True)
print(client.wait("digits", timeout=250).status.phase)
"""


def test_ctrl_c_while_waiting_leaves_the_child_alone(workplace: Workplace) -> None:
    workplace.behaviour = {"train": "hold", "worker": "hold"}
    script = workplace.start_python(WAIT, workplace.workdir, workplace.manifest)
    assert script.process.stdout is not None
    assert script.process.stdout.readline() == "submitted\n"
    workplace.wait_for_pod("digits-r0-worker-0")
    wait_until(lambda: workplace.job_file()["job"]["status"]["phase"] == "Running", "it runs")
    owner = int((workplace.workdir / "jobs" / "digits" / "lock").read_text())
    os.killpg(script.process.pid, signal.SIGINT)
    assert script.process.stdout.readline() == "interrupted\n"
    assert os.getpgid(owner) != script.process.pid
    assert Client.local(workplace.workdir).get("digits").status.phase == "Running"
    script.send(signal.SIGKILL)
    script.finish()
    wait_until(lambda: not os.path.exists(f"/proc/{owner}"), "the child ends")  # noqa: PTH110


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_child_ends_with_the_interpreter(workplace: Workplace, number: signal.Signals) -> None:
    workplace.behaviour = {"train": "hold", "worker": "hold"}
    script = workplace.start_python(SUBMIT, workplace.workdir, workplace.manifest)
    workplace.wait_for_pod("digits-r0-worker-0")
    owner = int((workplace.workdir / "jobs" / "digits" / "lock").read_text())
    script.send(number)
    script.finish()
    wait_until(lambda: not os.path.exists(f"/proc/{owner}"), "the child ends")  # noqa: PTH110
    assert workplace.left() == []


def test_another_spec_is_refused_and_an_invalid_job_too(workplace: Workplace) -> None:
    assert workplace.run().code == 0
    client = Client.local(workplace.workdir)
    assert client.submit(stand_ins.job()).status.phase == "Succeeded"
    with pytest.raises(Rejected, match=r"spec.training.epochs: is 3 here.*\n.*imagenetctl delete"):
        client.submit(stand_ins.job(training={"epochs": 3}))
    with pytest.raises(Rejected, match=r"spec.training.epochs"):
        client.submit(stand_ins.job(training={"epochs": "x"}))


def test_a_generated_name_is_refused_with_path_and_hint(workplace: Workplace) -> None:
    job = stand_ins.job()
    job["metadata"] = {"generateName": "digits-"}
    with pytest.raises(Rejected) as rejected:
        Client.local(workplace.workdir).submit(job)
    (problem,) = rejected.value.problems
    assert problem.path == "metadata.generateName"
    assert problem.hint is not None and "metadata.name" in problem.hint
    assert not (workplace.workdir / "jobs").exists()


def test_a_run_that_cannot_start_says_why(workplace: Workplace) -> None:
    other = stand_ins.job(dataset={"source": {"volume": {"claimName": "none", "path": "x.tar"}}})
    with pytest.raises(LocalError, match=says("digits has ended with 3:\n", "'none'")):
        Client.local(workplace.workdir).submit(other)
