"""Compares accuracies on CIFAR-10 with those of a plain loop of PyTorch, over several seeds.

    make fidelity-gpu IMAGES=cifar10.tar.xz         # on a GPU; at most 8 minutes, no network
    make fidelity-gpu IMAGES=cifar10.tar.xz OPTIONS='--images-per-class 20 --epochs 2'  # on a CPU

IMAGES is a folder or a tar with `train/CLASS/NAME` and `test/CLASS/NAME`, JPEGs of 32x32 pixels.
Trains examples/cifar10-resnet9.yaml on them by `imagenetctl run`, deterministic, with several
seeds. The first seed is trained once more, and killed in the middle and resumed: it must end with
the same bytes. A plain loop (`plain_accuracy`) has the same recipe and dataset. Two seeds are
trained from an archive in CIFAR-10's own form that is made of these pixels.

Each result is written as soon as it is there, below build/fidelity-gpu. Typed again, the command
goes on where it was; no training begins for which the time is too short. Prints Markdown; with
--page, it also replaces the table of that page. Without a GPU it runs only with
--images-per-class. Exits with 1 if the accuracies differ by more than two standard errors or the
bytes differ.
"""

import argparse
import hashlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from benchmarks.cifar_images import read_pictures, write_archive, write_some
from benchmarks.fidelity import Series, compare
from benchmarks.recovery.parts import replace

from imagenet_operator.clusters.local.machine import find_gpus

ROOT = Path(__file__).resolve().parents[1]
WORKDIR = ROOT / "build" / "fidelity-gpu"
EXAMPLE = ROOT / "examples" / "cifar10-resnet9.yaml"
RAW, DATASET = "cifar10-images", "cifar10-dataset"
"""The claims of the images and of the prepared dataset."""

AIM = 0.93
"""The least median of top-1."""

PLAIN, OURS, KILLED, ARCHIVE = (
    "plain loop",
    "imagenetctl run",
    "imagenetctl run, killed and resumed",
    "imagenetctl run, CIFAR-10's own form",
)
_ARCHIVE_SEEDS = 2
_POLL_SECONDS = 0.02


@dataclass(frozen=True)
class Trained:
    """One training.

    Attributes:
        top1: the accuracy after each epoch, 0..1.
        seconds: from the start of the training to the end of each epoch's validation.
        sha256: of the model's file; None for the plain loop.
        device: that trained; None if the plain loop has not said it.
        wall: seconds of the whole command.
    """

    top1: tuple[float, ...]
    seconds: tuple[float, ...]
    sha256: str | None
    device: str | None
    wall: float

    def seconds_to(self, accuracy: float) -> float | None:
        """Return the seconds to the first epoch with at least this accuracy; None without one."""
        pairs = zip(self.seconds, self.top1, strict=True)
        return next((seconds for seconds, top1 in pairs if top1 >= accuracy), None)


