"""A cluster from a notebook: the cells of examples/notebook.ipynb in a kernel of Jupyter.

The user has the Role of docs/jobs.md, and no other right. Then every verb of imagenetctl is typed
once with a right and once with a wrong name.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import time
from pathlib import Path

import yaml

from kind.stories.jobs import Manifest
from kind.stories.namespace import StoryNamespace
from kind.stories.user import User
from support import notebook
from support.chart import REPOSITORY

PYTHON = REPOSITORY / ".venv-home" / "bin" / "python"
JOB = notebook.JOB
CELLS = ("data", "client", "submit", "logs", "wait", "download", "predict")
"""Those whose output the story shows."""

VERBS = {
    "list": ("", 0, "--context nothing", 2),
    "status": (JOB, 0, "nothing", 5),
    "events": (JOB, 0, "nothing", 5),
    "logs": (JOB, 0, "nothing", 5),
    "wait": (f"{JOB} --timeout 60", 0, "nothing", 5),
    "report": (JOB, 0, "nothing", 2),
    "submit": ("job.yaml", 0, "job.yaml --set spec.training.epochs=9", 2),
    "upload": ("data/digits.tar --claim raw", 0, "data/digits.tar --claim nothing", 5),
    "download": (f"{JOB} --to again", 0, "nothing --to nowhere", 5),
    "suspend": (JOB, 0, "nothing", 5),
    "resume": (JOB, 0, "nothing", 5),
    "delete": (f"{JOB} --yes", 0, "nothing --yes", 5),
}
"""Each verb → its arguments with a right name and the exit code, the same with a wrong one."""


def test_a_notebook_trains_on_a_cluster(story: StoryNamespace, tmp_path: Path) -> None:
    user = User(story, tmp_path)

    done = run_notebook(user)

    assert f"the namespace {story.name!r}" in notebook.text(done, "client")
    assert "INFO epoch 5 validated on 180 images" in notebook.text(done, "logs")
    assert "<td>Succeeded</td><td>5/5</td>" in notebook.text(done, "wait")
    (picture,) = (output["data"] for output in notebook.cell(done, "plot")["outputs"])
    assert len(picture["image/png"]) > 10_000
    assert "[Prediction(label=0, name='0'" in notebook.text(done, "predict")
    job = story.job(JOB)
    check_sums(job, tmp_path / "model")

    kept = {name: job[name] for name in ("apiVersion", "kind", "spec")}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump({**kept, "metadata": {"name": JOB}}))
    for verb, (right, right_code, wrong, wrong_code) in VERBS.items():
        user.imagenetctl(verb, *right.split(), code=right_code)
        user.imagenetctl(verb, *wrong.split(), code=wrong_code)
    check_sums(job, tmp_path / "again")
    story.kubectl.wait_until("imagenetjobs", lambda jobs: JOB not in jobs)


def run_notebook(user: User) -> notebook.Notebook:
    """Run the notebook with its cell for a cluster; show what it shows."""
    started = time.monotonic()
    variables = {"KUBECONFIG": str(user.kubeconfig), "PYTHONPATH": str(REPOSITORY / "tests")}
    ended = subprocess.run(
        [PYTHON, "-m", "support.notebook", user.folder],
        env={**os.environ, **variables},
        check=False,
    )
    done = notebook.read(user.folder / notebook.NAME)
    for name in CELLS:
        shown = notebook.text(done, name).rstrip()
        print(f"[{name}]\n{notebook.source(done, name)}\n---\n{shown}\n", flush=True)
    print(f"the notebook took {time.monotonic() - started:.0f} s", flush=True)
    assert ended.returncode == 0
    return done


def check_sums(job: Manifest, folder: Path) -> None:
    """See that a downloaded model is what the job's status and result.json say."""
    result = (folder / "result.json").read_bytes()
    assert job["status"]["model"]["sha256"] == sha256(result)
    listed = json.loads(result)["files"]
    assert listed
    for name, file in listed.items():
        content = (folder / name).read_bytes()
        assert (len(content), sha256(content)) == (file["bytes"], file["sha256"]), name
    print(f"the checksums of {len(listed)} files are right", flush=True)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
