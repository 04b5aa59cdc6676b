"""`imagenetctl scale`, as a process, on stand-ins for the workloads' programs."""

import json
import shutil
import signal
from pathlib import Path

import pytest

from imagenet_operator.cli import exit_codes
from support import stand_ins
from support.processes import wait_until
from support.scale_program import scale, start, written
from support.sentences import assert_says
from support.stand_ins import Workplace

SHARDS = 2
"""Pods that pack the stand-ins' dataset."""
PLOT = """#!/bin/sh
[ "$1" = --scaling ] && [ -f "$2" ] && [ "$3" = --output ] && cp "$2" "$4"
"""


def workers(workplace: Workplace) -> list[str]:
    """The workers that have started, one attempt after the other; within one in any order."""
    return [name for name in workplace.pods() if "-worker-" in name]


def with_plot(workplace: Workplace, text: str = PLOT) -> None:
    workplace.program("plot").write_text(text)
    workplace.program("plot").chmod(0o755)


def test_a_sweep_runs_each_point_and_writes_the_table(workplace: Workplace) -> None:
    with_plot(workplace)

    finished = scale(workplace, "--workers", "2,1", "--strategies", "single,parameterServer")

    assert finished.code == 0, finished.errors
    head, *lines = finished.output.splitlines()
    assert head.split()[:2] == ["strategy", "workers"]
    assert [line.split()[:2] for line in lines] == [
        ["single", "1"],
        ["parameterServer", "1"],
        ["parameterServer", "2"],
    ]
    assert [(line["strategy"], line["workers"], line["top1"]) for line in written(workplace)] == [
        ("single", "1", "0.95"),
        ("parameterServer", "1", "0.95"),
        ("parameterServer", "2", "0.95"),
    ]
    # The stand-in is as fast with two as with one.
    assert [line["speedup"] for line in written(workplace)] == ["1.0", "1.0", "1.0"]
    assert_says(finished.errors, "single: 2 workers", "left out", "takes one")
    folder = workplace.workdir / "scaling"
    assert sorted(path.name for path in folder.iterdir()) == [
        "digits.csv",
        "digits.md",
        "digits.png",
    ]
    assert (folder / "digits.png").read_text() == (folder / "digits.csv").read_text()
    assert len(workers(workplace)) == 1 + 1 + 2


def test_all_points_train_on_one_dataset(workplace: Workplace) -> None:
    scale(workplace, "--workers", "1,2")

    assert sorted(path.name for path in (workplace.workdir / "volumes").iterdir()) == [
        "digits-dataset",
        "raw",
    ]
    assert len([name for name in workplace.pods() if "pack" in name]) == SHARDS


def test_json_output_is_json_alone(workplace: Workplace) -> None:
    with_plot(workplace)

    finished = scale(workplace, "--workers", "1,2", "--output", "json")

    assert finished.code == 0, finished.errors
    assert finished.errors == ""
    *lines, last = [json.loads(line) for line in finished.output.splitlines()]
    results = [line for line in lines if line["type"] == "result"]
    assert [line["job"] for line in results] == [
        "digits-w1-parameter-server",
        "digits-w2-parameter-server",
    ]
    assert {line["outcome"] for line in results} == {"Succeeded"}
    assert (last["type"], last["outcome"], last["failed"]) == ("scaling", "Succeeded", [])
    assert [point["workers"] for point in last["points"]] == [1, 2]
    for name in ("csv", "markdown", "plot"):
        assert Path(last[name]).is_file()


def test_a_finished_point_is_not_run_again(workplace: Workplace) -> None:
    scale(workplace, "--workers", "1")
    first, before = written(workplace), workers(workplace)

    finished = scale(workplace, "--workers", "1,2")

    assert finished.code == 0, finished.errors
    assert "it is done, and does not run again" in finished.errors
    assert sorted(workers(workplace)[len(before) :]) == [
        f"digits-w2-parameter-server-r0-worker-{number}" for number in (0, 1)
    ]
    assert written(workplace)[0] == first[0]


def test_a_changed_job_is_measured_anew(workplace: Workplace) -> None:
    scale(workplace, "--workers", "1")
    before = workers(workplace)
    changed = stand_ins.job()
    changed["spec"]["training"]["epochs"] += 1
    workplace.write(changed)

    assert scale(workplace, "--workers", "1").code == 0
    assert len(workers(workplace)) == 2 * len(before)


