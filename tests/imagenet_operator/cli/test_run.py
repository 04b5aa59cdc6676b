"""`imagenetctl run`, as a process, on stand-ins for the workloads' programs."""

import json
import os
import signal
from pathlib import Path

import pytest

from imagenet_operator.cli import run
from imagenet_spec.resource.job import ObjectMeta
from support import stand_ins
from support.processes import wait_until
from support.sentences import assert_says
from support.stand_ins import KEY, Workplace

WORKERS = ["digits-r0-worker-0", "digits-r0-worker-1"]


def test_a_job_succeeds_and_says_what_it_came_to(workplace: Workplace) -> None:
    finished = workplace.run()

    assert finished.code == 0, finished.errors
    data = workplace.workdir / "volumes" / "digits-dataset"
    (model,) = data.glob("jobs/digits-*/attempts/r0")
    lines = dict(line.split(maxsplit=1) for line in finished.output.splitlines())
    assert lines["digits"].startswith("succeeded in ")
    assert lines["accuracy"] == "top-1 0.9500, top-5 1.0000 on 20 validation images"
    assert lines["model"] == str(model)
    assert lines["dataset"] == str(data / "datasets" / KEY)
    assert lines["restarts"] == "0"
    assert lines["try"] == f"it    imagenetctl predict IMAGE --model {model}"
    assert (workplace.workdir / "jobs" / "digits" / "model").resolve() == model


def test_a_folder_in_place_of_the_link_spoils_no_success(workplace: Workplace) -> None:
    """As after a copy of the working directory that followed links."""
    model = workplace.workdir / "jobs" / "digits" / "model"
    model.mkdir(parents=True)

    finished = workplace.run()

    assert finished.code == 0, finished.errors
    assert "accuracy  top-1 0.9500" in finished.output
    assert f"imagenetctl: warning: cannot link {model} to the model: " in finished.errors
    assert "Traceback" not in finished.errors
    assert not list(model.parent.glob(".model.tmp-*"))


def test_without_a_terminal_events_are_plain_lines(workplace: Workplace) -> None:
    finished = workplace.run()

    assert "\x1b" not in finished.errors
    assert "pack: 120 of 120 images (2 of 2 shards" in finished.errors
    assert_says(finished.errors, "Succeeded: ", "attempt 0", "exited with 0")


def test_json_output_is_json_alone(workplace: Workplace) -> None:
    finished = workplace.run("--output", "json")

    assert finished.code == 0, finished.errors
    *events, result = [json.loads(line) for line in finished.output.splitlines()]
    assert {event["type"] for event in events} == {"event", "epoch"}
    assert "DatasetReady" in [event.get("reason") for event in events]
    assert result["type"] == "result"
    assert result["outcome"] == "Succeeded"
    assert result["validation"]["top1"] == 0.95
    assert result["restarts"] == 0
    assert result["dataset"]["key"] == KEY
    assert not result["dataset"]["reused"]
    assert Path(result["model"]["folder"]).is_dir()
    assert finished.errors == ""


def test_an_epoch_is_a_line_with_its_attempt(workplace: Workplace) -> None:
    """The first attempt loses its epoch, and the second one trains it again."""
    workplace.behaviour = {"worker@0": "lose"}

    finished = workplace.run("--output", "json")

    assert finished.code == 0, finished.errors
    lines = [json.loads(line) for line in finished.output.splitlines()]
    known = [line["reason"] if line["type"] == "event" else line["type"] for line in lines]
    assert [name for name in known if name in ("epoch", "Restarting", "Succeeded")] == [
        *("epoch", "Restarting", "epoch", "Succeeded")
    ]
    epochs = [line for line in lines if line["type"] == "epoch"]
    assert [line["attempt"] for line in epochs] == [0, 1]
    assert {line["epoch"] for line in epochs} == {1}
    assert epochs[0]["validation"] == {"images": 20, "top1": 0.95, "top5": None, "loss": 1.25}
    figures = ("loss", "learningRate", "imagesPerSecond")
    assert [epochs[0][name] for name in figures] == [1.5, 0.5, 50.0]


