"""docs/model-files.md names the files and fields that a training writes, and its code runs."""

import json
import re
import subprocess
import sys
from pathlib import Path

from imagenet_spec import names
from imagenet_spec.evaluation import MISTAKES, SAMPLES, SUSPECTS, Evaluation, to_json
from support.pod_subset import REPOSITORY

PAGE = (REPOSITORY / "docs" / "model-files.md").read_text()
SOME = Evaluation("digits", 3, ["a", "b"], ["", ""], [0, 1, 1], [0, 1, 0], [1, 1, 1], [1, 1, 1])


def test_the_fields_are_those_of_the_file() -> None:
    table = PAGE.partition("## evaluation.json")[2].partition("The four columns")[0]
    named = [name for row in re.findall(r"^\| (`.*?) \|", table, re.M) for name in row.split(", ")]
    assert [name.strip("`") for name in named] == list(json.loads(to_json(SOME)))
    for most, field in ((MISTAKES, "mistakes"), (SUSPECTS, "suspects"), (SAMPLES, "samples")):
        assert f"| `{field}` | up to {most} " in table


def test_the_files_are_named() -> None:
    for name in (
        names.EVALUATION_FILE,
        f"{names.THUMBNAILS_FOLDER}/",
        names.MODEL_CARD_FILE,
        names.MODEL_CARD_DATA_FILE,
        names.RESULT_FILE,
        names.EVENTS_FILE,
    ):
        assert f"`{name}`" in PAGE.partition("\n## ")[0]


def test_the_code_counts_the_right_images(tmp_path: Path) -> None:
    (tmp_path / "evaluation.json").write_text(to_json(SOME))
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ended.stdout == "2 of 3 images are right\n"
