"""`imagenetctl dashboard` in Debian's chromium, beside jobs that go on.

The picture of docs/ is drawn here; this writes the committed one:

    .venv-home/bin/pytest tests/home/test_dashboard.py --update-images
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from imagenet_operator.cli.dashboard.pages import address
from support import dashboards, report_pages
from support.browser_visits import Visit, assert_drawn_as_committed
from support.dashboards import ACTIVE
from support.processes import wait_until
from support.report_pages import HOSTILE

RUNNING = "resnet50-bfloat16"
MARKUP = "<img src=x onerror=window.broken=1>"
NAMES = (MARKUP, "\u202egnp.\u2066txt", "x" * 200, "עברית")
COMPARED = f"/compare?job=shapes&job=shapes-large-batch&job={RUNNING}"


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The working directory of jobs in several phases, with a name like those of people."""
    folder = tmp_path_factory.mktemp("work") / "imagenet-work"
    dashboards.write_stages(folder)
    with dashboards.owned(folder, *ACTIVE):
        yield folder


@pytest.fixture(scope="module")
def changing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Jobs that the tests change, and some whose names or messages are markup or turned writing."""
    folder = tmp_path_factory.mktemp("changing")
    for name in ("digits", "first", "second", "said"):
        dashboards.write_running(folder, name)
    for name in NAMES:
        shutil.copytree(folder / "jobs" / "said", folder / "jobs" / name)
        dashboards.rename(folder, name, name)
    texts = [text.encode(errors="replace").decode().replace("\n", " ") for text in HOSTILE]
    (folder / "jobs" / "said" / "logs" / "said-r0-worker-0.log").write_text("\n".join(texts))
    for text in HOSTILE:
        dashboards.write_event(folder, "said", "Restarting", text)
    return folder


@pytest.fixture(scope="module")
def of_changing(changing: Path) -> Iterator[str]:
    with dashboards.served("--workdir", str(changing)) as (opened, _):
        yield opened


@pytest.fixture(scope="module")
def of_jobs(jobs: Path) -> Iterator[str]:
    with dashboards.served("--workdir", jobs.name, folder=jobs.parent) as (opened, _):
        yield opened


class Viewer(Visit):
    """A person with the address of a dashboard."""

    def __init__(self, browser: Browser, opened: str, scheme: str = "light") -> None:
        super().__init__(browser, color_scheme=scheme)
        self.base = opened.partition("/?")[0]
        self.page.goto(opened)
        self.wait_for_state("Live")

    def open(self, path: str) -> Page:
        """Open a page, and wait until it has looked for news."""
        self.page.goto(f"{self.base}{path}")
        self.page.locator("body[data-state]").wait_for()
        return self.page

    def wait_for_state(self, words: str) -> None:
        self.page.locator("#state", has_text=words).wait_for()

    def assert_quiet(self) -> None:
        """Check that no request went elsewhere, and that its policy had nothing to refuse."""
        assert [url for url in self.outside() if not url.startswith(f"{self.base}/")] == []
        self.assert_nothing_said()


@pytest.fixture
def viewer(browser: Browser, of_jobs: str) -> Iterator[Viewer]:
    found = Viewer(browser, of_jobs)
    yield found
    found.close()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 390)])
def test_axe_finds_nothing(browser: Browser, of_jobs: str, scheme: str, width: int) -> None:
    viewer = Viewer(browser, of_jobs, scheme)
    viewer.page.set_viewport_size({"width": width, "height": 900})
    # The failed job has what the others lack: its reason.
    for path in (
        "/",
        "/jobs/resnet50-warmup" if scheme == "dark" else f"/jobs/{RUNNING}",
        COMPARED,
    ):
        page = viewer.open(path)
        for summary in page.locator("summary").all():
            summary.click()
        found = Axe().run(page)
        assert found.violations_count == 0, f"{path}: {found.generate_report()}"
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    viewer.assert_quiet()
    viewer.close()


def test_the_token_is_in_no_address_and_no_program_sees_it(viewer: Viewer) -> None:
    page = viewer.page
    assert page.url == f"{viewer.base}/"
    assert page.evaluate("document.cookie") == ""
    (cookie,) = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Lax")


def test_a_click_in_the_page_of_another_site_opens_it(browser: Browser, of_jobs: str) -> None:
    class Terminal(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(f'<a href="{of_jobs}">open</a>'.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    visit = Visit(browser)
    with HTTPServer(("127.0.0.1", 0), Terminal) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        # A name that is another site than 127.0.0.1.
        visit.page.goto(f"http://localhost:{server.server_port}/")
        server.shutdown()
        thread.join()
    visit.page.get_by_role("link").click()
    visit.page.get_by_role("heading", name="Jobs").wait_for()
    visit.close()


def test_without_the_token_a_page_says_what_to_do(browser: Browser, of_jobs: str) -> None:
    stranger = Visit(browser)
    answer = stranger.page.goto(f"{of_jobs.partition('/?')[0]}/jobs/{RUNNING}")
    assert answer is not None and answer.status == 403
    assert "imagenetctl dashboard" in stranger.page.locator("main").inner_text()
    assert Axe().run(stranger.page).violations_count == 0
    stranger.close()


def test_names_do_nothing(browser: Browser, of_changing: str) -> None:
    viewer = Viewer(browser, of_changing)
    shown = viewer.page.locator(".joblist tbody th a").all_inner_texts()
    assert {MARKUP, r"\u202egnp.\u2066txt", "x" * 200} < set(shown)
    for width in (1200, 390):
        viewer.page.set_viewport_size({"width": width, "height": 900})
        for path in ("/", "/jobs/said", *map(address, NAMES)):
            page = viewer.open(path)
            assert page.locator("img").count() == 0
            assert page.evaluate("window.broken") is None
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    assert viewer.open(address(MARKUP)).locator("h1").inner_text() == MARKUP
    page = viewer.open("/jobs/said")
    assert report_pages.TAG in page.locator(".log").inner_text()
    assert (
        report_pages.TAG in page.get_by_role("region", name="Events, the newest first").inner_text()
    )
    viewer.assert_quiet()
    viewer.close()


def test_jobs_are_compared_by_the_keyboard(viewer: Viewer) -> None:
    page = viewer.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    page.keyboard.press("Tab")
    page.keyboard.type("shapes")
    rows = page.locator(".joblist tbody tr")
    assert rows.locator("visible=true").count() == 2
    for _ in range(2):
        page.keyboard.press("Tab")
    page.keyboard.press("Space")
    assert page.evaluate("document.activeElement.checked")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "shapes-large-batch"
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    page.wait_for_url("**/compare?*")
    keys = page.locator(".keys").first.locator("bdi").all_inner_texts()
    assert sorted(keys) == ["shapes", "shapes-large-batch"]
    page.locator("#accuracy canvas").wait_for()
    page.locator("#accuracy").focus()
    page.keyboard.press("End")
    values = page.locator(".keys").first.locator("output").all_inner_texts()
    assert all(value.endswith(" %") for value in values)
    page.get_by_role("link", name="Choose other jobs").press("Enter")
    assert page.locator(".joblist input:checked").count() == 2


def points(page: Page) -> int:
    """Return how many points the first line of the accuracy has."""
    drawn = "[...document.getElementById('accuracy').chart.data[1]].filter((one) => one).length"
    return int(page.evaluate(drawn))


def test_a_job_goes_on_while_it_is_looked_at(
    browser: Browser, changing: Path, of_changing: str
) -> None:
    viewer = Viewer(browser, of_changing)
    page = viewer.open("/jobs/digits")
    page.locator("#accuracy canvas").wait_for()
    assert points(page) == 5
    page.locator("summary").first.click()
    page.locator("#loss").scroll_into_view_if_needed()
    page.locator("#loss").focus()
    page.keyboard.press("Home")
    kept = "[document.activeElement.id, Math.round(scrollY), document.title]"
    before = page.evaluate(kept)
    read_at = page.locator("#read-at").get_attribute("datetime")
    dashboards.finish_epoch(changing, "digits", 5)
    wait_until(lambda: points(page) == 6, "the curve has grown")
    # A reading may have the new log, and the status before it.
    page.locator(".tiles dd", has_text="6 of 12").wait_for()
    assert page.evaluate(kept) == before
    table = page.get_by_role("region", name="Accuracy, by epoch").locator("tbody tr")
    assert table.count() == 6 and table.last.is_visible()
    assert str(page.locator("#read-at").get_attribute("datetime")) > str(read_at)
    shutil.rmtree(changing / "jobs" / "digits")
    page.locator(".trouble", has_text="The job is gone").wait_for()
    assert points(page) == 6
    viewer.assert_quiet()
    page.context.set_offline(True)
    viewer.wait_for_state("Connection lost")
    assert "read at" in page.locator("#read-at").inner_text()
    page.context.set_offline(False)
    viewer.wait_for_state("No new values")
    viewer.close()


def test_a_chosen_box_stays_when_its_job_moves(
    browser: Browser, changing: Path, of_changing: str
) -> None:
    viewer = Viewer(browser, of_changing)
    page = viewer.page
    box = page.get_by_label("Compare first")
    box.focus()
    page.keyboard.press("Space")

    def names() -> list[str]:
        found: list[str] = page.locator(".joblist tbody th bdi").all_inner_texts()
        return [name for name in found if name in ("first", "second")]

    assert names() == ["first", "second"]
    dashboards.edit(changing, "first", lambda job: job["status"].update(phase="Succeeded"))
    wait_until(lambda: names() == ["second", "first"], "the job has moved")
    assert box.is_checked() and not page.get_by_label("Compare second").is_checked()
    assert page.evaluate("document.activeElement.ariaLabel") == "Compare first"
    viewer.assert_quiet()
    viewer.close()


def test_the_rows_are_counted_again(browser: Browser, tmp_path: Path) -> None:
    dashboards.write_running(tmp_path, "first")
    with dashboards.served("--workdir", str(tmp_path)) as (opened, _):
        viewer = Viewer(browser, opened)
        dashboards.write_running(tmp_path, "second")
        viewer.page.get_by_role("link", name="second").wait_for()
        assert viewer.page.locator(".filter output").inner_text() == "2 rows"
        viewer.close()


def test_the_picture_of_the_documentation(
    viewer: Viewer, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    page = viewer.page
    page.set_viewport_size({"width": 1200, "height": 680})
    page.evaluate("document.querySelector('#read-at').textContent = 'read at 16:20:14'")
    page.screenshot(path=tmp_path / "dashboard.png")
    assert_drawn_as_committed(tmp_path, update=pytestconfig.getoption("--update-images"))
