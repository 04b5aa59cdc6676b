"""`imagenet-train` before it is anything: until its child is made, PID 1 hears no SIGTERM."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from imagenet_workloads.process import pid1

heavy = {"logging", "numpy", "mxnet", "prometheus_client", "imagenet_workloads.train.options"}
pid1.run_in_child = lambda body: print(sorted(heavy & set(sys.modules)))
from imagenet_workloads.commands.train import main
main([])
"""


def test_nothing_that_takes_time_comes_before_the_child() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert ended.stdout == "[]\n"


def test_a_wrong_command_line_ends_with_2_all_the_same() -> None:
    program = Path(sys.executable).parent / "imagenet-train"
    ended = subprocess.run([program, "--netwrok"], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "unrecognized arguments: --netwrok" in ended.stderr


def test_the_parser_is_cheap() -> None:
    code = (
        "import sys; from imagenet_workloads.commands.train import build_parser; build_parser(); "
        "sys.exit(bool({'mxnet', 'numpy', 'cv2'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