def test_a_resumed_run_shows_the_epochs_of_earlier_attempts(workplace: Workplace) -> None:
    workplace.behaviour = {"worker@0": "lose", "worker@1": "hold"}
    running = workplace.start_run()
    workplace.wait_for_pod("digits-r1-worker-0")
    workplace.wait_for_record_of_attempt(1)
    running.send(signal.SIGINT)
    first = running.finish()
    workplace.behaviour = {}

    second = workplace.run()

    epoch = "epoch 1/90: loss 1.5000, validation loss 1.2500, validation top-1 0.950"
    assert first.errors.count(epoch) == 1
    assert second.errors.count(epoch) == 2


@pytest.mark.costly
@pytest.mark.parametrize("is_drawn", [True, False])
def test_a_run_that_succeeded_has_a_plot(workplace: Workplace, is_drawn: bool) -> None:
    program = workplace.program("plot")
    program.write_text('#!/bin/sh\ntouch "$3"\n' if is_drawn else "#!/bin/sh\nexit 1\n")
    program.chmod(0o755)

    finished = workplace.run()

    assert finished.code == 0, finished.errors
    picture = (workplace.workdir / "jobs" / "digits" / "model").resolve() / "training.png"
    assert (f"  plot      {picture}\n" in finished.output) is picture.is_file() is is_drawn


def test_each_pod_has_a_log_and_an_address_of_its_own(workplace: Workplace) -> None:
    workplace.run()

    logs = {path.stem for path in (workplace.workdir / "jobs/digits/logs").glob("*.log")}
    assert logs == set(workplace.pods())
    members = [item for item in workplace.started() if "-r0-" in item["POD_NAME"]]
    addresses = {item["POD_NAME"]: item["POD_IP"] for item in members}
    assert len(set(addresses.values())) == 4
    assert {item["DMLC_PS_ROOT_URI"] for item in members} == {addresses["digits-r0-scheduler-0"]}


def test_a_rerun_is_a_new_job_on_the_same_dataset(workplace: Workplace) -> None:
    first = workplace.run("--output", "json").result
    before = len(workplace.pods())

    finished = workplace.run()

    assert workplace.job_file()["job"]["metadata"]["uid"] != first["uid"]
    assert f"(dataset {KEY[:12]} reused)" in finished.output
    assert not [name for name in workplace.pods()[before:] if "pack" in name or "seal" in name]
    assert set(WORKERS) <= set(workplace.pods()[before:])


@pytest.mark.costly
@pytest.mark.parametrize("policy", ["None", "Running", "All"])
def test_a_run_ends_whatever_is_kept_of_the_job(workplace: Workplace, policy: str) -> None:
    limits = {"ttlSecondsAfterFinished": 0, "retentionPolicy": "Delete", "cleanPodPolicy": policy}
    workplace.write(stand_ins.job(run_policy=limits))

    assert workplace.run().code == 0
    assert workplace.left() == []
    assert workplace.job_file()["job"]["status"]["phase"] == "Succeeded"
    assert (workplace.workdir / "jobs" / "digits" / "model" / "result.json").is_file()


def test_a_failing_preparation_is_explained(workplace: Workplace) -> None:
    workplace.behaviour = {"pack": "exit 3"}

    finished = workplace.run()

    assert finished.code == 1
    assert "digits failed: PreparationFailed: " in finished.errors
    assert finished.errors.count("PreparationFailed") == 1
    assert "  pack says: this is why\n" in finished.errors
    assert "Traceback" not in finished.errors
    assert not [name for name in workplace.pods() if "worker" in name]


def test_a_failing_worker_is_tried_again_and_then_explained(workplace: Workplace) -> None:
    workplace.write(stand_ins.job(run_policy={"backoffLimit": 1}))
    workplace.behaviour = {"worker@0": "exit 1", "worker@1": "exit 1"}

    finished = workplace.run("--output", "json")

    assert finished.code == 1
    assert finished.result["outcome"] == "Failed"
    assert finished.result["reason"] == "BackoffLimitExceeded"
    assert finished.result["restarts"] == 1
    assert Path(finished.result["log"]).name.startswith("digits-r1-worker-")
    assert "this is why" in Path(finished.result["log"]).read_text()


