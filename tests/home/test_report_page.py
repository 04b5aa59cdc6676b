"""The page of `imagenetctl report --html` in Debian's chromium.

The pictures of docs/ are drawn here; this writes the committed ones:

    .venv-home/bin/pytest tests/home/test_report_page.py --update-images
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import simplejpeg
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page

from imagenet_operator.cli.main import main
from support import digits, report_pages, whole_jobs
from support.browser_visits import Visit, assert_drawn_as_committed
from support.image_trees import write_folder
from support.pod_subset import REPOSITORY
from support.processes import wait_until
from support.report_pages import HOSTILE, TAG, FinishedJob, with_segments

IMAGES = REPOSITORY / "docs" / "images"
JOB = FinishedJob()
PLANTED = "<img onerror=window.broken=1>.jpg"


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("shapes"), JOB)


@pytest.fixture(scope="module")
def many_classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a job with so many classes that their tables have filters."""
    classes = [f"class {number:02}" for number in range(40)]
    return written(tmp_path_factory.mktemp("many"), replace(JOB, classes=classes))


def written(folder: Path, job: FinishedJob) -> Path:
    """Return the file of a job's page."""
    report_pages.write(folder, job)
    file = folder / f"{job.name}.html"
    options = ["--price-per-gpu-hour", "2.5", "--watts-per-gpu", "700"]
    command = ["report", job.name, "--workdir", str(folder), "--html", str(file), *options]
    assert main(command) == 0
    return file


class Watched(Visit):
    """The page of a job in a browser."""

    def __init__(self, browser: Browser, file: Path, **options: Any) -> None:
        super().__init__(browser, **options)
        self.page.goto(file.as_uri())
        self.page.locator("#speed canvas").wait_for()
        self.file = file

    def assert_quiet(self) -> None:
        """Check that nothing left the page, and that its policy had nothing to refuse."""
        assert self.outside() == [self.file.as_uri()]
        self.assert_nothing_said()

    def lines(self, chart: str) -> list[list[float | None]]:
        """Return what a chart draws: the x, and the values of each line."""
        found: list[list[float | None]] = self.page.evaluate(
            "(name) => document.getElementById(name).chart.data.map((line) => [...line])", chart
        )
        return found


@pytest.fixture
def watched(browser: Browser, shapes: Path) -> Iterator[Watched]:
    found = Watched(browser, shapes)
    yield found
    found.page.context.close()


def known(line: list[float | None]) -> list[float]:
    return [value for value in line if value is not None]


def section(page: Page, name: str) -> Locator:
    return page.locator(f"section[aria-labelledby={name}]")


def test_no_request_leaves_the_page(watched: Watched) -> None:
    page = watched.page
    for link in page.locator("nav a").all():
        link.click()
    for summary in page.locator("summary").all():
        summary.click()
    for key in page.locator(".keys input").all():
        key.uncheck()
        key.check()
    for measure in ("epochs", "images", "gpuHours", "time"):
        page.locator("#measure").select_option(measure)
    page.set_viewport_size({"width": 500, "height": 900})
    page.emulate_media(color_scheme="dark")
    assert page.evaluate("[...document.images].every((image) => image.naturalWidth > 100)")
    watched.assert_quiet()