def test_a_point_whose_result_is_gone_is_told_by_its_status(workplace: Workplace) -> None:
    scale(workplace, "--workers", "1")
    (path,) = workplace.workdir.glob("jobs/*/job.json")
    stored = json.loads(path.read_text())
    training = stored["job"]["status"]["training"]
    training |= {"imagesPerSecond": 250.0, "accuracy": {"validation": 0.91}}
    path.write_text(json.dumps(stored))
    before = workers(workplace)
    shutil.rmtree(workplace.workdir / "volumes" / "digits-dataset")

    finished = scale(workplace, "--workers", "1")

    assert finished.code == 0, finished.errors
    assert workers(workplace) == before
    (line,) = written(workplace)
    assert (line["images_per_second"], line["top1"], line["speedup"]) == ("250.0", "0.91", "1.0")


def test_a_point_of_which_nothing_is_known_any_more_is_run_again(workplace: Workplace) -> None:
    first = scale(workplace, "--workers", "1")
    assert first.code == 0, first.errors
    before = len(workers(workplace))
    shutil.rmtree(workplace.workdir / "volumes" / "digits-dataset")

    finished = scale(workplace, "--workers", "1")

    assert finished.code == 0, finished.errors
    assert "not run again" not in finished.errors
    assert len(workers(workplace)) == before + 1
    (line,) = written(workplace)
    assert (line["images_per_second"], line["top1"]) == ("300.0", "0.95")


def test_a_finished_point_of_test_io_has_the_speed_of_reading_and_is_not_run_again(
    workplace: Workplace,
) -> None:
    reading = stand_ins.job()
    reading["spec"]["training"]["extraArgs"] = ["--test-io", "1"]
    workplace.write(reading)
    assert scale(workplace, "--workers", "1").code == 0
    before = workers(workplace)

    finished = scale(workplace, "--workers", "1")

    assert finished.code == 0, finished.errors
    assert "it is done, and does not run again" in finished.errors
    assert workers(workplace) == before
    assert [line["images_per_second"] for line in written(workplace)] == ["500.0"]


@pytest.mark.costly
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_sweep_that_was_cut_short_goes_on(workplace: Workplace, number: signal.Signals) -> None:
    scale(workplace, "--workers", "1")
    workplace.behaviour = {"worker@0": "hold"}
    running = start(workplace, "--workers", "1,2")
    second = [f"digits-w2-parameter-server-r0-worker-{index}" for index in (0, 1)]
    for name in second:
        workplace.wait_for_pod(name)
    workplace.wait_for_record_of_attempt(0, "digits-w2-parameter-server")

    running.send(number)

    cut = running.finish()
    if number is signal.SIGINT:
        assert cut.code == 130
        assert "interrupted; run the same command again to resume" in cut.errors
        assert "parameterServer" in cut.output, "what is known is shown"
    finished = scale(workplace, "--workers", "1,2")
    assert finished.code == 0, finished.errors
    assert [line["workers"] for line in written(workplace)] == ["1", "2"]
    assert sum(name.startswith("digits-w1-") for name in workers(workplace)) == 1
    assert workers(workplace)[-2].startswith("digits-w2-parameter-server-r1-")


def test_a_point_that_fails_does_not_keep_the_others_from_running(workplace: Workplace) -> None:
    workplace.write(stand_ins.job(run_policy={"backoffLimit": 0}))
    workplace.behaviour = {"worker@0": "exit 1"}

    finished = scale(workplace, "--workers", "1,2")

    assert finished.code == 1
    assert "digits-w1-parameter-server failed: BackoffLimitExceeded" in finished.errors
    assert "digits-w2-parameter-server failed: BackoffLimitExceeded" in finished.errors
    assert "the same command runs them again" in finished.errors
    workplace.behaviour = {}
    assert scale(workplace, "--workers", "1,2").code == 0


def test_a_point_is_no_measure_in_place_of_one_that_failed(workplace: Workplace) -> None:
    workplace.write(stand_ins.job(run_policy={"backoffLimit": 0}))
    scale(workplace, "--workers", "2")
    workplace.behaviour = {"worker@0": "exit 1"}

    finished = scale(workplace, "--workers", "1,2")

    assert finished.code == 1
    (line,) = written(workplace)
    assert (line["workers"], line["images_per_second"]) == ("2", "300.0")
    assert (line["speedup"], line["efficiency"]) == ("", "")


