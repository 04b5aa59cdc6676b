"""`imagenet-train` at its start: PID 1 ignores SIGTERM until its child exists."""

import os
import subprocess
import sys
from pathlib import Path

from imagenet_workloads.checkpoint import record_room

PROGRAM = """
import sys
from imagenet_workloads.process import pid1

heavy = {"logging", "numpy", "mxnet", "prometheus_client"} | {
    "imagenet_workloads.train.command_line", "imagenet_workloads.train.description"
}
pid1.run_in_child = lambda *_: print(sorted(heavy & set(sys.modules)))
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


def test_a_later_attempt_checks_the_room_before_it_imports_a_framework(tmp_path: Path) -> None:
    former = tmp_path / "out" / "attempts" / "r0"
    former.mkdir(parents=True)
    record_room(former, 10**18)
    arguments = ["--benchmark", "1", "--network", "mlp", "--output", str(tmp_path / "out")]
    code = (
        "import sys; sys.modules['mxnet'] = None; "
        "from imagenet_workloads.commands.train import main; sys.exit(main(sys.argv[1:]))"
    )
    log = tmp_path / "log"
    ended = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "IMAGENET_ATTEMPT": "1", "IMAGENET_TERMINATION_LOG": str(log)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 4, ended.stderr
    assert "needs 1,000,000,000,000,000,000 bytes" in log.read_text()
