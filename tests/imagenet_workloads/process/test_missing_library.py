import os
import re
import subprocess
from pathlib import Path

import pytest

from imagenet_workloads.errors import WorkloadError
from imagenet_workloads.process.missing_library import explain
from support.chart import REPOSITORY
from support.programs import SCRIPTS


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
    explained = explain(error)
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
    explained = explain(OSError(f"libcuda.so.1: {NOT_FOUND}"))
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
    assert explain(error) is None


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
    assert finished.stderr.splitlines() == [
        "imagenet-train: error: libgomp.so.1.absent is missing; install its package"
    ]
