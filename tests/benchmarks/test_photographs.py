"""The photographs of the benchmarks: they are like ILSVRC's files, and the same each time."""

from collections import Counter
from pathlib import Path

import numpy as np
import simplejpeg
from benchmarks.photographs import draw, make_photographs

FILES = 12


def test_the_files_are_drawn_with_ilsvrc_s_distribution() -> None:
    drawn = draw(1000)
    samplings = {"444": 760, "420": 190, "Gray": 25, "422": 20, "440": 5}
    assert Counter(one.sampling for one in drawn) == samplings
    assert 107_000 < np.mean([one.bytes for one in drawn]) < 114_000
    longer = [max(one.width, one.height) for one in drawn if one.sampling == "444"]
    assert 0.8 < np.mean([edge == 500 for edge in longer]) < 0.9
    assert 150 <= min(longer) < 200
    assert 700 < max(longer) <= 800
    assert 260 < sum(one.height > one.width for one in drawn) <= 270
    qualities = [one.quality for one in drawn if one.sampling == "444"]
    assert (min(qualities), sorted(qualities)[380], max(qualities)) == (76, 96, 99)


def test_each_file_is_as_drawn_and_the_same_each_time(tmp_path: Path) -> None:
    one, other = (make_photographs(tmp_path / name, FILES) for name in "ab")
    files = {int(path.stem): path.read_bytes() for path in one.rglob("*.JPEG")}
    assert files == {int(path.stem): path.read_bytes() for path in other.rglob("*.JPEG")}
    for number, drawn in enumerate(draw(FILES)):
        height, width, _, sampling = simplejpeg.decode_jpeg_header(files[number])
        assert (sampling, width, height) == (drawn.sampling, drawn.width, drawn.height)
        assert 0.9 < len(files[number]) / drawn.bytes < 1.1
