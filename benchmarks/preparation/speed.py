"""How fast each encoder packs, and how much CPU it takes, beside the others in one run."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.preparation.encoders import Encoder, Im2Rec, NewestOpenCv, OurPrograms
from benchmarks.preparation.programs import NOTHING, Outcome
from benchmarks.preparation.psnr import compare_pixels

EDGES = (480, 256)
# How many times as fast as im2rec the faster codec is to be at least, by edge.
AIMS = {480: 4.3, 256: 3.9}
HEADINGS = (
    *("shorter edge", "by", "images/s", "x im2rec", "CPU, ms an image", "x im2rec by CPU"),
    *("all steps, s", "PSNR to im2rec", "to no JPEG"),
)


@dataclass
class Runs:
    """The runs of one encoder.

    Attributes:
        prepare: before packing.
        pack: each run.
        finish: after packing.
        start: CPU seconds of each run before its first image, which its CPU time leaves out.
    """

    prepare: Outcome
    pack: list[Outcome] = field(default_factory=list)
    finish: Outcome = NOTHING
    start: float = 0.0

    def seconds(self) -> float:
        """Of packing, in the middle of the runs."""
        return statistics.median(run.seconds for run in self.pack)

    def cpu(self) -> float:
        """Seconds of CPU of packing, in the middle of the runs."""
        return statistics.median(run.cpu for run in self.pack) - self.start

    def all(self) -> float:
        """Seconds from the first step to the last."""
        return self.prepare.seconds + self.seconds() + self.finish.seconds


def compare_speed(photographs: Path, runs: int, real_time: bool, newest: bool) -> None:
    """Prints the table of speeds and of the PSNR against im2rec.

    Args:
        photographs: their folder.
        runs: of each encoder.
        real_time: let nothing else run beside a program.
        newest: whether im2rec's calls of the newest OpenCV are measured too, if pip can install it.
    """
    images = sum(1 for path in photographs.rglob("*.JPEG") if path.read_bytes())  # all cached now
    tool = Im2Rec(photographs, EDGES[0], real_time)
    start = statistics.median(tool.start().cpu for _ in range(runs))
    version = NewestOpenCv.install() if newest else ""
    print(
        "CPU is user and system time of a whole process with its children. That of im2rec is "
        f"without its start, which takes {start:.2f} s."
    )
    if version:
        print(f"`{NewestOpenCv.name}` is im2rec's own calls of OpenCV {version}, in one process.")
    print(f"\n| {' | '.join(HEADINGS)} |")
    print("|" + "---|" * len(HEADINGS))
    judged = []
    for edge in EDGES:
        encoders: dict[str, Encoder] = {
            "im2rec": Im2Rec(photographs, edge, real_time),
            **({NewestOpenCv.name: NewestOpenCv(photographs, edge, real_time)} if version else {}),
            "opencv": OurPrograms(photographs, edge, "opencv", real_time),
            "planes": OurPrograms(photographs, edge, "planes", real_time),
        }
        found = measure(encoders, runs)
        found["im2rec"].start = start
        psnr = compare_pixels(photographs, edge, encoders)
        for name, figures in rows(found, images).items():
            print(f"| {edge} | {name} | {figures} | {psnr[name]} |", flush=True)
        judged.append(judge(edge, found))
    print("\n" + "\n".join(judged))


def judge(edge: int, found: Mapping[str, Runs]) -> str:
    """Compares the faster codec at an edge with the aim."""
    tool = found["im2rec"].seconds()
    name, ours = min(
        ((name, found[name].seconds()) for name in ("opencv", "planes")), key=lambda one: one[1]
    )
    return (
        f"- At {edge}, `{name}` is the faster codec: {tool / ours:.2f} times as fast as im2rec "
        f"(aim: at least {AIMS[edge]})."
    )


def measure(encoders: Mapping[str, Encoder], runs: int) -> dict[str, Runs]:
    """Runs the encoders in turn."""
    found = {name: Runs(encoder.prepare()) for name, encoder in encoders.items()}
    for _ in range(runs):
        for name, encoder in encoders.items():
            found[name].pack.append(encoder.pack())
    for name, encoder in encoders.items():
        found[name].finish = encoder.finish()
    return found


def rows(found: Mapping[str, Runs], images: int) -> dict[str, str]:
    """By encoder, the figures of its row."""
    tool = found["im2rec"]
    return {
        name: (
            f"{images / one.seconds():.0f} | {tool.seconds() / one.seconds():.2f} "
            f"| {one.cpu() / images * 1000:.2f} | {tool.cpu() / one.cpu():.2f} | {one.all():.1f}"
        )
        for name, one in found.items()
    }
