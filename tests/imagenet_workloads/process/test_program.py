import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from imagenet_workloads.errors import InputError, StorageError, SupersededError, WorkloadError
from imagenet_workloads.process.program import (
    explain_missing_library,
    run_program,
    write_termination_message,
)
from support.chart import REPOSITORY
from support.programs import SCRIPTS
from support.sentences import assert_says


def failing(error: BaseException) -> Callable[[], None]:
    def body() -> None:
        raise error

    return body


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "termination-log"


@pytest.fixture
def variables(log: Path) -> dict[str, str]:
    return {"IMAGENET_TERMINATION_LOG": str(log)}


@pytest.mark.parametrize(("returned", "code"), [(None, 0), (0, 0), (5, 5)])
def test_a_body_that_ends_well(
    returned: int | None, code: int, log: Path, variables: dict[str, str]
) -> None:
    assert run_program("imagenet-pack", lambda: returned, variables) == code
    assert not log.exists()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (WorkloadError("the scheduler left"), 1),
        (InputError("a.tar: is cut off"), 3),
        (StorageError("/data: read-only"), 3),
        (SupersededError("attempt 1 ends"), 3),
    ],
)
def test_an_error_is_one_line_a_termination_message_and_an_exit_code(
    error: WorkloadError,
    code: int,
    log: Path,
    variables: dict[str, str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_program("imagenet-pack", failing(error), variables) == code
    assert capsys.readouterr().err == f"imagenet-pack: error: {error}\n"
    assert log.read_text() == str(error)


def test_an_unexpected_error_shows_its_traceback_too(
    log: Path, variables: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_program("imagenet-pack", failing(KeyError("x")), variables) == 1
    assert "Traceback" in capsys.readouterr().err
    assert log.read_text() == "unexpected KeyError: 'x'"


def test_ctrl_c_has_the_shell_s_exit_code(variables: dict[str, str]) -> None:
    assert run_program("imagenet-pack", failing(KeyboardInterrupt()), variables) == 130


def test_a_long_message_is_cut_between_characters(log: Path, variables: dict[str, str]) -> None:
    run_program("imagenet-pack", failing(InputError("a" + "é" * 4000)), variables)
    assert log.read_text() == "a" + "é" * 2047


def test_a_result_that_kubernetes_would_cut_off_is_refused(variables: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="4097 bytes"):
        write_termination_message("x" * 4097, variables)


def test_without_a_termination_log_nothing_is_written(tmp_path: Path) -> None:
    write_termination_message("done", {})
    assert run_program("imagenet-pack", failing(InputError("wrong")), {}) == 3


def test_a_termination_log_that_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    variables = {"IMAGENET_TERMINATION_LOG": str(tmp_path / "missing" / "log")}
    with pytest.raises(StorageError, match="IMAGENET_TERMINATION_LOG"):
        write_termination_message("{}", variables)
    # As last words it must not hide the error that they are about.
    assert run_program("imagenet-pack", failing(WorkloadError("first")), variables) == 1
    assert "imagenet-pack: error: first\n" in capsys.readouterr().err


FAILING = """
import sys
from imagenet_workloads.process.program import run_program
from imagenet_workloads.errors import InputError

def body():
    print("so far, so good")
    raise {error}

sys.exit(run_program("imagenet-pack", body))
"""


@pytest.mark.parametrize("full", [{"stderr"}, {"stdout", "stderr"}])
@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        ("InputError('a.tar: is cut off')", 3, "a.tar: is cut off"),
        ("KeyError('x')", 1, "unexpected KeyError: 'x'"),
    ],
)
@pytest.mark.parametrize("log_is_full", [False, True])
def test_an_end_stays_what_it_is_where_nobody_can_be_told(
    error: str, code: int, message: str, full: set[str], log_is_full: bool, log: Path
) -> None:
    # What the body has printed is still in a buffer, for the interpreter to write at its end.
    buffered = {"PYTHONUNBUFFERED": ""}
    place = {"IMAGENET_TERMINATION_LOG": "/dev/full" if log_is_full else str(log)}
    with Path("/dev/full").open("wb") as nowhere:
        ended = subprocess.run(
            [sys.executable, "-c", FAILING.format(error=error)],
            env={**os.environ, **buffered, **place},
            stdout=nowhere if "stdout" in full else subprocess.DEVNULL,
            stderr=nowhere,
            timeout=60,
            check=False,
        )
    assert ended.returncode == code
    assert log_is_full or log.read_text() == message


def test_an_end_stays_what_it_is_when_nobody_reads_it(variables: dict[str, str]) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", FAILING.format(error="InputError('a.tar: is cut off')")],
        env={**os.environ, **variables},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    # Long before it has anything to say.
    process.stderr.close()
    assert process.wait(timeout=60) == 3


SLEEPER = """
import sys, threading
from pathlib import Path
from imagenet_workloads.process.program import run_program

def body():
    try:
        print("ready", flush=True)
        threading.Event().wait()
    finally:
        Path(sys.argv[1]).write_text("cleaned up")

sys.exit(run_program("imagenet-pack", body))
"""


def test_sigterm_cleans_up_and_exits_143(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    process = subprocess.Popen(
        [sys.executable, "-c", SLEEPER, str(trace)], stdout=subprocess.PIPE, env=dict(os.environ)
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 143
    assert trace.read_text() == "cleaned up"


def test_the_signal_handler_is_given_back(variables: dict[str, str]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    run_program("imagenet-pack", lambda: None, variables)
    assert signal.getsignal(signal.SIGTERM) is before


def pin(package: str) -> str:
    """Return the line of constraints/ that pins a package."""
    files = (REPOSITORY / "constraints").glob("*.txt")
    (line,) = {
        line
        for file in files
        for line in file.read_text().split()
        if line.startswith(f"{package}==")
    }
    return line


NOT_FOUND = "cannot open shared object file: No such file or directory"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(f"libgomp.so.1: {NOT_FOUND}"), "type: apt-get install libgomp1"),
        (ImportError(f"libquadmath.so.0: {NOT_FOUND}"), "type: apt-get install libquadmath0"),
        (ImportError(f"libGL.so.1: {NOT_FOUND}"), "libGL.so.1 is missing; install its package"),
        (ModuleNotFoundError("…", name="timm"), "the Python package timm is not installed in"),
        (ModuleNotFoundError("…", name="numpy.newer"), "has no numpy.newer; install a version"),
        (ModuleNotFoundError("…", name="mxnet"), f"pip install --no-deps {pin('mxnet')}"),
        (ModuleNotFoundError("…", name="tensorflow"), f"pip install {pin('tensorflow-cpu')}"),
        (ModuleNotFoundError("…", name="horovod.mxnet"), "make install-horovod"),
    ],
)
def test_what_an_image_lacks_is_a_permanent_failure(error: Exception, message: str) -> None:
    explained = explain_missing_library(error)
    assert explained is not None
    assert message in str(explained)
    assert explained.exit_code == 3


def test_no_message_asks_for_a_name_on_a_package_index_that_is_not_ours() -> None:
    """Anybody may register it there, and run code where it is installed."""
    asking = re.compile(r"pip install .*imagenet-|imagenet-(spec|workloads|operator)\[")
    packages = ("spec", "operator", "workloads")
    sources = [path for name in packages for path in REPOSITORY.glob(f"{name}/**/*.py")]
    pages = [*REPOSITORY.glob("docs/*.md"), REPOSITORY / "README.md"]
    found = {path for path in (*sources, *pages) if asking.search(path.read_text())}
    assert {path.relative_to(REPOSITORY) for path in found} == set()


def test_another_node_may_have_the_driver_of_its_gpus() -> None:
    explained = explain_missing_library(OSError(f"libcuda.so.1: {NOT_FOUND}"))
    assert explained is not None
    assert explained.exit_code == WorkloadError.exit_code


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(2, "No such file or directory", "/data/a.tar"),
        ModuleNotFoundError("…", name="imagenet_workloads.train.lost"),
        ImportError("cannot import name 'x'"),
        ValueError(f"libgomp.so.1: {NOT_FOUND}"),
    ],
)
def test_any_other_error_keeps_its_traceback(error: Exception) -> None:
    assert explain_missing_library(error) is None


def test_a_worker_without_a_library_of_mxnet_says_so_in_one_line(tmp_path: Path) -> None:
    package = tmp_path / "mxnet"
    package.mkdir()
    (package / "__init__.py").write_text("import ctypes\nctypes.CDLL('libgomp.so.1.absent')\n")
    finished = subprocess.run(
        [SCRIPTS / "imagenet-train", "--benchmark", "1", "--network", "mlp", "--num-epochs", "1"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 3
    (line,) = finished.stderr.splitlines()
    assert_says(line, "imagenet-train: error: ", "libgomp.so.1.absent", "missing", "install")
