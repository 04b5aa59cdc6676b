"""Real processes: what starts, what ends, and that nothing is left."""

import os
import select
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from imagenet_operator.clusters.local.kubelet import MARK, Launch, PodProcess
from support.processes import is_running, processes_with, wait_until

# A program that leaves a child in a separate session, out of reach of process groups.
WITH_A_DAEMON = "setsid sleep 1000 & echo ready; wait"


class Pod:
    """One pod under test, with a mark that finds all of its processes."""

    def __init__(self, folder: Path) -> None:
        self.uid = str(uuid.uuid4())
        self.folder = folder
        self.log = folder / "pod.log"
        self.processes: list[PodProcess] = []

    def start(
        self,
        script: str,
        *,
        shared: tuple[int, ...] = (),
        shell: tuple[str, ...] = ("/bin/bash",),
        uid: str | None = None,
    ) -> PodProcess:
        launch = Launch(
            pod="digits-r0-worker-0",
            uid=uid or self.uid,
            command=(*shell, "-c", script),
            environment={"PATH": os.environ["PATH"]},
            folder=self.folder,
            log=self.log,
            shared=shared,
        )
        self.processes.append(PodProcess(launch))
        return self.processes[-1]

    def is_ready(self) -> bool:
        return "ready" in self.log.read_text()

    def left(self) -> list[int]:
        return processes_with(self.uid)


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Pod]:
    pod = Pod(tmp_path)
    yield pod
    for process in pod.processes:
        process.kill()
        ended(process)
    assert pod.left() == []


def ended(process: PodProcess) -> int:
    """The exit code, awaited as the local cluster does."""
    if process.exit_code() is None:
        assert select.select([process], [], [], 60)[0], "the pod never ended"
    code = process.exit_code()
    assert code is not None
    return code


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 0", 0), ("exit 3", 3), ("kill -KILL $$", 137), ("kill -ABRT $$", 134)],
)
def test_exit_codes_are_a_kubelets(pod: Pod, script: str, code: int) -> None:
    assert ended(pod.start(script)) == code


def test_output_is_appended_to_the_log(pod: Pod) -> None:
    ended(pod.start("echo out; echo err >&2"))
    ended(pod.start("echo again"))

    assert pod.log.read_text() == "out\nerr\nagain\n"


def test_a_program_that_does_not_start_says_so(pod: Pod) -> None:
    (pod.folder / "broken").write_text("no program")

    assert ended(pod.start("", shell=(str(pod.folder / "broken"),))) == 126
    assert "cannot execute" in pod.log.read_text()


def test_the_environment_is_the_given_one_and_the_mark(pod: Pod) -> None:
    ended(pod.start("exec env -u _ -u SHLVL -u PWD"))

    names = {line.partition("=")[0] for line in pod.log.read_text().splitlines()}
    assert names - {"LC_CTYPE"} == {"PATH", MARK}  # Python sets the one that makes C be UTF-8


def test_broken_pipes_end_a_program_as_usual(pod: Pod) -> None:
    ended(pod.start("set -o pipefail; yes | head -1 > /dev/null; echo ${PIPESTATUS[0]}"))

    assert pod.log.read_text() == f"{128 + signal.SIGPIPE}\n"


def test_sigterm_reaches_the_program(pod: Pod) -> None:
    process = pod.start("trap 'echo asked; exit 7' TERM; echo ready; while :; do sleep .01; done")
    wait_until(pod.is_ready, "the pod is ready")

    process.terminate()

    assert ended(process) == 7
    assert "asked" in pod.log.read_text()


def test_sigterm_at_the_very_beginning_is_not_lost(pod: Pod) -> None:
    # Separate pods: if an init dies before it can handle the signal, the processes with its pod's
    # mark are killed.
    processes = [pod.start("sleep 1000", uid=f"{pod.uid}.{number}") for number in range(8)]
    for process in processes:
        process.terminate()

    assert {ended(process) for process in processes} == {143}


