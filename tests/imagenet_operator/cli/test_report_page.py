"""`imagenetctl report --html FILE`: where the page's parts come from, and how it is written."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from imagenet_operator.cli import report
from imagenet_operator.cli.main import build_parser, main
from imagenet_operator.clusters.kubernetes import objects
from imagenet_spec.evaluation import from_json
from support import job_table, report_pages
from support.asynchronous import asynchronous
from support.fake_api_server import FakeApiServer
from support.report_pages import FinishedJob, with_segments
from support.sentences import assert_says

# What no page needs, although it may be installed.
WITHOUT = """
import sys
sys.modules.update(dict.fromkeys(("matplotlib", "PIL", "pillow_heif", "cv2", "numpy")))
from imagenet_operator.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    report_pages.write(tmp_path, FinishedJob())
    return tmp_path


def written(workdir: Path, *options: str) -> str:
    """Return the page that the command writes."""
    file = workdir / "shapes.html"
    command = ["report", "shapes", "--workdir", str(workdir), "--html", str(file), *options]
    assert main(command) == 0
    return file.read_text(encoding="utf-8")


def model_of(workdir: Path) -> Path:
    (found,) = workdir.glob("volumes/*/jobs/*/attempts/r2")
    return found


def pictures_of(page: str) -> list[bytes]:
    return [
        base64.b64decode(one) for one in re.findall(r'src="data:image/jpeg;base64,([^"]+)', page)
    ]


