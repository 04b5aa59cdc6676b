"""How fast each way packs, beside the others in one run."""

import statistics
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.preparation.likeness import compare_pixels
from benchmarks.preparation.ways import Im2Rec, Ours, Way

EDGES = (480, 256)


@dataclass
class Times:
    """The seconds that one way takes.

    Attributes:
        prepare: before packing.
        pack: of each run.
        finish: after packing.
    """

    prepare: float
    pack: list[float] = field(default_factory=list)
    finish: float = 0.0

    def packing(self) -> float:
        """Of the run in the middle."""
        return statistics.median(self.pack)

    def all(self) -> float:
        """From the first step to the last."""
        return self.prepare + self.packing() + self.finish


def compare_speed(photographs: Path, runs: int, real_time: bool) -> None:
    """Prints the table of speeds and of the pixels' likeness to im2rec's."""
    images = sum(1 for path in photographs.rglob("*.JPEG") if path.read_bytes())  # all cached now
    print(
        "| shorter edge | by | images/s | x im2rec | all steps, s | PSNR to im2rec | to no JPEG |"
    )
    print("|---|---|---|---|---|---|---|")
    for edge in EDGES:
        ways: dict[str, Way] = {
            "im2rec": Im2Rec(photographs, edge, real_time),
            "opencv": Ours(photographs, edge, "opencv", real_time),
            "planes": Ours(photographs, edge, "planes", real_time),
        }
        times = {name: Times(prepare=way.prepare()) for name, way in ways.items()}
        for _ in range(runs):
            for name, way in ways.items():
                times[name].pack.append(way.pack())
        for name, way in ways.items():
            times[name].finish = way.finish()
        likeness = compare_pixels(photographs, edge, ways)
        for name, taken in times.items():
            print(
                f"| {edge} | {name} | {images / taken.packing():.0f} "
                f"| {times['im2rec'].packing() / taken.packing():.2f} "
                f"| {taken.all():.1f} | {likeness[name]} |",
                flush=True,
            )
