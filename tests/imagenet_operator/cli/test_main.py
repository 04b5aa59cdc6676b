"""The command line as a whole: help, version, errors, and predict."""

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from imagenet_operator.cli import exit_codes, programs
from imagenet_operator.cli.arguments import path
from imagenet_operator.cli.interrupts import Interrupts, as_ctrl_c
from imagenet_operator.cli.main import build_parser, build_plugin_parser, kubectl_main, main
from imagenet_operator.clusters.interface import LocalError
from imagenet_spec.frameworks import DEFAULT_FRAMEWORK
from support.processes import wait_until
from support.sentences import assert_says
from support.stand_ins import CALL, Workplace

COMMANDS = (
    *("init", "validate", "run", "report", "compare", "render", "predict"),
    *("dataset", "ledger", "verify", "export", "networks"),
)
PREDICT = """#!/usr/bin/env python3
import json, sys
print(json.dumps(sys.argv[1:]))
sys.exit(int(open(__file__ + ".code").read()))
"""


@pytest.mark.parametrize("arguments", [["--help"], *([name, "--help"] for name in COMMANDS)])
def test_help_documents_exit_codes(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert ended.value.code == 0
    assert "exit codes" in capsys.readouterr().out.lower()


def test_the_overall_help_names_every_command_with_an_example() -> None:
    text = build_parser().format_help()

    for command in COMMANDS:
        assert f"imagenetctl {command}" in text


@pytest.mark.parametrize("build", [build_parser, build_plugin_parser])
def test_a_command_alone_is_declared_as_among_all(
    build: Callable[[str | None], argparse.ArgumentParser],
) -> None:
    for name, among_all in commands_of(build(None)).items():
        alone = commands_of(build(name))
        assert alone.keys() == {name}
        assert alone[name].format_help() == among_all.format_help()


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    (found,) = (one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    return dict(found.choices)


def test_every_exit_code_is_documented() -> None:
    codes = (value for name, value in vars(exit_codes).items() if name.isupper() and name != "HELP")
    assert all(f"  {code} " in exit_codes.HELP for code in codes)


def test_the_version_is_the_distributions(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])

    assert capsys.readouterr().out.startswith("imagenetctl ")


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (["validate", "a.yaml", "--bogus"], "validate"),
        (["dataset", "list", "a", "--bogus"], "list"),
    ],
)
def test_an_unknown_option_shows_the_usage_of_its_command(
    arguments: list[str], command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert ended.value.code == exit_codes.USAGE
    told = capsys.readouterr().err
    assert told.splitlines()[-1].endswith(f"{command}: error: unrecognized arguments: --bogus")
    assert "[-h]" in told


@pytest.mark.parametrize("arguments", [[], ["fly"], ["run"], ["run", "a", "--output", "xml"]])
def test_wrong_usage_exits_with_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert ended.value.code == exit_codes.USAGE


@pytest.mark.parametrize(
    ("program", "typed", "said"),
    [
        (main, "valdate", "unknown command 'valdate'; did you mean validate?"),
        (main, "rnu", "unknown command 'rnu'; did you mean run?"),
        (main, "Lits", "unknown command 'Lits'; did you mean list?"),
        (main, "fly", "invalid choice: 'fly' (choose from "),
        (kubectl_main, "lgos", "unknown command 'lgos'; did you mean logs?"),
        (kubectl_main, "valdate", "invalid choice: 'valdate' (choose from "),
    ],
)
def test_a_misspelt_command_names_the_nearest(
    program: Callable[[list[str]], int], typed: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        program([typed, "job.yaml"])

    assert ended.value.code == exit_codes.USAGE
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        *(([command, ""], "FILE") for command in ("run", "validate", "render", "bench")),
        (["scale", "", "--workers", "1"], "FILE"),
        (["predict", ""], "IMAGE"),
        (["export", "", "--format", "onnx"], "RESULT"),
        (["verify", ""], "RESULT"),
        (["ledger", ""], "NAME"),
        (["report", ""], "NAME"),
        (["compare", "a", ""], "NAME"),
        (["dataset", "list", ""], "ADDRESS"),
        (["predict", "a.jpg", "--model", ""], "--model"),
        (["export", "a", "--format", "onnx", "--into", ""], "--into"),
        (["export", "a", "--format", "onnx", "--dataset", ""], "--dataset"),
        (["ledger", "a", "--dataset", ""], "--dataset"),
        (["report", "a", "--plot", ""], "--plot"),
        (["compare", "a", "b", "--plot", ""], "--plot"),
        (["dataset", "list", "a", "--secret", ""], "--secret"),
        *(([command, "a", "--workdir", ""], "--workdir")
          for command in ("run", "bench", "predict", "ledger", "report", "compare")),
        (["scale", "a", "--workers", "1", "--workdir", ""], "--workdir"),
    ],
)  # fmt: skip
def test_an_empty_path_is_one_error(
    arguments: list[str], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert ended.value.code == exit_codes.USAGE
    (error,) = (line for line in capsys.readouterr().err.splitlines() if "error: " in line)
    assert_says(error, f"error: argument {name}: is empty", "write a path")


def test_no_path_may_be_empty() -> None:
    """An option that is added must not take an empty path for the working directory."""
    pending, types = [build_parser()], set()
    while pending:
        for action in pending.pop()._actions:
            if isinstance(action, argparse._SubParsersAction):
                pending += action.choices.values()
            else:
                types.add(action.type)

    assert path in types
    assert Path not in types


def test_a_reader_that_leaves_early_gets_no_traceback(workplace: Workplace) -> None:
    command = "import sys; from imagenet_operator.cli.main import main; sys.exit(main())"
    reading, writing = os.pipe()
    os.close(reading)

    finished = subprocess.run(
        [sys.executable, "-c", command, "validate", workplace.manifest],
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)

    assert (finished.returncode, finished.stderr) == (141, b"")


def test_the_operators_side_never_imports_mxnet() -> None:
    command = (
        "import sys; from imagenet_operator.cli.main import build_parser; build_parser();"
        "print([name for name in sys.modules if name.split('.')[0] in "
        "('mxnet', 'numpy', 'cv2', 'imagenet_workloads')])"
    )

    finished = subprocess.run([sys.executable, "-c", command], capture_output=True, check=True)

    assert finished.stdout == b"[]\n"


def prediction(workplace: Workplace, code: int) -> None:
    program = workplace.program("predict")
    program.write_text(PREDICT)
    program.chmod(0o755)
    program.with_name("imagenet-predict.code").write_text(str(code))


@pytest.mark.parametrize(("code", "expected"), [(0, 0), (1, 1), (2, 2), (3, 1)])
def test_predict_runs_the_workloads_program(
    workplace: Workplace, tmp_path: Path, code: int, expected: int
) -> None:
    prediction(workplace, code)

    finished = workplace.start(
        *("predict", "a.jpg", "b.png", "--model", tmp_path, "--from", "m.onnx"),
        *("--top", "3", "--output", "json"),
    ).finish()

    assert finished.code == expected
    chosen = ["--from", "m.onnx", "--top", "3", "--output", "json"]
    wanted = ["--model", str(tmp_path), *chosen]
    assert json.loads(finished.output) == [*wanted, "--", "a.jpg", "b.png"]


def test_export_runs_the_program_of_the_results_framework(
    workplace: Workplace, tmp_path: Path
) -> None:
    program = workplace.program("export")
    program.write_text(PREDICT)
    program.chmod(0o755)
    program.with_name("imagenet-export.code").write_text("3")
    (tmp_path / "result.json").write_text('{"framework": "MXNet"}')

    options = ("--format=onnx", "--into=m.onnx", "--dataset=d", "--check")
    finished = workplace.start("export", tmp_path, *options).finish()

    assert finished.code == exit_codes.FAILED
    assert json.loads(finished.output) == [str(tmp_path), *options]


def test_predict_takes_the_newest_result(workplace: Workplace) -> None:
    prediction(workplace, 0)
    workplace.run()

    finished = workplace.start("predict", "a.jpg", "--workdir", workplace.workdir).finish()

    model = json.loads(finished.output)[1]
    assert model == str((workplace.workdir / "jobs" / "digits" / "model").resolve())


@pytest.mark.costly
@pytest.mark.parametrize("output", ["text", "csv"])
def test_predict_takes_the_model_of_a_job(workplace: Workplace, output: str) -> None:
    prediction(workplace, 0)
    workplace.run()
    options = ("--workdir", workplace.workdir, "--output", output)

    finished = workplace.start("predict", "--job", "digits", "a.jpg", *options).finish()

    model = str((workplace.workdir / "jobs" / "digits" / "model").resolve())
    # A program gets what differs from its defaults.
    chosen = [] if output == "text" else ["--output", output]
    assert json.loads(finished.output) == ["--model", model, *chosen, "--", "a.jpg"]


@pytest.mark.parametrize(
    ("job", "hint"),
    [("digit", "did you mean digits?"), ("cats", "jobs with a model: digits"), ("../x", "digits")],
)
def test_predict_of_a_job_without_a_model_names_those_with_one(
    tmp_path: Path, job: str, hint: str
) -> None:
    (tmp_path / "jobs" / "digits" / "model").mkdir(parents=True)
    (tmp_path / "x" / "model").mkdir(parents=True)
    with pytest.raises(LocalError, match=f"no job '{job}' has a model in {tmp_path}; .*") as caught:
        programs.model_of(job, tmp_path)
    assert str(caught.value).endswith(hint)


def test_the_newest_of_many_results_is_the_one_linked_last(tmp_path: Path) -> None:
    for number, name in enumerate(["old", "new", "middle"]):
        target = tmp_path / "volumes" / name
        target.mkdir(parents=True)
        link = tmp_path / "jobs" / name / "model"
        link.parent.mkdir(parents=True)
        link.symlink_to(target)
        moment = {"old": 1, "middle": 2, "new": 3}[name] * 1_000_000_000
        os.utime(link, ns=(number, moment), follow_symlinks=False)

    assert programs.newest_model(tmp_path) == tmp_path / "volumes" / "new"


def test_the_framework_is_that_of_the_jobs_newest_result(tmp_path: Path) -> None:
    attempts = {"r2": "TensorFlow", "r10": "PyTorch", "r9": "MXNet"}
    for name, framework in attempts.items():
        folder = tmp_path / "volumes/digits-1/attempts" / name
        folder.mkdir(parents=True)
        (folder / "result.json").write_text(json.dumps({"framework": framework}))
    job = tmp_path / "jobs" / "digits"
    job.mkdir(parents=True)
    (job / "model").symlink_to(folder)
    assert programs.framework_of(tmp_path / "volumes/digits-1") == "PyTorch"
    assert programs.framework_of(job) == "MXNet"
    assert programs.framework_of(tmp_path) == DEFAULT_FRAMEWORK


def test_predict_without_a_result_says_what_to_name(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match=r"no job has succeeded in .*--model"):
        programs.newest_model(tmp_path)


def test_predict_says_where_a_link_leads_that_is_broken(tmp_path: Path) -> None:
    link = tmp_path / "jobs" / "digits" / "model"
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "gone")

    with pytest.raises(LocalError, match=f"{link} points to {tmp_path}/gone, .*--model"):
        programs.newest_model(tmp_path)


