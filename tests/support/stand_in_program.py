"""Plays the workloads' programs (imagenet-index, -slots…) in milliseconds, for what runs them.

`stand_ins` puts it into a folder under each of these names. It keeps to what the real programs
promise (files, termination message, exit codes) and does what the variable STAND_IN says: JSON,
from a role or ROLE@ATTEMPT to "exit N", to "hold" (until the test makes the file `release`, or
`release-ROLE`), to "stubborn" (hold, and ignore SIGTERM), to "redirect" (hold, and answer who
asks for metrics with a redirect), or to "lose" (train an epoch and fail). Where STAND_IN_SHARED
says that all have one folder, no worker ends before those have started whom it needs.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

KEY = "0123456789abcdef0123456789abcdef"
SHARDS = 2
FOUND = {
    "key": KEY,
    "classes": 9,
    "images": {"train": 100, "validation": 20},
    "shards": SHARDS,
    "droppedClasses": 1,
}


def argument(name: str) -> Path:
    return Path(sys.argv[sys.argv.index(name) + 1])


def action_of(role: str) -> str:
    actions: dict[str, str] = json.loads(os.environ.get("STAND_IN", "{}"))
    attempt = os.environ.get("IMAGENET_ATTEMPT", "")
    return actions.get(f"{role}@{attempt}", actions.get(role, ""))


def behave(folder: Path, role: str) -> None:
    action = action_of(role)
    if action.startswith("exit"):
        print(f"{role} says: this is why", file=sys.stderr)
        sys.exit(int(action.split()[1]))
    if action == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if action == "redirect":
        redirect()
    if action in ("hold", "stubborn", "redirect"):
        released = folder / "release", folder / f"release-{role}"
        wait_until(lambda: any(path.exists() for path in released))


def redirect() -> None:
    """Answer every request for metrics with another place, in the background."""

    class Redirect(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302)
            self.send_header("Location", "http://127.0.0.1:1/metrics")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    address = os.environ["POD_IP"], int(os.environ["IMAGENET_METRICS_PORT"])
    Thread(target=HTTPServer(address, Redirect).serve_forever, daemon=True).start()


def wait_until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.01)


def end_as_process_1_would_not(signal_number: int, _: object) -> None:
    """End on a signal as any other process does: the first of a container has to ask for it."""
    os._exit(128 + signal_number)


def index() -> None:
    data = Path(os.environ["IMAGENET_DATA"])
    sealed = (data / "datasets" / KEY / "dataset.json").exists()
    result = json.dumps({**FOUND, "sealed": sealed})
    Path(os.environ["IMAGENET_TERMINATION_LOG"]).write_text(result)


def pack() -> None:
    dataset = Path(os.environ["IMAGENET_DATA"]) / "datasets" / KEY
    dataset.mkdir(parents=True, exist_ok=True)
    (dataset / f"shard-{os.environ['JOB_COMPLETION_INDEX']}").touch()


def seal() -> None:
    dataset = Path(os.environ["IMAGENET_DATA"]) / "datasets" / KEY
    assert len(list(dataset.glob("shard-*"))) == SHARDS
    (dataset / "dataset.json").touch()


def met(folder: Path) -> bool:
    """Whether those are there whom a worker needs, as far as it can know."""
    if "STAND_IN_SHARED" not in os.environ:
        return True
    # A line that is being written can be seen in part.
    whole, _, _ = (folder / "started").read_text().rpartition("\n")
    started = [json.loads(line) for line in whole.splitlines()]
    root = os.environ.get("DMLC_PS_ROOT_URI")
    if root is not None:
        members = [record for record in started if record["DMLC_PS_ROOT_URI"] == root]
        servers, workers = os.environ["DMLC_NUM_SERVER"], os.environ["DMLC_NUM_WORKER"]
        return len(members) >= 1 + int(servers) + int(workers)
    rendezvous = os.environ.get("HOROVOD_GLOO_RENDEZVOUS_ADDR")
    return rendezvous in (None, *(record["POD_IP"] for record in started))


def worker() -> None:
    wait_until(lambda: met(Path(os.environ["STAND_IN_FOLDER"])))
    attempt = os.environ["IMAGENET_ATTEMPT"]
    folder = argument("--output") / "attempts" / f"r{attempt}"
    folder.mkdir(parents=True, exist_ok=True)
    log = Path(os.environ["IMAGENET_TERMINATION_LOG"])
    if "--test-io" in sys.argv:
        read = {"workers": 1, "imagesPerSecond": 500.0}
        log.write_text(json.dumps({"event": "read", **read}))
        waited = {"imagenet_train_read_wait_seconds_total": 0.9}
        result = {"reading": {"images": 500, **read}, "train": {"measured": waited}, "model": {}}
        (folder / "result.json").write_text(json.dumps(result))
        return
    log.write_text(json.dumps({"event": "finished", "epochs": 1}))
    result = {
        "validation": {"images": 20, "top1": 0.95, "top5": 1.0},
        "train": {"images": 900, "imagesPerSecond": 300.0},
        "model": {"symbol": "model-symbol.json", "params": "model-0001.params"},
    }
    if "--max-batches" in sys.argv:
        speeds = [100.0, 600.0 if "--benchmark" in sys.argv else 450.0]
        lines = [json.dumps({"event": "epoch", "imagesPerSecond": speed}) for speed in speeds]
        (folder / "metrics.jsonl").write_text("\n".join(lines))
    elif os.environ["POD_NAME"].endswith("-0"):
        log_epoch(folder / "metrics.jsonl", int(attempt))
    if action_of("worker") == "lose":
        sys.exit(1)
    temporary = folder / f".{os.environ['POD_NAME']}"
    temporary.write_text(json.dumps(result))
    temporary.rename(folder / "result.json")


def log_epoch(path: Path, attempt: int) -> None:
    """Write the events of one epoch."""
    events = (
        {"event": "started", "attempt": attempt, "workers": 2, "epoch": 0, "batch": 0},
        {"event": "progress", "epoch": 0, "batch": 9, "imagesPerSecond": 9, "learningRate": 0.5},
        {"event": "epoch", "epoch": 0, "seconds": 2.0, "imagesPerSecond": 50.0, "loss": 1.5},
        {"event": "validation", "epoch": 0, "images": 20, "top1": 0.95, "loss": 1.25},
    )
    lines = [json.dumps({"time": time.time(), **event}) for event in events]
    path.write_text("\n".join(lines) + "\n")


def main() -> None:
    signal.signal(signal.SIGTERM, end_as_process_1_would_not)
    folder, role = Path(os.environ["STAND_IN_FOLDER"]), os.environ["IMAGENET_ROLE"]
    with (folder / "started").open("a") as started:
        variables = (
            *("POD_NAME", "POD_IP", "CUDA_VISIBLE_DEVICES", "DMLC_PS_ROOT_URI"),
            *("IMAGENET_METRICS_PORT", "HOROVOD_GLOO_RENDEZVOUS_ADDR", "TF_CONFIG"),
        )
        record = {name: os.environ.get(name) for name in variables}
        record["program"] = sys.argv[0]
        started.write(json.dumps({**record, "pid": os.getpid()}) + "\n")
    behave(folder, role)
    if role in ("scheduler", "server", "rendezvous"):
        wait_until(lambda: False)
    {"index": index, "pack": pack, "seal": seal, "worker": worker}[role]()


main()