def test_members_whose_metrics_exceed_a_limit_are_named(workplace: Workplace) -> None:
    """The sampler of a local run has the operator's limits."""
    workplace.behaviour = {"worker": "redirect"}
    running = workplace.start_run()
    workplace.wait_for_pod(WORKERS[0])

    def left_out() -> str:
        status: dict[str, str] = workplace.job_file()["job"]["status"]
        return status.get("metricsLeftOut", "")

    named = ", ".join(f"{name} (redirected)" for name in WORKERS)
    wait_until(lambda: left_out() == named, "both workers are named")
    workplace.release()
    assert running.finish().code == 0


def test_a_program_that_returns_early_is_no_success(workplace: Workplace) -> None:
    workplace.behaviour = {"worker": "exit 0"}

    finished = workplace.run("--output", "json")

    assert finished.code == 1
    assert (finished.result["outcome"], finished.result["reason"]) == ("Failed", "NoResult")


def test_the_speed_of_test_io_is_a_result(workplace: Workplace) -> None:
    document = stand_ins.job()
    document["spec"]["training"]["extraArgs"] = ["--test-io", "1"]
    workplace.write(document)

    finished = workplace.run("--output", "json")

    assert finished.code == 0, finished.errors
    assert (finished.result["model"], finished.result["imagesPerSecond"]) == (None, 500.0)


@pytest.mark.costly
@pytest.mark.parametrize("role", ["scheduler", "server", "worker"])
def test_a_killed_member_restarts_the_gang(workplace: Workplace, role: str) -> None:
    workplace.behaviour = {"worker@0": "hold"}
    running = workplace.start_run("--output", "json")
    for name in WORKERS:
        workplace.wait_for_pod(name)

    os.kill(workplace.wait_for_pod(f"digits-r0-{role}-0")["pid"], signal.SIGKILL)

    finished = running.finish()
    assert finished.code == 0, finished.errors
    assert finished.result["restarts"] == 1
    assert finished.result["attempt"] == 1
    assert finished.result["model"]["folder"].endswith("/attempts/r1")


@pytest.mark.costly
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_leaves_nothing_and_goes_on_later(
    workplace: Workplace, number: signal.Signals
) -> None:
    workplace.behaviour = {"worker@0": "hold"}
    running = workplace.start_run()
    for name in WORKERS:
        workplace.wait_for_pod(name)

    running.send(number)

    interrupted = running.finish()
    assert interrupted.code == 130
    assert "run the same command again" in interrupted.errors
    assert workplace.left() == []
    uid = workplace.job_file()["job"]["metadata"]["uid"]
    finished = workplace.run("--output", "json")
    assert finished.code == 0, finished.errors
    assert finished.result["uid"] == uid
    assert finished.result["attempt"] == 1
    assert (finished.result["restarts"], finished.result["disruptions"]) == (0, 1)


def test_a_killed_run_leaves_nothing_and_goes_on_at_once(workplace: Workplace) -> None:
    workplace.behaviour = {"worker@0": "hold"}
    running = workplace.start_run()
    for name in WORKERS:
        workplace.wait_for_pod(name)
    workplace.wait_for_record_of_attempt(0)

    running.send(signal.SIGKILL)
    running.finish()
    finished = workplace.run()

    assert finished.code == 0, finished.errors
    assert "resuming digits" in finished.errors
    assert [name for name in workplace.pods() if "index" in name] == workplace.pods()[:1]
    assert "digits-r1-worker-0" in workplace.pods()


def test_a_killed_run_takes_every_process_with_it(workplace: Workplace) -> None:
    workplace.behaviour = {"worker": "stubborn"}
    running = workplace.start_run()
    for name in WORKERS:
        workplace.wait_for_pod(name)

    running.send(signal.SIGKILL)
    running.finish()

    wait_until(lambda: not workplace.left(), "every process has gone")


def test_a_second_interrupt_kills_what_still_runs(workplace: Workplace) -> None:
    workplace.behaviour = {"worker": "stubborn"}
    running = workplace.start_run()
    for name in WORKERS:
        workplace.wait_for_pod(name)
    assert running.process.stderr is not None

    running.send(signal.SIGINT)
    for line in running.process.stderr:
        if "press Ctrl-C again" in line:
            break
    running.send(signal.SIGINT)

    assert running.finish().code == 130
    assert workplace.left() == []


