"""Measures imagenet-train on a GPU beside plain training loops of PyTorch, in at most 8 minutes.

    make bench-gpu                                   # on a machine with a GPU; needs no network
    .venv-pytorch/bin/python -m benchmarks.gpu --continue            # what the time did not allow
    .venv-pytorch/bin/python -m benchmarks.gpu --skip small reading --runs 1
    .venv-pytorch/bin/python -m benchmarks.gpu --on-cpu              # small, to try the program

The parts, in the order of their first rounds:

- `reading`: batches of 256 images for a GPU, without a network, on 1, 4, 8 and 16 pinned cores;
- `resnet-50`: 224x224 pixels, 256 images a step, eager and compiled, of one batch that stays on the
  GPU, and from RecordIO, in three rounds. The plain loop is channels last with a fused optimizer;
- `sizes`: one batch of 160x160 pixels, compiled, and of 192x192, eager;
- `restart`: ten checkpoints, and what they take from the steps; then SIGKILL, and the time until
  the next attempt has trained a step;
- `small`: ResNet-20 of 32x32 pixels, 512 images a step, eager, from RecordIO; the plain loop of the
  same network has all images on the GPU;
- `projection`: GPU-hours of recipes for ImageNet, computed from the others.

The networks are trained in bfloat16. Each measure is a process of its own, in turn, and a figure
the median of the rounds; ratios are medians of the rounds' ratios. The first third of the steps is
not measured: decoders start there, networks are compiled, and cuDNN measures its algorithms. All
networks are compiled at the same time first, into a cache that the measures share.

Each measure is a line of build/bench/gpu/results.jsonl as soon as it is there, and on stderr. The
tables are Markdown and come last. When the time is over, the process that measures is killed, and
what was not measured is "not run", like a part that this machine cannot run. With --continue, the
measures of earlier calls count, if the machine and the versions are the same.
"""

import argparse
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from benchmarks.gpu.projection import Speeds, tables
from benchmarks.gpu.restart import CHECKPOINTS, MeasureFailedError, Restart, of_starting
from benchmarks.plain_torch import RESNET_20, RESNET_50
from benchmarks.read_datasets import records_of, small_records_of

from imagenet_workloads.dataset import RECORD_IO, Shard, Split, read_dataset

BENCH = Path("build/bench/gpu")
CORES, SMALL_RECORD_CORES = (1, 4, 8, 16), (8, 16)
EDGE, SMALL_EDGE = 256, 32
READING, RESNET, SIZES, RESTART, SMALL = "reading", "resnet-50", "sizes", "restart", "small"
PARTS = (READING, RESNET, SIZES, RESTART, SMALL, "projection")
OPTIONS = (
    *("--framework", "PyTorch", "--distribution-strategy", "single"),
    *("--lr-step-epochs", "", "--warmup-epochs", "0", "--network", "resnet"),
)
CROP = ("--random-crop", "1", "--random-mirror", "1")
PLAIN, OURS = "plain loop", "imagenet-train"
ONE_BATCH, RECORDS = "one batch", "RecordIO"
COMPILED, EAGER = "compiled", "eager"
Row = tuple[str, ...]
"""The cells that say what is measured; the part comes first."""


@dataclass(frozen=True)
class Size:
    """How much is trained.

    Attributes:
        batch: images a step.
        steps: a multiple of 3.
    """

    batch: int
    steps: int

    @property
    def images(self) -> int:
        """In all."""
        return self.batch * self.steps


