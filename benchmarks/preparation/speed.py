"""How fast each encoder packs, beside the others in one run."""

import statistics
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.preparation.encoders import Encoder, Im2Rec, OurPrograms
from benchmarks.preparation.psnr import compare_pixels

EDGES = (480, 256)


@dataclass
class Times:
    """The seconds that one encoder takes.

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
    """Prints the table of speeds and of the PSNR against im2rec."""
    images = sum(1 for path in photographs.rglob("*.JPEG") if path.read_bytes())  # all cached now
    print(
        "| shorter edge | by | images/s | x im2rec | all steps, s | PSNR to im2rec | to no JPEG |"
    )
    print("|---|---|---|---|---|---|---|")
    for edge in EDGES:
        encoders: dict[str, Encoder] = {
            "im2rec": Im2Rec(photographs, edge, real_time),
            "opencv": OurPrograms(photographs, edge, "opencv", real_time),
            "planes": OurPrograms(photographs, edge, "planes", real_time),
        }
        times = {name: Times(prepare=encoder.prepare()) for name, encoder in encoders.items()}
        for _ in range(runs):
            for name, encoder in encoders.items():
                times[name].pack.append(encoder.pack())
        for name, encoder in encoders.items():
            times[name].finish = encoder.finish()
        psnr = compare_pixels(photographs, edge, encoders)
        for name, taken in times.items():
            print(
                f"| {edge} | {name} | {images / taken.packing():.0f} "
                f"| {times['im2rec'].packing() / taken.packing():.2f} "
                f"| {taken.all():.1f} | {psnr[name]} |",
                flush=True,
            )