class Comparison:
    """The trainings of one recipe on one set of images, of which each is run once.

    Args:
        manifest: the ImageNetJob of `recipe`.
        images: the folder or archive of images.
        gpus: of this machine.
        workdir: holds everything that is written.

    Attributes:
        results: the file with a line for each training that is done.
    """

    def __init__(self, manifest: Mapping[str, Any], images: Path, gpus: int, workdir: Path) -> None:
        self._manifest, self._images, self._gpus = manifest, images, gpus
        state = images.stat()
        commit = subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False
        ).stdout
        # What another version or other images have shown does not count.
        given = json.dumps(
            [manifest, str(images), state.st_size, state.st_mtime_ns, commit], sort_keys=True
        )
        self._workdir = workdir / hashlib.sha256(given.encode()).hexdigest()[:12]
        (self._workdir / "volumes" / DATASET).mkdir(parents=True, exist_ok=True)
        self.results = self._workdir / "results.jsonl"

    def known(self) -> dict[tuple[str, int], Trained]:
        """Return the trainings that are done, by series and seed."""
        if not self.results.exists():
            return {}
        lines = map(json.loads, self.results.read_text().splitlines())
        return {
            (one["series"], one["seed"]): Trained(
                tuple(one["top1"]), tuple(one["seconds"]), one["sha256"], one["device"], one["wall"]
            )
            for one in lines
        }

    def train(self, series: str, seed: int) -> None:
        """Train once, and write the result."""
        ways: dict[str, Callable[[int], dict[str, Any]]] = {
            PLAIN: self._plain,
            OURS: lambda seed: self._ours("jpegs", self._images, seed),
            KILLED: self._killed,
            ARCHIVE: lambda seed: self._ours("archive", self._archive(), seed),
        }
        started = time.monotonic()
        found = ways[series](seed)
        wall = round(time.monotonic() - started, 1)
        line = {"series": series, "seed": seed, **found, "wall": wall}
        with self.results.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(f"{series}, seed {seed}: {found['top1'][-1]:.4f}, {wall} s", file=sys.stderr)

    def _plain(self, seed: int) -> dict[str, Any]:
        dataset = json.loads((self._workdir / "dataset.json").read_text())
        manifest = self._workdir / "plain.json"
        manifest.write_text(json.dumps(self._manifest))
        python = Path(f"{sys.prefix}-pytorch") / "bin" / "python"
        command = [str(python), "-m", "benchmarks.plain_accuracy", dataset, str(manifest)]
        device = "cuda" if self._gpus else "cpu"
        said = subprocess.check_output(
            [*command, "--seed", str(seed), "--device", device], cwd=ROOT, text=True
        )
        return dict(json.loads(said))

    def _ours(self, name: str, images: Path, seed: int) -> dict[str, Any]:
        ended = json.loads(self._run(self._job(name, images, seed), images).splitlines()[-1])
        if ended["outcome"] != "Succeeded":
            sys.exit(f"{ended['job']}: {ended['outcome']}: {ended['message']}")
        if images == self._images:
            (self._workdir / "dataset.json").write_text(json.dumps(ended["dataset"]["folder"]))
        folder = Path(ended["model"]["folder"])
        weights = next(folder.glob("*.safetensors"))
        validated: dict[int, tuple[float, float]] = {}
        started = None
        for attempt in sorted(folder.parent.glob("r*/metrics.jsonl")):
            for line in attempt.read_text().splitlines():
                event = json.loads(line)
                started = event["time"] if started is None else started
                if event["event"] == "validation":
                    validated[event["epoch"]] = event["top1"], event["time"] - started
        accuracies, seconds = zip(*(validated[epoch] for epoch in sorted(validated)), strict=True)
        sha256 = hashlib.sha256(weights.read_bytes()).hexdigest()
        return {
            "top1": accuracies,
            "seconds": [round(one, 3) for one in seconds],
            "sha256": sha256,
            "device": None,
        }

    def _killed(self, seed: int) -> dict[str, Any]:
        """Train until half of the epochs are saved, kill all processes, and go on."""
        job = self._job("killed", self._images, seed)
        name, half = job["metadata"]["name"], job["spec"]["training"]["epochs"] // 2
        pattern = f"volumes/{DATASET}/jobs/{name}-*/attempts/r0/checkpoints/epoch-{half:04}-*"
        with (self._workdir / f"{name}.log").open("w") as log:
            process = subprocess.Popen(self._command(job, self._images), stdout=log, stderr=log)
            try:
                while process.poll() is None and not any(self._workdir.glob(pattern)):
                    time.sleep(_POLL_SECONDS)
            finally:
                process.kill()
                process.wait()
        found = self._ours("killed", self._images, seed)
        if not any(self._workdir.glob(f"volumes/{DATASET}/jobs/{name}-*/attempts/r1")):
            sys.exit(f"{name} was over before it was killed; train for more epochs")
        return found

    def _archive(self) -> Path:
        path = self._workdir / "cifar-10-python.tar.gz"
        if not path.exists():
            part = path.with_suffix(".part")
            write_archive(read_pictures(self._images), part)
            part.rename(path)
        return path

    def _job(self, name: str, images: Path, seed: int) -> dict[str, Any]:
        spec = self._manifest["spec"]
        source = {"volume": {"claimName": RAW, "path": images.name}}
        training = {**spec["training"], "extraArgs": ["--seed", str(seed)]}
        return {
            **self._manifest,
            "metadata": {"name": f"{name}-s{seed}"},
            "spec": {
                **spec,
                "dataset": {**spec["dataset"], "source": source},
                "training": training,
            },
        }

    def _command(self, job: Mapping[str, Any], images: Path) -> list[str]:
        path = self._workdir / f"{job['metadata']['name']}.json"
        path.write_text(json.dumps(job))
        program = Path(sys.executable).with_name("imagenetctl")
        return [
            *(str(program), "run", str(path), "--workdir", str(self._workdir)),
            *("--volume", f"{RAW}={images.parent}", "--gpus", str(self._gpus), "--output", "json"),
        ]

    def _run(self, job: Mapping[str, Any], images: Path) -> str:
        command = self._command(job, images)
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout


def recipe(options: argparse.Namespace, gpus: int) -> dict[str, Any]:
    """Return the example with the images' volume, deterministic, and as small as is asked for."""
    manifest: dict[str, Any] = yaml.safe_load(EXAMPLE.read_text())
    dataset, training = manifest["spec"]["dataset"], manifest["spec"]["training"]
    dataset["volume"] = {"claimName": DATASET}
    dataset["preprocessing"]["minImagesPerClass"] = 1
    training["deterministic"] = True
    training["epochs"] = options.epochs or training["epochs"]
    training["batchSize"] = options.batch or training["batchSize"]
    training["optimizer"]["warmupEpochs"] = min(5, training["epochs"] // 2)
    if not gpus:
        del training["precision"], training["workers"]
    return manifest


def wanted(seeds: int) -> list[tuple[str, int]]:
    """Return the trainings in the order in which they run: series and seed."""
    first = [(OURS, 0), (KILLED, 0), (PLAIN, 0)]
    others = [(series, seed) for seed in range(1, seeds) for series in (OURS, PLAIN)]
    return [*first, *others, *((ARCHIVE, seed) for seed in range(min(_ARCHIVE_SEEDS, seeds)))]


def report(found: Mapping[tuple[str, int], Trained], where: str) -> str:
    """Return the tables; what is not there is *not run*."""
    lines = [
        f"{where}:",
        "",
        "| | seeds | top-1, median | mean | standard error | to the plain loop | 2 standard errors "
        f"| seconds to {AIM} |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    accuracies = {name: series_of(found, name) for name in (PLAIN, OURS, KILLED, ARCHIVE)}
    plain = accuracies[PLAIN]
    for name, series in accuracies.items():
        if series is None:
            lines.append(f"| {name} | not run | | | | | | |")
            continue
        times = [one.seconds_to(AIM) for (of, _), one in sorted(found.items()) if of == name]
        reached = [one for one in times if one is not None]
        has_error = len(series.accuracies) > 1
        cells = [name, str(len(series.accuracies))]
        cells += [f"{statistics.median(series.accuracies):.4f}", f"{series.mean:.4f}"]
        cells += [f"{series.error:.4f}" if has_error else ""]
        if name != PLAIN and has_error and plain is not None and len(plain.accuracies) > 1:
            compared = compare(plain, series)
            cells += [f"{compared.difference:+.4f}", f"{2 * compared.error:.4f}"]
        else:
            cells += ["", ""]
        cells.append(
            f"{statistics.median(reached):.1f} ({len(reached)} of {len(times)})"
            if reached
            else f"not reached (0 of {len(times)})"
        )
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "| Aim | Result |", "|---|---|"]
    lines += [f"| {aim} | {said} |" for aim, said in aims(found).items()]
    return "\n".join(lines)


def aims(found: Mapping[tuple[str, int], Trained]) -> dict[str, str]:
    """Return each aim with its result in words: `reached: …`, `missed: …` or `not run`."""
    ours, plain, archive = (series_of(found, name) for name in (OURS, PLAIN, ARCHIVE))
    said = dict.fromkeys(
        (
            f"median of top-1 at least {AIM}",
            "within 2 standard errors of the plain loop",
            "killed and resumed: the same bytes",
            "CIFAR-10's own form: within 2 standard errors of the JPEGs",
        ),
        "not run",
    )
    median, within, same, alike = said
    if ours is not None:
        middle = statistics.median(ours.accuracies)
        said[median] = _verdict(middle >= AIM, f"{middle:.4f}")
    for aim, first, second in ((within, plain, ours), (alike, ours, archive)):
        if first is not None and second is not None:
            said[aim] = _within(first, second)
    if (OURS, 0) in found and (KILLED, 0) in found:
        hashes = [str(found[name, 0].sha256) for name in (OURS, KILLED)]
        said[same] = _verdict(hashes[0] == hashes[1], " and ".join(one[:12] for one in hashes))
    return said


def _within(first: Series, second: Series) -> str:
    if min(len(first.accuracies), len(second.accuracies)) < 2:
        return "not run"
    compared = compare(first, second)
    figures = f"{second.mean:.4f} and {first.mean:.4f}, 2 standard errors {2 * compared.error:.4f}"
    return _verdict(compared.agrees, figures)


def _verdict(is_reached: bool, figures: str) -> str:
    return f"{'reached' if is_reached else '**missed**'}: {figures}"


def series_of(found: Mapping[tuple[str, int], Trained], name: str) -> Series | None:
    """Return the last accuracies of a series; None if none is trained."""
    accuracies = tuple(one.top1[-1] for (of, _), one in sorted(found.items()) if of == name)
    return Series(name, accuracies) if accuracies else None


def main(arguments: Sequence[str] | None = None) -> int:
    """Train what is not trained yet, and report; return the exit code."""
    options = _parser().parse_args(arguments)
    deadline = time.monotonic() + options.seconds
    found_gpus = find_gpus(options.gpus, os.environ, Path("/dev"))
    count = min(len(found_gpus), 1)
    found: dict[tuple[str, int], Trained] = {}
    where = "no images are named: make fidelity-gpu IMAGES=FOLDER"
    if options.images is not None and not (count or options.images_per_class):
        where = "no GPU is there; on a CPU, write OPTIONS='--images-per-class 20 --epochs 2'"
    elif options.images is not None:
        images = options.images.resolve()
        if options.images_per_class:
            digest = hashlib.sha256(str(images).encode()).hexdigest()[:12]
            few = options.workdir.resolve() / f"few-{options.images_per_class}-{digest}"
            if not few.exists():
                begun = few.with_suffix(".part")
                shutil.rmtree(begun, ignore_errors=True)
                write_some(images, begun, options.images_per_class)
                begun.rename(few)
            images = few
        comparison = Comparison(recipe(options, count), images, count, options.workdir.resolve())
        _train_all(comparison, wanted(options.seeds), deadline)
        found = comparison.known()
        device = next((one.device for one in found.values() if one.device), "no plain loop")
        number = options.images_per_class or "all"
        where = f"{device}, {number} images of each class and split, {len(found)} trainings"
    text = report(found, where)
    print(text)
    if options.page is not None:
        replace(options.page, "fidelity-gpu", text)
    # Few images reach no accuracy, and are compared all the same.
    missed = [said for aim, said in aims(found).items() if "missed" in said and "median" not in aim]
    return 1 if missed else 0


def _train_all(
    comparison: Comparison, trainings: Sequence[tuple[str, int]], deadline: float
) -> None:
    longest = 0.0
    for series, seed in trainings:
        done = comparison.known()
        if (series, seed) in done:
            continue
        longest = max((one.wall for (of, _), one in done.items() if of != PLAIN), default=longest)
        if time.monotonic() + longest > deadline:
            print(f"{series}, seed {seed}: not run, the time is over", file=sys.stderr)
            continue
        comparison.train(series, seed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("images", nargs="?", type=Path, help="a folder, or a tar")
    parser.add_argument("--seeds", type=int, default=5, help="of each series")
    parser.add_argument("--epochs", type=int, help="instead of the example's")
    parser.add_argument("--batch", type=int, help="images a step, instead of the example's")
    parser.add_argument("--images-per-class", type=int, help="take so many of each split alone")
    parser.add_argument("--gpus", type=int, help="of this machine (default: those of nvidia-smi)")
    parser.add_argument("--seconds", type=float, default=470.0, help="of all trainings")
    parser.add_argument("--workdir", type=Path, default=WORKDIR, help="holds all that is written")
    parser.add_argument("--page", type=Path, help="a page whose table is replaced")
    return parser


if __name__ == "__main__":
    # SIGTERM also ends the training.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