@dataclass(frozen=True)
class Device:
    """What the networks are trained on.

    Attributes:
        name: in the tables.
        is_gpu: whether it is a GPU, on which networks are compiled.
    """

    name: str
    is_gpu: bool

    @property
    def options(self) -> tuple[str, ...]:
        """Of imagenet-train."""
        return ("--gpus", "0", "--dtype", "bfloat16") if self.is_gpu else ()

    def network(self, pixels: int) -> tuple[str, ...]:
        """Return the options of ResNet-50 for images of a size; on a CPU both are reduced."""
        depth, side = ("50", pixels) if self.is_gpu else ("18", pixels // 4)
        return ("--num-layers", depth, "--image-shape", f"3,{side},{side}")

    @property
    def torch(self) -> str:
        """The name of PyTorch."""
        return "cuda" if self.is_gpu else "cpu"


class Results:
    """The measures so far, each of which is written at once.

    Args:
        path: a file of lines; those of other machines and versions do not count.
        machine: this machine, and the versions.
        keep: whether earlier calls count.
    """

    def __init__(self, path: Path, machine: str, keep: bool) -> None:
        self._path, self._machine = path, machine
        self.values: dict[Row, list[float]] = {}
        if not keep:
            path.unlink(missing_ok=True)
        for line in path.read_text().splitlines() if path.exists() else []:
            one = json.loads(line)
            if one["machine"] == machine:
                self.values.setdefault(tuple(one["row"]), []).append(one["value"])

    def add(self, row: Row, value: float) -> None:
        """Write a measure."""
        self.values.setdefault(row, []).append(value)
        line = {"machine": self._machine, "row": row, "value": value}
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(f"{', '.join(row)}: {value:,.3f}", file=sys.stderr, flush=True)

    def median(self, row: Row) -> float | None:
        """Return the median of the rounds; None without any."""
        return statistics.median(self.values[row]) if row in self.values else None


def main() -> int:
    """Run the benchmark; return the exit code."""
    options = _options()
    deadline = time.monotonic() + options.seconds
    BENCH.mkdir(parents=True, exist_ok=True)
    has_gpu = torch.cuda.is_available() and not options.on_cpu
    device = Device(torch.cuda.get_device_name() if has_gpu else "no GPU", has_gpu)
    cores = sorted(os.sched_getaffinity(0))
    machine = (
        f"{device.name}, {len(cores)} cores ({platform.machine()}), PyTorch {torch.__version__}"
    )
    results = Results(BENCH / "results.jsonl", machine, options.keep)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str((BENCH / "inductor").resolve())
    rounds: list[tuple[str, Callable[[], None]]] = [
        (RESNET, lambda: _compile(options, device, deadline)),
        (READING, lambda: _take(results, _reading(options, cores), 1, deadline)),
        (RESNET, lambda: _take(results, _resnet_50(options, device), 1, deadline)),
        (SIZES, lambda: _take(results, _sizes(options, device), 1, deadline)),
        (RESTART, lambda: _restart(results, options, device, deadline)),
        (SMALL, lambda: _take(results, _small(options, device), 1, deadline)),
        *(
            (RESNET, lambda n=n: _take(results, _resnet_50(options, device), n, deadline))
            for n in range(2, options.runs + 1)
        ),
    ]
    has_failed = False
    for part, measure in rounds:
        runs_here = part == READING or has_gpu or options.on_cpu
        if part in options.skip or not runs_here:
            continue
        try:
            measure()
        except (TimeoutError, subprocess.TimeoutExpired):
            print(f"{part}: the time is over", file=sys.stderr, flush=True)
        except (MeasureFailedError, subprocess.CalledProcessError) as error:
            has_failed = True
            print(f"{part}: {error}", file=sys.stderr, flush=True)
    print(f"{machine}.")
    if not has_gpu and not options.on_cpu:
        print("\nWhat needs a GPU is not run: PyTorch finds none.")
    if options.on_cpu:
        print("\nOn the CPU, imagenet-train has ResNet-18 and images of a quarter of the size.")
    print(_report(results, options.skip, device.name if has_gpu else "no GPU"), flush=True)
    return 1 if has_failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--skip", nargs="*", default=[], choices=PARTS, help="parts")
    parser.add_argument(
        "--continue", dest="keep", action="store_true", help="keep what is measured"
    )
    parser.add_argument(
        "--on-cpu", action="store_true", help="train on the CPU; choose small sizes"
    )
    parser.add_argument("--runs", type=int, default=3, help="rounds of resnet-50, at most")
    parser.add_argument("--batch", type=int, default=256, help="images a step of ResNet-50")
    parser.add_argument("--steps", type=int, default=96, help="of ResNet-50, a multiple of 3")
    parser.add_argument("--photographs", type=int, default=1024, help="different ones")
    parser.add_argument("--small-images", type=int, default=50_176, help="of ResNet-20")
    parser.add_argument("--small-batch", type=int, default=512, help="images a step of ResNet-20")
    parser.add_argument("--interval", type=float, default=4.0, help="seconds between checkpoints")
    parser.add_argument("--seconds", type=float, default=465.0, help="of all parts")
    return parser.parse_args()


@dataclass(frozen=True)
class Command:
    """A process that measures.

    Attributes:
        line: prints its images/s, or is imagenet-train without its output.
        size: of a training by imagenet-train; None for what prints.
    """

    line: list[str]
    size: Size | None = None


def _take(results: Results, commands: Mapping[Row, Command], number: int, deadline: float) -> None:
    """Measure each command, unless it has been measured as often as `number` says."""
    for row, command in commands.items():
        if len(results.values.get(row, [])) < number:
            results.add(row, _speed(command, deadline))


def _compile(options: argparse.Namespace, device: Device, deadline: float) -> None:
    """Compile the networks of all parts at the same time, in as many processes."""
    if not device.is_gpu:
        return
    shutil.rmtree(BENCH / "compiled", ignore_errors=True)
    size = Size(options.batch, 3)
    commands = [[*_plain(device, RESNET_50, size), "--compile"]]
    for pixels in (160, 224):
        output = ["--compile", "1", "--output", str(BENCH / "compiled" / str(pixels))]
        commands.append([*_one_batch(device, pixels, size), *output])
    processes = [subprocess.Popen(one, stdout=subprocess.DEVNULL) for one in commands]
    try:
        for process in processes:
            process.wait(max(deadline - time.monotonic(), 0.0))
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _reading(options: argparse.Namespace, cores: Sequence[int]) -> dict[Row, Command]:
    found: dict[Row, Command] = {}
    for edge, size, counts in ((EDGE, 224, CORES), (160, 160, SMALL_RECORD_CORES)):
        there = [count for count in counts if count <= len(cores)]
        if there:
            records = _repeated(records_of(BENCH, edge, options.photographs, RECORD_IO), 24)
        for count in there:
            pinned = ["taskset", "--cpu-list", ",".join(map(str, cores[:count]))]
            program = [sys.executable, "-m", "benchmarks.reading_alone", str(records)]
            line = [*pinned, *program, "--size", str(size)]
            found[READING, str(edge), str(size), str(count)] = Command(line)
    return found


def _resnet_50(options: argparse.Namespace, device: Device) -> dict[Row, Command]:
    size = Size(options.batch, options.steps)
    times = -(-size.images // options.photographs)
    records = _repeated(records_of(BENCH, EDGE, options.photographs, RECORD_IO), times)
    read = [*_trainer(device, device.network(224), size), *CROP, "--dataset", str(records)]
    one, plain = _one_batch(device, 224, size), _plain(device, RESNET_50, size)
    found: dict[Row, Command] = {}
    for how in (COMPILED, EAGER) if device.is_gpu else (EAGER,):
        is_compiled = how == COMPILED
        compiled = ["--compile", str(int(is_compiled))]
        found |= {
            (RESNET, ONE_BATCH, how, PLAIN): Command([*plain, *["--compile"] * is_compiled]),
            (RESNET, ONE_BATCH, how, OURS): Command([*one, *compiled], size),
            (RESNET, RECORDS, how, OURS): Command([*read, *compiled], size),
        }
    return found


def _sizes(options: argparse.Namespace, device: Device) -> dict[Row, Command]:
    size = Size(options.batch, options.steps)
    ways = ((160, COMPILED), (192, EAGER)) if device.is_gpu else ((160, EAGER), (192, EAGER))
    return {
        (SIZES, str(pixels), how): Command(
            [*_one_batch(device, pixels, size), "--compile", str(int(how == COMPILED))], size
        )
        for pixels, how in ways
    }


def _small(options: argparse.Namespace, device: Device) -> dict[Row, Command]:
    batch, images = options.small_batch, options.small_images
    size = Size(batch, images * 3 // batch // 3 * 3)
    records = _repeated(small_records_of(BENCH, SMALL_EDGE, images), 3)
    network = ("--num-layers", "20", "--image-shape", f"3,{SMALL_EDGE},{SMALL_EDGE}")
    train = [*_trainer(device, network, size), *CROP, "--pad-size", "4"]
    return {
        (SMALL, "on the device", EAGER, PLAIN): Command(_plain(device, RESNET_20, size, images)),
        (SMALL, RECORDS, EAGER, OURS): Command(
            [*train, "--compile", "0", "--dataset", str(records)], size
        ),
    }


def _restart(
    results: Results, options: argparse.Namespace, device: Device, deadline: float
) -> None:
    if (RESTART, "checkpoints") in results.values:
        return
    size = Size(options.batch, 500)
    command = [*_one_batch(device, 224, size), "--num-epochs", "1000"]
    restart = Restart(command, BENCH / "restart", options.interval)
    stall, parts = restart.measure(deadline)
    imported, taken = of_starting(device.torch)
    figures = {
        "checkpoints": stall.checkpoints,
        "stall": stall.part,
        "longest step": stall.longest,
        "median step": stall.median,
        **parts,
        "next step": sum(parts.values()),
        "import": imported,
        "device": taken,
    }
    for name, value in figures.items():
        results.add((RESTART, name), value)


def _plain(device: Device, network: str, size: Size, images: int = 0) -> list[str]:
    program = [sys.executable, "-m", "benchmarks.plain_torch", "--network", network]
    more = ["--images-on-gpu", str(images)] if images else []
    sizes = ["--batch", str(size.batch), "--steps", str(size.steps)]
    return [*program, *sizes, "--device", device.torch, *more]


def _trainer(device: Device, network: Sequence[str], size: Size) -> list[str]:
    program = [sys.executable, "-m", "imagenet_workloads.commands.train", *OPTIONS]
    steps = ["--batch-size", str(size.batch), "--disp-batches", str(size.steps // 3)]
    return [*program, *device.options, *network, *steps, "--num-epochs", "1"]


def _one_batch(device: Device, pixels: int, size: Size) -> list[str]:
    images = ["--benchmark", "1", "--num-examples", str(size.images)]
    return [*_trainer(device, device.network(pixels), size), *images]


def _speed(command: Command, deadline: float) -> float:
    """Return the images/s; of a training, after the first third of its steps."""
    left = max(deadline - time.monotonic(), 0.0)
    if command.size is None:
        return float(subprocess.check_output(command.line, timeout=left))
    output, size = BENCH / "output", command.size
    shutil.rmtree(output, ignore_errors=True)
    log = BENCH / "train.log"
    with log.open("wb") as file:
        line = [*command.line, "--output", str(output)]
        done = subprocess.run(
            line, check=False, stdout=file, stderr=subprocess.STDOUT, timeout=left
        )
    if done.returncode:
        raise MeasureFailedError(f"{line} failed: {done.returncode}\n{log.read_text()}")
    lines = (output / "attempts" / "r0" / "metrics.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    times = {one["batch"]: float(one["time"]) for one in events if one["event"] == "progress"}
    measured = size.steps - size.steps // 3
    return measured * size.batch / (times[size.steps] - times[size.steps // 3])


def _repeated(once: Path, times: int) -> Path:
    """Return a dataset in which each image of another one comes so many times."""
    records = BENCH / f"{once.name}-{times}"
    shutil.rmtree(records, ignore_errors=True)
    records.mkdir()
    dataset = read_dataset(once)

    def linked(shard: Shard, copy: int) -> Shard:
        def link(name: str) -> str:
            (records / f"{copy:03}-{name}").hardlink_to(once / name)
            return f"{copy:03}-{name}"

        index = None if shard.index is None else link(shard.index)
        return replace(shard, record=link(shard.record), index=index)

    shards = tuple(linked(shard, copy) for copy in range(times) for shard in dataset.train.shards)
    many = replace(dataset, train=Split(dataset.train.images * times, shards))
    (records / "dataset.json").write_text(many.to_json())
    return records


def _report(results: Results, skipped: Sequence[str], card: str) -> str:
    """Return all tables as Markdown."""
    speeds = (
        ("records", "crop", "cores", "images/s", "x 1 core"),
        ("images", "network", "program", "images/s", f"x {COMPILED} {PLAIN}"),
        ("pixels", "network", "images/s", ""),
        ("images", "network", "program", "images/s", f"x {PLAIN}"),
    )
    pixels = str(EDGE)
    rows: dict[str, list[Row]] = {
        READING: [
            *((READING, pixels, "224", str(count)) for count in CORES),
            *((READING, "160", "160", str(count)) for count in SMALL_RECORD_CORES),
        ],
        RESNET: [
            (RESNET, images, how, program)
            for how in (COMPILED, EAGER)
            for images, program in ((ONE_BATCH, PLAIN), (ONE_BATCH, OURS), (RECORDS, OURS))
        ],
        SIZES: [(SIZES, "160", COMPILED), (SIZES, "192", EAGER), (SIZES, "160", EAGER)],
        SMALL: [(SMALL, "on the device", EAGER, PLAIN), (SMALL, RECORDS, EAGER, OURS)],
    }
    titles = {
        READING: "Reading alone, batches of 256 images",
        RESNET: "ResNet-50, 224 pixels",
        SIZES: "ResNet-50, imagenet-train, one batch",
        SMALL: "ResNet-20, 32 pixels",
    }
    texts = []
    for (part, of_part), headings in zip(rows.items(), speeds, strict=True):
        if part in skipped:
            texts.append(f"\n{titles[part]}: not run, skipped")
        else:
            texts.append(f"\n{titles[part]}:\n\n{_table(results, headings, of_part)}")
    if RESTART in skipped:
        texts.append("\nCheckpoints and a kill: not run, skipped")
    else:
        texts.append(f"\nCheckpoints and a kill, ResNet-50:\n\n{_restart_table(results)}")
    if "projection" not in skipped:
        texts.append(f"\n{tables(_speeds(results), card)}")
    return "\n".join(texts)


def _table(results: Results, headings: Sequence[str], rows: Sequence[Row]) -> str:
    base = rows[0]
    texts = len(headings) - 2
    lines = [f"| {' | '.join(headings)} |", "|" + "---|" * texts + "---:|" * 2]
    for row in rows:
        speed, cells = results.median(row), " | ".join(row[1:])
        if speed is None:
            lines.append(f"| {cells} | not run | |")
            continue
        pairs = zip(results.values[row], results.values.get(base, []), strict=False)
        ratios = [one / of_base for one, of_base in pairs] if headings[-1] else []
        ratio = f"{statistics.median(ratios):.3f}" if ratios else ""
        lines.append(f"| {cells} | {speed:,.0f} | {ratio} |")
    return "\n".join(lines)


def _restart_table(results: Results) -> str:
    def figure(name: str, form: str) -> str:
        value = results.median((RESTART, name))
        return "not run" if value is None else format(value, form)

    rows = {
        f"checkpoints within an epoch (at least {CHECKPOINTS})": figure("checkpoints", ".0f"),
        "stall, part of an interval of 10 s": figure("stall", ".2%"),
        "longest step that a checkpoint touches, s": figure("longest step", ".3f"),
        "median of the other steps, s": figure("median step", ".3f"),
        "SIGKILL to next step, s": figure("next step", ".2f"),
        "… end of the killed process": figure("kill", ".2f"),
        "… starting: imports, device, opening of the data": figure("starting", ".2f"),
        "… … import of PyTorch and the program (in a process of its own)": figure("import", ".2f"),
        "… … first use of the device, as CUDA's context (likewise)": figure("device", ".2f"),
        "… joining": figure("joining", ".2f"),
        "… loading: network and checkpoint": figure("loading", ".2f"),
        "… data": figure("data", ".2f"),
        "… trace: first step, without a usual one": figure("trace", ".2f"),
        "… step": figure("step", ".3f"),
    }
    return "\n".join(
        ["| | |", "|---|---:|", *(f"| {name} | {said} |" for name, said in rows.items())]
    )


def _speeds(results: Results) -> Speeds:
    def of(rows: Mapping[int, Row]) -> dict[int, float]:
        found = {key: results.median(row) for key, row in rows.items()}
        return {key: value for key, value in found.items() if value is not None}

    return Speeds(
        compiled=of({160: (SIZES, "160", COMPILED), 224: (RESNET, ONE_BATCH, COMPILED, OURS)}),
        eager=of({192: (SIZES, "192", EAGER)}),
        reading=of({count: (READING, str(EDGE), "224", str(count)) for count in CORES}),
        small_reading=of({n: (READING, "160", "160", str(n)) for n in SMALL_RECORD_CORES}),
    )


if __name__ == "__main__":
    # SIGTERM also ends the process that measures.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
