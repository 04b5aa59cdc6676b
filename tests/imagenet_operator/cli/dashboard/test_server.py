"""The server of the dashboard: who is let in, what an answer has, and when it is another one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from imagenet_operator.cli.dashboard import command
from imagenet_operator.cli.dashboard.readings import Readings
from imagenet_operator.cli.dashboard.server import application
from imagenet_operator.cli.main import build_parser
from imagenet_operator.sdk.blocking import Client
from support import dashboards, report_pages
from support.html_elements import Elements
from support.report_pages import HOSTILE, TAG, FinishedJob
from support.sentences import assert_says

TOKEN = "a-token-of-this-test"
PORT = 8000
NAME = "shapes"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    workdir = tmp_path_factory.mktemp("dashboard")
    report_pages.write(workdir, FinishedJob())
    dashboards.write_running(workdir, "running")
    dashboards.write_event(workdir, "running", "Restarting", TAG)
    return workdir


@pytest.fixture
def workdir(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "work", symlinks=True))


def client_of(workdir: Path) -> TestClient:
    """A viewer without a token, of a dashboard whose readings are never old enough to be kept."""
    arguments = build_parser().parse_args(["dashboard", "--workdir", str(workdir)])
    jobs = Client.local(workdir).jobs
    readings = Readings(jobs, command.collector(arguments), fresh_seconds=0.0)
    return TestClient(
        application(readings, TOKEN, PORT),
        base_url=f"http://127.0.0.1:{PORT}",
        follow_redirects=False,
    )


@pytest.fixture
def stranger(workdir: Path) -> Iterator[TestClient]:
    with client_of(workdir) as client:
        yield client


@pytest.fixture
def viewer(stranger: TestClient) -> TestClient:
    assert stranger.get("/", params={"token": TOKEN}).status_code == 303
    return stranger


def until(ask: Callable[[], str], wanted: str) -> str:
    """Ask until an answer has a text: a reading that rests is repeated a little later."""
    for _ in range(2000):
        if wanted in (text := ask()):
            return text
    raise AssertionError(f"no answer has {wanted!r}")


@pytest.mark.parametrize("path", ["/", f"/jobs/{NAME}", "/compare?job=a&job=b", "/nothing"])
@pytest.mark.parametrize("token", [None, "", "a-token", f"{TOKEN}x", "\u202e\u00e9"])
def test_nothing_is_shown_without_the_token(
    stranger: TestClient, path: str, token: str | None
) -> None:
    stranger.cookies.set(f"imagenet-dashboard-{PORT}", "another")
    answer = stranger.get(path, params={} if token is None else {"token": token})
    assert answer.status_code == 403
    assert NAME not in answer.text.replace(f"/jobs/{NAME}", "")
    assert_says(answer.text, "imagenetctl dashboard", "?token=")


def test_the_token_becomes_a_cookie_and_leaves_the_address(stranger: TestClient) -> None:
    answer = stranger.get("/compare", params=[("job", "a"), ("token", TOKEN), ("job", "b")])
    assert (answer.status_code, answer.headers["Location"]) == (303, "/compare?job=a&job=b")
    cookie = answer.headers["Set-Cookie"].lower()
    assert {"httponly", "samesite=lax", "path=/"} <= set(cookie.split("; "))
    assert TOKEN not in stranger.get("/").text
    assert stranger.get("/").status_code == 200


@pytest.mark.parametrize("path", ["//evil.example/x", "/\\evil.example", "///evil.example"])
def test_the_redirection_leads_to_no_other_machine(stranger: TestClient, path: str) -> None:
    answer = stranger.get(f"http://127.0.0.1:{PORT}{path}", params={"token": TOKEN})
    location = answer.headers["Location"]
    assert location.startswith("/") and location[1] not in "/\\"


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:9000", 200),
        ("LOCALHOST", 200),
        ("[::1]:8000", 200),
        ("evil.example", 421),
        ("evil.example:8000", 421),
        ("127.0.0.1.evil.example:8000", 421),
        ("localhost:8000.evil.example", 421),
        ("", 421),
    ],
)
def test_another_name_in_host_is_refused(viewer: TestClient, host: str, status: int) -> None:
    assert viewer.get("/", headers={"Host": host}).status_code == status
    asset = viewer.get("/assets/page.css", headers={"Host": host})
    assert asset.status_code == status


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
@pytest.mark.parametrize("path", ["/", f"/jobs/{NAME}", "/assets/page.js"])
def test_a_dashboard_only_reads(viewer: TestClient, method: str, path: str) -> None:
    answer = viewer.request(method, path)
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, HEAD")


def test_head_is_answered_as_get(viewer: TestClient) -> None:
    for path in ("/", f"/jobs/{NAME}", "/assets/live.js"):
        answer = viewer.head(path)
        assert (answer.status_code, answer.text) == (200, "")


def test_every_answer_lets_nothing_in_or_out(viewer: TestClient) -> None:
    etag = viewer.get("/").headers["ETag"]
    answers = [
        viewer.get("/"),
        viewer.get("/", headers={"If-None-Match": etag}),
        viewer.get(f"/jobs/{NAME}"),
        viewer.get("/assets/live.js"),
        viewer.get("/nothing"),
        viewer.post("/"),
        viewer.get("/", headers={"Host": "evil.example"}),
    ]
    assert [answer.status_code for answer in answers] == [200, 304, 200, 200, 404, 405, 421]
    for answer in answers:
        policy = answer.headers["Content-Security-Policy"]
        rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
        assert rules["default-src"] == rules["frame-ancestors"] == rules["base-uri"] == "'none'"
        assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert answer.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("path", ["/", "/jobs/running", "/compare?job=shapes&job=running"])
def test_no_program_or_style_stands_in_a_page(viewer: TestClient, path: str) -> None:
    found = Elements(viewer.get(path).text)
    for given in found.of("script"):
        assert given.get("src", "").startswith("/assets/") or given["type"] == "application/json"
    assert not found.of("style")
    for _, given in found.found:
        assert not {name for name in given if name == "style" or name.startswith("on")}
        for name in ("src", "href", "action"):
            assert given.get(name, "/").startswith(("/", "#", "data:"))


def test_a_page_is_sent_again_when_the_job_has_changed(viewer: TestClient, workdir: Path) -> None:
    first = viewer.get("/jobs/running")
    etag = first.headers["ETag"]
    again = viewer.get("/jobs/running", headers={"If-None-Match": etag})
    assert (again.status_code, again.text) == (304, "")
    assert again.headers["Read-At"] > "2026"
    assert "5 of 12" in first.text and "6 of 12" not in first.text
    dashboards.finish_epoch(workdir, "running", 5)
    headers = {"If-None-Match": etag}
    text = until(lambda: viewer.get("/jobs/running", headers=headers).text, "6 of 12")
    data = json.loads(text.partition('id="chart-data">')[2].partition("</script>")[0])
    accuracy = next(chart for chart in data["charts"] if chart["name"] == "accuracy")
    assert [point[-1] for point in accuracy["series"][0]["points"]][-1] == report_pages.top1(5)


def test_the_page_of_a_job_has_its_log_and_events(viewer: TestClient, workdir: Path) -> None:
    log = workdir / "jobs" / "running" / "logs" / "running-r0-worker-0.log"
    log.write_text("".join(f"line {number} {TAG}\n" for number in range(1000)))
    text = viewer.get("/jobs/running").text
    assert "line 999 " in text and "line 800 " in text and "line 799 " not in text
    assert "<td>Restarting</td>" in text
    assert TAG not in text
    assert_says(text, "No process", "runs running")


@pytest.mark.parametrize(
    "path", ["/jobs/..", "/jobs/%2e%2e", "/jobs/..%2F..", "/jobs/%2Fetc", "/jobs/nothing"]
)
def test_only_jobs_of_the_list_are_read(viewer: TestClient, workdir: Path, path: str) -> None:
    secret = (workdir / "jobs" / NAME / "job.json").read_text().replace(NAME, "secret")
    (workdir / "job.json").write_text(secret)
    answer = viewer.get(f"http://127.0.0.1:{PORT}{path}")
    assert answer.status_code == (200 if path == "/jobs/.." else 404) or "secret" not in answer.text
    assert "secret" not in answer.text


def test_names_are_text(viewer: TestClient, workdir: Path) -> None:
    for name in HOSTILE:
        usable = name.encode(errors="replace").decode()[:200].replace("/", "_").replace("\0", "_")
        folder = workdir / "jobs" / usable
        shutil.copytree(workdir / "jobs" / NAME, folder)
        dashboards.rename(workdir, usable, name)
    listed = viewer.get("/").text
    assert TAG not in listed
    found = Elements(listed)
    assert len(found.of("input")) == 1 + 2 + len(HOSTILE)
    for given in found.of("a"):
        assert viewer.get(given["href"]).status_code in (200, 404)


def test_a_deleted_job_stays_as_it_was_read(viewer: TestClient, workdir: Path) -> None:
    assert "5 of 12" in viewer.get("/jobs/running").text
    shutil.rmtree(workdir / "jobs" / "running")
    text = until(lambda: viewer.get("/jobs/running").text, "The job is gone since")
    assert "5 of 12" in text
    until(lambda: str("running" not in viewer.get("/").text), "True")


def test_a_damaged_job_hides_no_other(viewer: TestClient, workdir: Path) -> None:
    (workdir / "jobs" / "running" / "job.json").write_text("{")
    assert NAME in until(lambda: viewer.get("/").text, "1 rows")
    assert viewer.get("/jobs/running").status_code == 404


def test_a_working_directory_without_jobs(tmp_path: Path) -> None:
    with client_of(tmp_path / "nothing") as viewer:
        viewer.get("/", params={"token": TOKEN})
        assert_says(viewer.get("/").text, "no jobs", f"--workdir {tmp_path / 'nothing'}")


def test_a_comparison_lays_curves_over_each_other(viewer: TestClient) -> None:
    text = viewer.get("/compare?job=shapes&job=running").text
    data = json.loads(text.partition('id="chart-data">')[2].partition("</script>")[0])
    assert [chart["name"] for chart in data["charts"]] == ["accuracy", "loss", "speed"]
    for chart in data["charts"]:
        assert [one["label"] for one in chart["series"]] == ["shapes", "running"]
        assert [one["colour"] for one in chart["series"]] == ["job1", "job2"]
    kept = [point for point in data["charts"][0]["series"][0]["points"] if point[4]]
    assert [point[-1] for point in kept] == [
        report_pages.top1(epoch, epoch // 4) for epoch in range(12)
    ]
    reached = min(report_pages.top1(11, 2), report_pages.top1(4))
    assert f"Costs of top-1 {reached - 0.00005:.4f}" in text


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", "0 are chosen"),
        ("?job=shapes", "1 are chosen"),
        ("?job=shapes&job=shapes", "1 are chosen"),
        ("?" + "&".join(f"job={number}" for number in range(9)), "9 are chosen"),
        ("?job=shapes&job=nothing", "no such job"),
    ],
)
def test_a_comparison_that_cannot_be_made_says_why(
    viewer: TestClient, query: str, said: str
) -> None:
    answer = viewer.get(f"/compare{query}")
    assert answer.status_code == 200
    assert said in answer.text


def test_the_list_checks_what_was_chosen_before(viewer: TestClient) -> None:
    boxes = [
        given for given in Elements(viewer.get("/?job=shapes").text).of("input") if "name" in given
    ]
    assert {given["value"]: "checked" in given for given in boxes} == {
        "shapes": True,
        "running": False,
    }
