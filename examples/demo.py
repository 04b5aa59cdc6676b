"""`make demo`: one manifest, from a raw archive of handwritten digits to a trained network.

    make demo

Makes the archive (a tar of tars of JPEGs, as ImageNet's is), runs examples/digits.yaml on this
machine with `imagenetctl run`, draws accuracy and speed, and prints the next command. All output is
below build/demo. A second run trains again and uses the same dataset.
"""

import contextlib
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
MANIFEST = HERE / "digits.yaml"
WORKDIR = HERE.parent / "build" / "demo"
JOB = "digits"


def program(name: str) -> str:
    """A console script of the environment that runs this."""
    return str(Path(sys.executable).parent / name)


def shown(path: Path) -> str:
    """A path as short as it can be typed from here."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def step(*command: str | Path) -> None:
    """Show a command and run it; the demo ends with its exit code if that is not 0."""
    words = [str(word) for word in command]
    visible = [Path(words[0]).name, *(shown(Path(word)) for word in words[1:])]
    print(f"\n$ {shlex.join(visible)}", flush=True)
    with subprocess.Popen(words) as process:
        while process.returncode is None:
            # Ctrl-C reaches the command too, which ends in its own way.
            with contextlib.suppress(KeyboardInterrupt):
                process.wait()
    if process.returncode != 0:
        sys.exit(process.returncode)


def main() -> int:
    """Run the demo; return its exit code."""
    archive = WORKDIR / "volumes" / "raw" / "digits.tar"
    sample = WORKDIR / "sample.jpg"
    if not (archive.is_file() and sample.is_file()):
        step(sys.executable, HERE / "make_digits.py", archive, "--sample", sample)
    step(program("imagenetctl"), "run", MANIFEST, "--workdir", WORKDIR)

    model = (WORKDIR / "jobs" / JOB / "model").resolve()
    # The job's folder, above its attempts, so that a restart would show too.
    step(program("imagenet-plot"), model.parent.parent)

    validation = json.loads((model / "result.json").read_text())["validation"]
    predict = [shown(Path(program("imagenetctl"))), "predict", shown(sample), "--model"]
    print(
        f"\nvalidation top-1  {validation['top1']:.4f} on {validation['images']} images"
        f"\nmodel             {shown(model)}"
        f"\nplot              {shown(model / 'training.png')}"
        f"\n\nNow classify a digit:\n\n  {shlex.join([*predict, shown(model)])}"
    )
    return 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