def test_a_point_that_cannot_run_stops_the_sweep_before_it_starts(workplace: Workplace) -> None:
    finished = scale(workplace, "--workers", "1,2,3")

    assert finished.code == 2
    error = finished.errors.splitlines()[-1]
    facts = ("parameterServer, 3 workers: ", "spec.training.batchSize: 512 is not divisible")
    assert_says(error, "imagenetctl: error: ", *facts)
    assert workplace.started() == []


def test_a_sweep_over_gpus_gives_them_to_the_pods(workplace: Workplace) -> None:
    workplace.write(stand_ins.job(training={"workers": {"replicas": 2, "gpus": 1}}))
    workplace.variables = {"CUDA_VISIBLE_DEVICES": "0,1"}

    finished = scale(workplace, "--gpus", "1,2", "--weak")

    assert finished.code == 0, finished.errors
    assert finished.output.splitlines()[0].split()[:3] == ["strategy", "workers", "GPUs"]
    assert [(line["workers"], line["gpus"]) for line in written(workplace)] == [
        ("1", "1"),
        ("2", "2"),
    ]


def test_a_sweep_on_cpus_is_labelled_as_a_stand_in(workplace: Workplace) -> None:
    workplace.write(stand_ins.job(training={"workers": {"replicas": 2, "gpus": 1}}))

    finished = scale(workplace, "--gpus", "0", "--workers", "1,2")

    assert finished.code == 0, finished.errors
    assert "trained on CPUs, a stand-in" in finished.output
    assert "trained on CPUs, a stand-in" in (workplace.workdir / "scaling/digits.md").read_text()


def test_what_this_machine_cannot_do_stops_the_sweep_before_it_starts(workplace: Workplace) -> None:
    workplace.write(stand_ins.job(training={"workers": {"replicas": 2, "gpus": 1}}))

    workplace.variables = {"CUDA_VISIBLE_DEVICES": "0,1"}
    finished = scale(workplace, "--gpus", "1,2,4")

    assert finished.code == 3
    assert_says(finished.errors, "4 GPUs", "this machine has 2")
    assert workplace.started() == []
    assert not (workplace.workdir / "volumes" / "digits-dataset").exists()


def test_an_environment_that_is_missing_stops_the_sweep_before_it_starts(
    workplace: Workplace,
) -> None:
    finished = scale(workplace, "--workers", "1,2", "--strategies", "parameterServer,horovod")

    assert finished.code == 3
    assert "make install-horovod" in finished.errors
    assert workplace.started() == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "'imagenet-plot' is not installed"),
        ("#!/bin/sh\necho no matplotlib >&2; exit 1\n", "no matplotlib"),
    ],
)
def test_without_the_plot_there_is_still_the_table(
    workplace: Workplace, text: str, why: str
) -> None:
    if text:
        with_plot(workplace, text)

    finished = scale(workplace, "--workers", "1")

    assert finished.code == 0
    assert_says(finished.errors, "no plot: ", why)
    assert "parameterServer" in finished.output


@pytest.mark.costly
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("output", ["text", "json"])
def test_an_interrupted_plot_does_not_hide_the_table(
    workplace: Workplace, number: signal.Signals, output: str
) -> None:
    with_plot(workplace, '#!/bin/sh\necho $$ > "$0.pid"\nexec sleep 20\n')
    pid = workplace.program("plot.pid")
    running = start(workplace, "--workers", "1", "--output", output)
    wait_until(lambda: pid.is_file() and pid.read_text().strip(), "imagenet-plot starts")

    running.send(number)

    finished = running.finish()
    assert finished.code == exit_codes.INTERRUPTED
    wait_until(lambda: not workplace.left(), "imagenet-plot has gone")
    if output == "json":
        assert finished.result["outcome"] == "Interrupted"
        assert [point["workers"] for point in finished.result["points"]] == [1]
        assert finished.result["plot"] is None
    else:
        assert "parameterServer" in finished.output
        assert "no plot: interrupted" in finished.errors
        assert "run the same command again" in finished.errors


def test_a_folder_that_cannot_be_written_is_named(workplace: Workplace) -> None:
    (workplace.workdir / "scaling").write_text("in the way")

    finished = scale(workplace, "--workers", "1")

    assert finished.code == 3
    assert f"cannot write {workplace.workdir}/scaling/digits.csv" in finished.errors