def test_an_interrupted_preparation_goes_on(workplace: Workplace) -> None:
    workplace.behaviour = {"seal": "hold"}
    running = workplace.start_run()
    wait_until(lambda: any("seal" in name for name in workplace.pods()), "seal starts")
    running.send(signal.SIGINT)
    assert running.finish().code == 130
    workplace.behaviour = {}

    finished = workplace.run("--output", "json")

    assert finished.code == 0, finished.errors
    assert finished.result["disruptions"] == 0


def test_a_changed_job_starts_anew_after_an_interruption(workplace: Workplace) -> None:
    workplace.behaviour = {"worker": "hold"}
    running = workplace.start_run()
    workplace.wait_for_pod(WORKERS[0])
    running.send(signal.SIGINT)
    running.finish()
    uid = workplace.job_file()["job"]["metadata"]["uid"]
    workplace.behaviour = {}
    changed = stand_ins.job()
    changed["spec"]["training"]["epochs"] += 1
    workplace.write(changed)

    finished = workplace.run("--output", "json")

    assert finished.result["uid"] != uid
    assert finished.result["attempt"] == 0


def test_a_changed_limit_does_not_start_a_job_anew(workplace: Workplace) -> None:
    workplace.behaviour = {"worker@0": "hold"}
    running = workplace.start_run()
    workplace.wait_for_pod(WORKERS[0])
    running.send(signal.SIGINT)
    running.finish()
    uid = workplace.job_file()["job"]["metadata"]["uid"]
    workplace.write(stand_ins.job(run_policy={"backoffLimit": 2}))

    assert workplace.run("--output", "json").result["uid"] == uid


def test_one_run_at_a_time_works_on_a_job(workplace: Workplace) -> None:
    workplace.behaviour = {"worker": "hold"}
    running = workplace.start_run()
    workplace.wait_for_pod(WORKERS[0])

    second = workplace.run()

    assert second.code == 3
    assert "another imagenetctl is running 'digits'" in second.errors
    workplace.release()
    assert running.finish().code == 0


def test_jobs_of_different_names_share_a_working_directory(workplace: Workplace) -> None:
    workplace.behaviour = {"worker": "hold"}
    running = workplace.start_run()
    workplace.wait_for_pod(WORKERS[0])
    workplace.write(stand_ins.job(name="others"))

    other = workplace.start_run()
    workplace.wait_for_pod("others-r0-worker-0")

    prefixes = {item["POD_IP"].rpartition(".")[0] for item in workplace.started()}
    assert len(prefixes) == 2
    workplace.release()
    assert (running.finish().code, other.finish().code) == (0, 0)


def test_gpus_are_given_to_the_pods_that_ask(workplace: Workplace) -> None:
    manifest = stand_ins.job(training={"workers": {"replicas": 2, "gpus": 2}})
    workplace.write(manifest)

    finished = workplace.run("--gpus", "4")

    assert finished.code == 0, finished.errors
    devices = {item["POD_NAME"]: item["CUDA_VISIBLE_DEVICES"] for item in workplace.started()}
    assert {devices[name] for name in WORKERS} == {"0,1", "2,3"}
    assert devices["digits-r0-server-0"] == ""


def test_a_claim_can_be_any_folder(workplace: Workplace, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    finished = workplace.run("--volume", f"digits-dataset={elsewhere}")

    assert finished.code == 0, finished.errors
    assert (elsewhere / "datasets" / KEY / "dataset.json").exists()


def test_a_manifest_may_be_json(workplace: Workplace) -> None:
    workplace.manifest.write_text(json.dumps(stand_ins.job()))

    assert workplace.run().code == 0


def test_what_a_server_said_of_its_own_job_does_not_count_here(workplace: Workplace) -> None:
    """As in the output of `kubectl get -o yaml`, even of a job that is being deleted."""
    manifest = stand_ins.job()
    manifest["metadata"] |= {
        "uid": "5f1b6e1e-0000-4000-8000-000000000000",
        "resourceVersion": "12",
        "generation": 3,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "deletionTimestamp": "2026-01-02T00:00:00Z",
        "deletionGracePeriodSeconds": 0,
        "finalizers": ["foregroundDeletion"],
        "labels": {"team": "vision"},
        "managedFields": [{"manager": "kubectl"}],
    }
    workplace.write(manifest)

    job = run.read(str(workplace.manifest))

    assert job.metadata == ObjectMeta(name="digits", labels={"team": "vision"})
    assert workplace.run().code == 0