def test_kill_ends_a_program_that_ignores_sigterm(pod: Pod) -> None:
    process = pod.start("trap '' TERM; echo ready; while :; do sleep .01; done")
    wait_until(pod.is_ready, "the pod is ready")
    process.terminate()
    assert process.exit_code() is None

    process.kill()

    assert ended(process) == 137


@pytest.mark.parametrize("stopped", ["init", "program"])
def test_kill_ends_what_was_stopped(pod: Pod, stopped: str) -> None:
    process = pod.start("echo ready; while :; do sleep .01; done")
    wait_until(pod.is_ready, "the pod is ready")
    (program,) = children(process.pid)
    os.kill(process.pid if stopped == "init" else program, signal.SIGSTOP)

    process.terminate()
    process.kill()

    assert ended(process) == 137


@pytest.mark.parametrize("ending", ["exit 0", "kill -KILL $$"])
def test_what_a_program_leaves_running_is_killed(pod: Pod, ending: str) -> None:
    ended(pod.start(f"setsid sleep 1000 & sleep 1000 & {ending}"))

    assert pod.left() == []


def test_kill_takes_the_descendants_with_it(pod: Pod) -> None:
    process = pod.start(WITH_A_DAEMON)
    wait_until(pod.is_ready, "the pod is ready")

    process.kill()

    assert ended(process) == 137
    assert pod.left() == []


def test_a_killed_program_is_seen_with_its_signal(pod: Pod) -> None:
    process = pod.start(WITH_A_DAEMON)
    wait_until(pod.is_ready, "the pod is ready")
    (program,) = children(process.pid)

    os.kill(program, signal.SIGKILL)

    assert ended(process) == 137
    assert pod.left() == []


def test_killing_the_init_takes_everything_with_it(pod: Pod) -> None:
    process = pod.start(WITH_A_DAEMON)
    wait_until(pod.is_ready, "the pod is ready")

    os.kill(process.pid, signal.SIGKILL)

    assert ended(process) == 137
    assert pod.left() == []


def test_shared_descriptors_stay_with_the_init_alone(pod: Pod) -> None:
    reader, writer = os.pipe()
    process = pod.start("ls /proc/self/fd; echo ready; sleep 1000", shared=(writer,))
    os.close(writer)
    wait_until(pod.is_ready, "the pod is ready")
    assert pod.log.read_text().split() == ["0", "1", "2", "3", "ready"]  # 3 is what ls reads
    assert not select.select([reader], [], [], 0)[0], "the init holds the other end"

    process.kill()
    ended(process)

    assert os.read(reader, 1) == b"", "the last holder has gone"
    os.close(reader)


PARENT = """
import sys, uuid
from pathlib import Path
from imagenet_operator.clusters.local.kubelet import Launch, PodProcess
uid, folder, script, count = sys.argv[1:]
pods = [
    PodProcess(
        Launch("pod", uid, ("/bin/bash", "-c", script), {}, Path(folder), Path(folder) / "pod.log")
    )
    for _ in range(int(count))
]
sys.stdin.read()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_pods_die_with_the_process_that_started_them(pod: Pod, number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, pod.uid, str(pod.folder), WITH_A_DAEMON, "3"],
        stdin=subprocess.PIPE,
    ) as parent:
        wait_until(lambda: pod.log.is_file() and pod.log.read_text().count("ready") == 3, "ready")
        assert len(pod.left()) >= 9  # an init, a shell and a daemon each, and the parent

        parent.send_signal(number)
        parent.wait()

        wait_until(lambda: not pod.left(), "every process has gone")


def test_pods_are_out_of_the_terminals_reach(pod: Pod) -> None:
    process = pod.start("echo ready; sleep 1000")
    wait_until(pod.is_ready, "the pod is ready")

    assert os.getsid(process.pid) != os.getsid(0)
    assert is_running(process.pid)


def children(pid: int) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                stat = (folder / "stat").read_text()
            except OSError:
                continue
            if int(stat.rpartition(")")[2].split()[1]) == pid:
                found.append(int(folder.name))
    return found