def test_the_curves_have_the_values_of_the_run(watched: Watched) -> None:
    # Over time everything is drawn: the last epoch of attempts 0 and 1 is trained twice.
    attempts = [0] * 5 + [1] * 5 + [2] * 4
    epochs = [0, 1, 2, 3, 4, 4, 5, 6, 7, 8, 8, 9, 10, 11]
    trained = [report_pages.top1(*one) for one in zip(epochs, attempts, strict=True)]
    _, top1, top5, training, within = watched.lines("accuracy")
    assert known(top1) == trained
    assert known(top5) == [value + 0.04 for value in trained]
    assert known(training) == [value + 0.02 for value in trained]
    assert len(known(within)) == 5 * len(epochs)
    # Over epochs, the attempt that came last counts.
    watched.page.locator("#measure").select_option("epochs")
    xs, top1, *_ = watched.lines("accuracy")
    drawn = {x: value for x, value in zip(xs, top1, strict=True) if value is not None}
    assert drawn == {epoch + 1: report_pages.top1(epoch, epoch // 4) for epoch in range(12)}
    for measure, last in (("images", 12 * 1_728_000), ("gpuHours", 12.44)):
        watched.page.locator("#measure").select_option(measure)
        xs, top1, *_ = watched.lines("accuracy")
        assert len(known(top1)) == 12
        assert known(xs) == sorted(known(xs))
        assert 0.9 * last < known(xs)[-1] < 1.2 * last
    restarts = watched.page.get_by_role("region", name="Restarts").locator("tbody tr")
    assert restarts.count() == 2


def test_the_planted_wrong_label_is_first_with_its_picture_and_file(watched: Watched) -> None:
    for name in ("labels", "mistakes"):
        first = section(watched.page, name).locator("li").first
        assert first.locator("figcaption > span").inner_text() == "circle/photo_007.jpg"
        assert first.locator("dd").all_inner_texts() == ["circle, 0.1 %", "ring, 99.8 %"]
        picture = first.get_by_role(
            "img", name="circle/photo_007.jpg: labelled circle, predicted ring"
        )
        assert picture.evaluate("(image) => image.naturalWidth") == JOB.edge
        assert picture.is_visible()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The working directory of a job that has trained digits, of which one has a wrong label.

    Its file says where it was made, and its name is markup.
    """
    workdir = tmp_path_factory.mktemp("trained")
    numbers = range(1000)
    files = {
        f"{'val' if number < 200 else 'train'}/{digits.CLASSES[digits.label(number)]}/"
        f"{number}.jpg": simplejpeg.encode_jpeg(digits.digit(number), quality=95)
        for number in numbers
    }
    sevens = [number for number in numbers if digits.label(number) == 7]
    shown = files.pop(f"val/digit-7/{sevens[0]}.jpg")
    files[f"val/digit-0/{PLANTED}"] = with_segments(shown, (0xE1, b"Exif\0\0GPS 48.8584 N"))
    write_folder(workdir / "volumes" / "raw" / "digits", files)
    manifest = whole_jobs.digits("single:local", "planted")
    dataset, training = manifest["spec"]["dataset"], manifest["spec"]["training"]
    dataset["source"]["volume"]["path"] = "digits"
    del dataset["validation"]
    dataset["preprocessing"]["minImagesPerClass"] = 1
    training["epochs"], training["optimizer"]["stepEpochs"] = 6, [5]
    whole_jobs.WholeJob(workdir, manifest).run()
    return workdir


def test_a_planted_wrong_label_is_found_by_training(browser: Browser, trained: Path) -> None:
    file = trained / "planted.html"
    assert main(["report", "planted", "--workdir", str(trained), "--html", str(file)]) == 0
    watched = Watched(browser, file)
    for name in ("labels", "mistakes"):
        first = section(watched.page, name).locator("li").first
        assert first.locator("figcaption > span").inner_text() == f"digit-0/{PLANTED}"
        values = first.locator("dd").all_inner_texts()
        assert [value.partition(",")[0] for value in values] == ["digit-0", "digit-7"]
        picture = first.locator("img")
        assert picture.evaluate("(image) => image.naturalWidth") == 28
        source = picture.get_attribute("src")
        assert source is not None
        assert b"GPS" not in base64.b64decode(source.partition(",")[2])
    assert len(known(watched.lines("accuracy")[1])) == 6
    watched.assert_quiet()
    watched.page.context.close()


def test_names_do_nothing(browser: Browser, tmp_path: Path) -> None:
    names = dict.fromkeys(HOSTILE, TAG)
    job = FinishedJob(classes=HOSTILE, words=names, file_name=TAG + "{0}{1}" + HOSTILE[1])
    watched = Watched(browser, written(tmp_path, job))
    page = watched.page
    assert page.evaluate("window.broken") is None
    assert page.locator("script").count() == 3
    assert page.locator("img:not([src^='data:image/jpeg;base64,'])").count() == 0
    rows = page.get_by_role("region", name="Images by class").locator("tbody th")
    shown = rows.all_inner_texts()
    assert shown[:3] == [TAG, r"\u202egnp.\u2066txt", r"two\nlines\r\n\ttab"]
    assert len(shown) == len(HOSTILE)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    watched.assert_quiet()
    page.context.close()


@pytest.mark.parametrize(
    ("scheme", "width", "job"), [("light", 1200, "shapes"), ("dark", 390, "many_classes")]
)
def test_axe_finds_nothing(
    browser: Browser, scheme: str, width: int, job: str, request: pytest.FixtureRequest
) -> None:
    watched = Watched(browser, request.getfixturevalue(job), color_scheme=scheme)
    watched.page.set_viewport_size({"width": width, "height": 900})
    for summary in watched.page.locator("summary").all():
        summary.click()
    found = Axe().run(watched.page)
    assert found.violations_count == 0, found.generate_report()
    assert watched.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    watched.page.context.close()


def test_everything_works_by_the_keyboard(browser: Browser, many_classes: Path) -> None:
    watched = Watched(browser, many_classes)
    page = watched.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate(outline) == "solid"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    assert page.locator("#measure").input_value() == "epochs"
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    assert not page.evaluate("document.getElementById('accuracy').chart.series[1].show")
    page.locator("#accuracy").focus()
    page.keyboard.press("End")
    values = page.locator(".keys").first.locator("output").all_inner_texts()
    last = report_pages.top1(11, 2)
    assert values[:3] == [f"{100 * one:.2f} %" for one in (last, last + 0.04, last + 0.02)]
    page.locator("summary").first.focus()
    page.keyboard.press("Enter")
    assert page.get_by_role("region", name="Accuracy, by epoch").is_visible()
    field = page.get_by_label("Filter the rows of: Images by class")
    field.focus()
    page.keyboard.type("CLASS 3")
    rows = page.get_by_role("region", name="Images by class").locator("tbody tr")
    assert rows.locator("visible=true").count() == 10
    assert "10 of 40 rows" in section(page, "data").inner_text()
    watched.assert_quiet()
    page.context.close()


def test_charts_follow_the_colours_of_the_system(watched: Watched) -> None:
    page = watched.page
    ink = "document.getElementById('loss').chart.axes[0].stroke()"
    assert page.evaluate(ink) == "#1d2430"
    page.emulate_media(color_scheme="dark")
    wait_until(lambda: bool(page.evaluate(ink) == "#e6e9ee"), "the charts are drawn again")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 31)"


def test_the_pictures_of_the_documentation(
    watched: Watched, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    page = watched.page
    page.set_viewport_size({"width": 1000, "height": 1060})
    page.screenshot(path=tmp_path / "report.png")
    section(page, "labels").screenshot(path=tmp_path / "report-labels.png")
    assert_drawn_as_committed(tmp_path, update=pytestconfig.getoption("--update-images"))