HOLD = """#!/bin/sh
echo $$ > "$0.pid"
exec sleep 20
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_predict_leaves_nothing(
    workplace: Workplace, tmp_path: Path, number: signal.Signals
) -> None:
    workplace.program("predict").write_text(HOLD)
    workplace.program("predict").chmod(0o755)
    pid = workplace.program("predict.pid")
    running = workplace.start("predict", "a.jpg", "--model", tmp_path)
    wait_until(lambda: pid.is_file() and pid.read_text().strip(), "imagenet-predict starts")

    running.send(number)

    assert running.finish().code == exit_codes.INTERRUPTED
    wait_until(lambda: not workplace.left(), "imagenet-predict has gone")


@pytest.mark.parametrize("command", [["run"], ["predict"], ["scale", "--workers", "1"]])
@pytest.mark.parametrize("kind", ["loop", "long"])
def test_a_working_directory_that_cannot_be_looked_at_is_one_line(
    workplace: Workplace, capsys: pytest.CaptureFixture[str], command: list[str], kind: str
) -> None:
    workdir = workplace.workdir / ("x" * 300 if kind == "long" else "loop")
    if kind == "loop":
        workdir.symlink_to(workdir)

    arguments = [*command, str(workplace.manifest), "--workdir", str(workdir)]

    assert main(arguments) == exit_codes.ENVIRONMENT
    (line,) = [
        line for line in capsys.readouterr().err.splitlines() if not line.startswith("point ")
    ]
    assert line.startswith("imagenetctl: error: cannot ")
    assert str(workdir) in line


@pytest.mark.parametrize("kind", ["loop", "long"])
def test_a_volume_that_cannot_be_looked_at_is_wrong_usage(
    workplace: Workplace, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    folder = workplace.workdir / ("x" * 300 if kind == "long" else "loop")
    if kind == "loop":
        folder.symlink_to(folder)

    with pytest.raises(SystemExit) as ended:
        main(["run", str(workplace.manifest), "--volume", f"raw={folder}"])

    assert ended.value.code == exit_codes.USAGE
    assert f"'{folder}' is not a folder" in capsys.readouterr().err


def test_predict_without_the_program_says_what_to_install(
    workplace: Workplace, tmp_path: Path
) -> None:
    finished = workplace.start("predict", "a.jpg", "--model", tmp_path).finish()

    assert finished.code == 3
    assert "make install" in finished.errors


def test_interrupts_are_counted_and_then_let_go() -> None:
    woken: list[bool] = []
    before = signal.getsignal(signal.SIGINT)
    with Interrupts(lambda: woken.append(True)) as interrupts:
        assert not interrupts
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)

        assert interrupts
        assert interrupts.count == 2
    assert woken == [True, True]
    assert signal.getsignal(signal.SIGINT) == before


def test_signals_that_end_are_as_ctrl_c_and_then_let_go() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), as_ctrl_c():
        signal.raise_signal(signal.SIGTERM)

    assert signal.getsignal(signal.SIGTERM) == before


def test_a_signal_that_is_ignored_is_not_as_ctrl_c() -> None:
    """As under `nohup`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with as_ctrl_c():
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("command", [["networks"], ["networks", "--output", "json"], ["render"]])
def test_an_output_that_cannot_be_written_is_one_line(
    workplace: Workplace, command: list[str]
) -> None:
    arguments = [*command, workplace.manifest] if command == ["render"] else command
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-c", CALL, *arguments], stdout=full, stderr=subprocess.PIPE, text=True
        )

    assert ended.returncode == exit_codes.ENVIRONMENT
    (line,) = ended.stderr.splitlines()
    assert_says(line, "imagenetctl: error: ", "No space left on device")


def test_ignored_signals_stay_ignored() -> None:
    """As under `nohup`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupts(lambda: None) as interrupts:
            signal.raise_signal(signal.SIGHUP)
        assert not interrupts
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("module", ["main", "scale", "run"])
def test_commands_on_this_machine_import_no_client_of_a_cluster(module: str) -> None:
    """It takes longer to import than most commands take."""
    program = (
        f"import sys, imagenet_operator.cli.{module}; "
        "print(sorted({'aiohttp', 'kopf', 'kubernetes'} & set(sys.modules)))"
    )

    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert ended.stdout == "[]\n"
