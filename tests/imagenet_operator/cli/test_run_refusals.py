"""What `imagenetctl run` refuses, as a process: in which words, and before anything starts."""

import re
import socket
from contextlib import closing
from typing import Any

import pytest
import yaml

from support import stand_ins
from support.sentences import assert_says, says
from support.stand_ins import Workplace


def test_a_missing_program_is_named_with_what_to_type(workplace: Workplace) -> None:
    workplace.program("train").unlink()

    finished = workplace.run()

    assert finished.code == 3
    assert "'imagenet-train'" in finished.errors
    assert "make install" in finished.errors
    assert workplace.started() == []


def changed(field: str, value: Any) -> str:
    """The manifest with another field of spec.training."""
    manifest = stand_ins.job()
    manifest["spec"]["training"][field] = value
    return yaml.safe_dump(manifest)


def unnamed() -> str:
    """The manifest that leaves its name to a cluster."""
    return yaml.safe_dump({**stand_ins.job(), "metadata": {"generateName": "digits-"}})


SIDECAR = {"spec": {"containers": [{"name": "main"}, {"name": "logger", "image": "x"}]}}
WORKER_TEMPLATE = {"workers": {"replicas": 2, "template": SIDECAR}}


@pytest.mark.parametrize(
    ("training", "facts"),
    [
        ({"workers": {"replicas": 2, "gpus": 1}}, ("2 GPUs", "this machine has 0")),
        ({"image": "mine:1"}, ("cannot have the image 'mine:1'",)),
        (WORKER_TEMPLATE, ("cannot have sidecars (logger)",)),
    ],
)
def test_what_this_machine_cannot_do_is_said_before_anything_starts(
    workplace: Workplace, training: stand_ins.Manifest, facts: tuple[str, ...]
) -> None:
    workplace.write(stand_ins.job(training=training))

    finished = workplace.run("--gpus", "0")

    assert finished.code == 3
    assert_says(finished.errors, *facts)
    assert finished.errors.count("\n") == 1
    assert workplace.started() == []


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("", ("no manifest", "kind ImageNetJob")),
        ("# later\n", ("no manifest", "kind ImageNetJob")),
        ("a: [", ("line 1",)),
        ("spec:\n\ttraining: {}\n", ("line 2, column 1: ", "tab", "write spaces")),
        ('{"kind": "ImageNetJob"', ("line 1",)),
        ("- kind: ImageNetJob", ("a list", "not an object", "apiVersion")),
        ("kind: ImageNetJob", ("apiVersion",)),
        (changed("epochs", "ten"), ("spec.training.epochs: ", "an integer")),
        (changed("epoch", 1), ("spec.training.epoch: unknown", "mean epochs?")),
        (f"{yaml.safe_dump(stand_ins.job())}---\n" * 2, ("2 documents", "a local run needs")),
        (unnamed(), ("metadata.generateName: only a cluster", "write metadata.name")),
    ],
)
def test_a_bad_manifest_is_wrong_usage(
    workplace: Workplace, text: str, facts: tuple[str, ...]
) -> None:
    workplace.manifest.write_text(text)

    finished = workplace.run()

    assert finished.code == 2
    lines = finished.errors.splitlines()
    assert all(line.startswith(f"imagenetctl: error: {workplace.manifest}: ") for line in lines)
    assert any(re.search(says(*facts), line) for line in lines)


@pytest.mark.parametrize(
    ("name", "message"),
    [("none.yaml", "no such file; write the path"), (".", "is a folder")],
)
def test_a_file_that_is_no_file_is_wrong_usage(
    workplace: Workplace, name: str, message: str
) -> None:
    finished = workplace.start("run", workplace.manifest.parent / name).finish()

    assert finished.code == 2
    assert message in finished.errors


def test_a_working_directory_that_cannot_be_made_is_named(workplace: Workplace) -> None:
    workplace.workdir = workplace.manifest / "work"

    finished = workplace.run()

    assert finished.code == 3
    assert_says(finished.errors, f"{workplace.manifest} is not a folder", "another", "--workdir")


def test_a_check_of_a_working_directory_leaves_nothing(workplace: Workplace) -> None:
    workplace.workdir = workplace.workdir / "new"

    assert workplace.run().code == 3
    assert not workplace.workdir.exists()


def test_a_suspended_job_is_not_waited_for(workplace: Workplace) -> None:
    workplace.write(stand_ins.job(run_policy={"suspend": True}))

    finished = workplace.run()

    assert finished.code == 2
    assert "spec.runPolicy.suspend is true" in finished.errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--volume", "raw"], "'raw' is not NAME=PATH"),
        (["--volume", "raw=/nowhere"], "'/nowhere' is not a folder"),
        (["--gpus", "many"], "'many' is not a number of GPUs"),
        (["--metrics-port", "http"], "'http' is not a port for metrics"),
        (["--metrics-port", "80"], "write 1024 to 65535"),
        (["--metrics-port", "9091"], "not 9091 or 9092, where members meet"),
    ],
)
def test_bad_options_are_wrong_usage(
    workplace: Workplace, options: list[str], message: str
) -> None:
    finished = workplace.run(*options)

    assert finished.code == 2
    assert message in finished.errors


def test_a_folder_for_a_claim_that_the_job_does_not_have_is_refused(workplace: Workplace) -> None:
    finished = workplace.run("--volume", f"rwa={workplace.workdir}")

    assert finished.code == 3
    assert_says(finished.errors, "--volume rwa=…: ", "nothing mounts", "write one of ", "raw")


@pytest.mark.parametrize("option", ["--volume", "--secret"])
def test_a_folder_that_is_given_twice_is_refused(option: str, workplace: Workplace) -> None:
    given = f"raw={workplace.workdir}"
    finished = workplace.run(option, given, option, given)

    assert finished.code == 3
    assert f"{option} raw is given twice, as {workplace.workdir} and " in finished.errors


def test_a_metrics_port_that_is_taken_can_be_moved(workplace: Workplace) -> None:
    with (
        closing(socket.create_server(("0.0.0.0", 0))) as everywhere,
        closing(socket.create_server(("127.0.0.1", 0))) as one_address,
    ):
        taken = everywhere.getsockname()[1]
        # While it is in use there, no process can bind it on all addresses.
        port = str(one_address.getsockname()[1])

        first = workplace.run("--metrics-port", str(taken))
        second = workplace.run("--metrics-port", port)

    assert first.code == 3
    assert f"port {taken} cannot be used" in first.errors
    assert "or choose another port with --metrics-port" in first.errors
    assert second.code == 0
    assert {item["IMAGENET_METRICS_PORT"] for item in workplace.started()} == {port}


def test_an_empty_claim_is_named_with_its_folder(workplace: Workplace) -> None:
    raw = workplace.workdir / "volumes" / "raw"
    raw.rmdir()

    finished = workplace.run()

    assert finished.code == 3
    assert_says(finished.errors, "claim 'raw' has no folder", f"create {raw}")


def test_a_file_in_the_way_of_the_working_directory_is_named(workplace: Workplace) -> None:
    workplace.behaviour = {}
    (workplace.workdir / "jobs").write_text("in the way")

    finished = workplace.run()

    assert finished.code == 3
    assert f"cannot write to the working directory {workplace.workdir}" in finished.errors


def test_an_unreadable_state_says_what_to_remove(workplace: Workplace) -> None:
    workplace.run()
    state = workplace.workdir / "jobs" / "digits" / "job.json"
    state.write_text("{")

    finished = workplace.run()

    assert finished.code == 3
    assert f"cannot use {state}" in finished.errors
