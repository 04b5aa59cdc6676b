"""docs/scaling.md speaks of what `imagenetctl scale` takes and writes."""

import re

from imagenet_operator.cli.main import build_parser
from imagenet_operator.scaling import points, variants
from imagenet_operator.scaling.table import HEADS
from support.pod_subset import REPOSITORY

PAGE = (REPOSITORY / "docs" / "scaling.md").read_text()


def test_every_column_of_the_table_is_explained() -> None:
    explained = re.findall(r"^\| ([^`|]+?) \| .+\|$", PAGE, re.MULTILINE)
    assert tuple(dict.fromkeys(name for name in explained if name in HEADS)) == HEADS


def test_every_strategy_that_is_typed_is_one() -> None:
    items = re.findall(r"^\| `([\w:]+)` \|", PAGE, re.MULTILINE)
    items += re.findall(r"--strategies ([\w:,]+)", PAGE)
    found = [variants.read(item) for line in items for item in line.split(",")]
    assert len(found) >= 3


def test_every_command_that_is_typed_is_one() -> None:
    commands = re.findall(r"^imagenetctl (scale .+)$", PAGE, re.MULTILINE)
    assert len(commands) == 3
    assert "--weak --gpus 1,2,4,8 --networks" in commands[1]
    for command in commands:
        build_parser().parse_args(command.split())


def test_the_label_is_the_one_that_jobs_carry() -> None:
    assert f"{points.SWEEP}=NAME" in PAGE
