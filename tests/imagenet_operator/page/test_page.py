"""The page as a document: what names become, what it lets in, its size, and missing parts."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from imagenet_operator.cli import report
from imagenet_operator.page import html, render
from imagenet_operator.page.contents import Contents, Part, read_dataset
from imagenet_spec.events import attempt_folders, read_runs
from imagenet_spec.resource import ImageNetJob
from support import report_pages
from support.html_elements import Elements
from support.report_pages import HOSTILE, TAG, TURNED, FinishedJob
from support.sentences import assert_says

LIMIT = 8_000_000


def contents(folder: Path, job: FinishedJob, **changes: Any) -> Contents:
    """Return what a page shows of a job, with the bytes of all its thumbnails."""
    model = report_pages.write(folder, job)
    stored = json.loads((folder / "jobs" / job.name / "job.json").read_text())["job"]
    parsed = ImageNetJob.model_validate(stored)
    assert parsed.status.time is not None
    dataset = next(folder.glob("volumes/*/datasets/*/dataset.json"))
    found = Contents(
        job=parsed,
        account=report.document(parsed, parsed.status.time, 2.5, 700.0),
        runs=read_runs(attempt_folders(model.parents[1])),
        dataset=read_dataset(json.loads(dataset.read_text())),
        evaluation=report_pages.evaluate(job),
        pictures={path.name: path.read_bytes() for path in (model / "thumbnails").iterdir()},
    )
    return replace(found, **changes)


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Contents:
    return contents(tmp_path_factory.mktemp("shapes"), FinishedJob())


def test_a_thousand_classes_90_epochs_and_10_restarts_fit(tmp_path: Path) -> None:
    classes = [f"n{number:08}" for number in range(1000)]
    words = dict.fromkeys(classes, "great white shark, man-eater")
    job = FinishedJob(
        classes=classes, words=words, epochs=90, restarts=10, redone=9, per_class=50, edge=400
    )
    # Every thumbnail is as large as the page accepts.
    page = render.page(contents(tmp_path, job))
    pictures = {name: bytes(64 << 10) for name in contents(tmp_path / "again", job).pictures}
    largest = render.page(contents(tmp_path / "largest", job, pictures=pictures))
    assert len(page.encode()) < len(largest.encode()) < LIMIT
    assert page.count("<bdi>n00000999</bdi>") >= 2
    # Of the thousand classes, more pairs are confused.
    assert "The 50 most confused pairs of classes" in page


def test_names_are_text_and_nothing_else(tmp_path: Path) -> None:
    job = FinishedJob(
        classes=HOSTILE, words=dict.fromkeys(HOSTILE, TAG), file_name=TAG + "{0}{1}" + TURNED
    )
    page = render.page(contents(tmp_path, job))
    plain = Elements(
        render.page(contents(tmp_path / "plain", FinishedJob(classes=list("abcdefg"))))
    )
    found = Elements(page)
    # The names change no element.
    assert {name for name, _ in found.found} <= {name for name, _ in plain.found} | {"bdi"}
    assert len(found.of("script")) == 3
    assert len(found.of("img")) == len(plain.of("img"))
    assert not any(name.startswith("on") for _, given in found.found for name in given)
    shown = found.text_of("bdi")
    for name in (
        TAG,
        r"\u202egnp.\u2066txt",
        r"two\nlines\r\n\ttab",
        r"\ud800\u0000\u007f",
        "עברית",
    ):
        assert name in shown
    assert not set(page) & set("\u202e\u2066\x00\x7f")
    page.encode()


def test_data_end_no_script() -> None:
    assert render.as_data({"<a>": TAG}) == (
        '{"\\u003ca>":"\\u003c/script>\\u003cimg src=x onerror=window.broken=1>"}'
    )
    assert json.loads(render.as_data([TAG, "<!--"])) == [TAG, "<!--"]


def test_the_policy_lets_in_the_blocks_of_the_page_alone(shapes: Contents) -> None:
    page = render.page(shapes)
    (policy,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', page)
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert rules["img-src"] == "data:"
    for name, rule in (("script", "script-src"), ("style", "style-src")):
        blocks = re.findall(rf"<{name}>(.*?)</{name}>", page, re.DOTALL)
        digests = [hashlib.sha256(block.encode()).digest() for block in blocks]
        assert len(blocks) == 2
        assert rules[rule].split() == [
            f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests
        ]


def test_nothing_is_loaded(shapes: Contents) -> None:
    found = Elements(render.page(shapes))
    for _, given in found.found:
        assert "style" not in given
        for name in ("src", "href"):
            assert given.get(name, "#").startswith(("#", "data:"))


def test_headings_tables_and_pictures_are_named(shapes: Contents) -> None:
    found = Elements(render.page(shapes))
    levels = [int(tag[1]) for tag, _ in found.found if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert len(found.of("caption")) == len(found.of("table")) > 8
    assert all(given["scope"] in ("col", "row") for given in found.of("th"))
    assert all(given["alt"] for given in found.of("img"))
    targets = {given["id"] for _, given in found.found if "id" in given}
    links = {given["href"].removeprefix("#") for given in found.of("a")}
    assert links <= targets


def test_the_planted_wrong_label_is_first(shapes: Contents) -> None:
    page = render.page(shapes)
    first = page[page.index('id="labels"') :]
    assert re.findall(r"<figcaption><span><bdi>([^<]*)", first)[0] == "circle/photo_007.jpg"
    assert "<dt>label</dt><dd><bdi>circle</bdi>, 0.1 %</dd>" in first
    assert "<dt>prediction</dt><dd><bdi>ring</bdi>, 99.8 %</dd>" in first


def test_the_tables_have_the_values_of_the_run(shapes: Contents) -> None:
    page = render.page(shapes)
    for epoch in range(12):
        assert f">{report_pages.top1(epoch, min(2, epoch // 4)):.4f}<" in page
    assert "<bdi>epoch-0008-batch-00000000</bdi>" in page
    assert "12.44 h" in page and "31.10" in page and "8.71 kWh" in page


@pytest.mark.parametrize(
    ("part", "changes", "missing"),
    [
        ("runs", {"runs": ()}, {"accuracy", "loss", "speed"}),
        ("dataset", {"dataset": None}, set()),
        ("evaluation", {"evaluation": None, "pictures": {}}, set()),
    ],
)
def test_a_missing_part_is_explained(
    shapes: Contents, part: Part, changes: dict[str, Any], missing: set[str]
) -> None:
    page = render.page(replace(shapes, absent={part: "It is <there>."}, **changes))
    assert "<p>It is &lt;there&gt;.</p>" in page
    ids = {given.get("id") for _, given in Elements(page).found}
    assert not ids & missing
    assert {"curves", "time", "data", "labels", "classes", "confusions"} <= ids


def test_an_image_without_a_thumbnail(shapes: Contents) -> None:
    page = render.page(replace(shapes, pictures={}))
    assert "<img" not in page.partition("<script")[0].partition("</style>")[2]
    assert page.count("no thumbnail") > 2
    assert "circle/photo_007.jpg" in page


def test_values_that_no_number_shows_are_left_out(shapes: Contents) -> None:
    (time, event), *rest = shapes.runs[0].validations
    broken = replace(event, loss=float("nan"), top5=float("inf"))
    run = replace(shapes.runs[0], validations=[(time, broken), *rest])
    page = render.page(replace(shapes, runs=(run, *shapes.runs[1:])))
    data = page.partition('id="chart-data">')[2].partition("</script>")[0]
    json.loads(data, parse_constant=lambda name: pytest.fail(name))


def test_a_dataset_json_of_another_shape_is_read_as_far_as_it_goes() -> None:
    document = {
        "classes": ["a", 1],
        "classWords": {"a": 2, "b": "bee"},
        "droppedClasses": {"c": "many", "d": 3},
        "splits": {"train": {"perClass": [1, 2, 3]}, "validation": []},
        "options": None,
        "writer": {"codec": ["opencv"]},
    }
    found = read_dataset(document, ["text", {"name": 1}])
    assert (found.classes, found.per_class, found.words) == ([], {}, {"b": "bee"})
    assert found.dropped_classes == {"d": 3}
    assert [one.name for one in found.skipped] == ["1"]


def test_a_table_says_what_it_leaves_out() -> None:
    rows = [[str(number), "", "x"] for number in range(html.ROWS_MAXIMUM + 5)]
    columns = [html.Column(name) for name in ("number", "empty", "letter")]
    table = html.table("Numbers", columns, rows, more="numbers.json has all.")
    assert_says(table, "5 further rows", "left out", "numbers.json has all.")
    assert "empty" not in table