def test_the_text_still_prints_and_the_page_has_the_same(
    workdir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = written(workdir, "--price-per-gpu-hour", "2.5", "--watts-per-gpu", "700")
    printed = capsys.readouterr().out
    assert "goodput    57.7%\n" in printed and "cost       31.10\n" in printed
    assert "57.7 %" in page and ">31.10<" in page and ">8.71 kWh<" in page
    assert "<bdi>circle/half.jpg</bdi>" in page
    assert "<bdi>circle/photo_007.jpg</bdi>" in page


def test_neither_matplotlib_nor_pillow_is_needed(workdir: Path) -> None:
    file = workdir / "shapes.html"
    options = ["report", "shapes", "--workdir", str(workdir), "--html", str(file)]
    subprocess.run([sys.executable, "-c", WITHOUT, *options], check=True, capture_output=True)
    assert len(pictures_of(file.read_text())) > 12


@pytest.mark.parametrize("name", ["page.htm", "page", ".html", ""])
def test_the_file_is_a_page(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["report", "shapes", "--html", name])
    assert "write a name that ends in .html" in capsys.readouterr().err


@pytest.mark.parametrize("place", ["missing/shapes.html", "taken.html"])
def test_a_page_that_cannot_be_written_leaves_nothing(
    place: str, workdir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (workdir / "taken.html").mkdir()
    before = sorted(workdir.iterdir())
    command = ["report", "shapes", "--workdir", str(workdir), "--html", str(workdir / place)]
    assert main(command) != 0
    said = capsys.readouterr()
    assert "goodput" in said.out
    assert f"--html {workdir / place}: cannot be written: " in said.err
    assert sorted(workdir.iterdir()) == before


def test_a_thumbnail_keeps_no_metadata(workdir: Path) -> None:
    for file in (model_of(workdir) / "thumbnails").iterdir():
        file.write_bytes(with_segments(file.read_bytes(), (0xE1, b"Exif\0\0GPS 48.8584 N")))
    page = written(workdir)
    pictures = pictures_of(page)
    assert len(pictures) > 12
    assert not any(b"GPS" in one or b"Exif" in one for one in pictures)


def test_what_is_no_thumbnail_is_left_out_with_a_warning(
    workdir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    thumbnails = model_of(workdir) / "thumbnails"
    evaluation = from_json((model_of(workdir) / "evaluation.json").read_bytes())
    whole = len(pictures_of(written(workdir)))
    names = [one.thumbnail for one in evaluation.samples[:4]]
    pipe, missing, page, link = (thumbnails / str(name) for name in names)
    for file in (pipe, missing, page, link):
        file.unlink()
    os.mkfifo(pipe)
    page.write_text("<script>alert(1)</script>")
    link.symlink_to("/proc/self/environ")
    found = written(workdir)
    assert len(pictures_of(found)) == whole - 4
    assert found.count("no thumbnail") == 4
    said = capsys.readouterr().err
    assert f"{pipe} is left out: is not a file" in said
    assert f"{page} is left out: is not a JPEG file" in said
    assert f"{link} is left out: is not a file" in said


def test_a_run_of_an_older_version_has_no_evaluation(workdir: Path) -> None:
    file = model_of(workdir) / "evaluation.json"
    file.unlink()
    page = written(workdir)
    assert page.count(f"{file} does not exist: ") == page.count("no validation images") == 5
    assert 'id="accuracy"' in page


def test_a_damaged_file_is_named(workdir: Path) -> None:
    (model_of(workdir) / "evaluation.json").write_text("{}")
    (dataset,) = workdir.glob("volumes/*/datasets/*/dataset.json")
    dataset.write_text("[]")
    page = written(workdir)
    assert "evaluation.json cannot be read: version is missing" in page
    assert_says(page, "dataset.json cannot be read: ", "JSON object")


def test_a_job_that_has_not_trained_yet(workdir: Path) -> None:
    shutil.rmtree(model_of(workdir).parent)
    page = written(workdir)
    assert "No attempt has started: " in page
    assert "no model yet" in page
    assert "Images by class" in page


def test_a_volume_elsewhere(workdir: Path) -> None:
    elsewhere = workdir / "elsewhere"
    (workdir / "volumes" / "shapes-dataset").rename(elsewhere)
    page = written(workdir, "--volume", f"shapes-dataset={elsewhere}")
    assert 'id="accuracy"' in page and "Images by class" in page
    # Without the option, the model's folder is known by its link.
    (model,) = elsewhere.glob("jobs/*/attempts/r2")
    (workdir / "jobs" / "shapes" / "model").symlink_to(model)
    page = written(workdir)
    assert 'id="accuracy"' in page and len(pictures_of(page)) > 12
    assert "dataset.json does not exist." in page


@asynchronous
async def test_a_job_on_a_cluster_has_what_the_status_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report_pages.write(tmp_path, FinishedJob())
    stored: dict[str, Any] = json.loads((tmp_path / "jobs/shapes/job.json").read_text())["job"]
    async with FakeApiServer() as server:
        server.verbs[objects.JOB.group, objects.JOB.plural] |= {"create"}
        config = {
            "contexts": [{"name": "here", "context": {"cluster": "here", "namespace": "vision"}}],
            "clusters": [{"name": "here", "cluster": {"server": server.url}}],
        }
        (tmp_path / "config").write_text(yaml.safe_dump(config))
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
        await server.add({**stored, "status": {}})
        await server.change("ImageNetJob", "shapes", lambda job: job.update(stored))
        file = tmp_path / "shapes.html"
        command = ["report", "shapes", "--context", "here", "--html", str(file)]
        parsed = build_parser().parse_args(command)
        assert await asyncio.to_thread(report.run, parsed) == 0
    page = file.read_text()
    folder = f"jobs/shapes-{job_table.UID[:8]}"
    (curves,) = (text for text in re.findall("<p>(.*?)</p>", page) if "metrics.jsonl" in text)
    assert_says(curves, "curves are not in", "status", "metrics.jsonl has them")
    assert_says(curves, "claim shapes-dataset", f"folder {folder}.")
    assert f"in the folder datasets/{report_pages.KEY}.</p>" in page
    assert page.count("evaluation.json beside the model") == 5
    assert "shapes-r2-worker-1" in page and "57.7 %" in page
