"""Data in and a model out with the Role of docs/jobs.md, without kubectl.

The namespace enforces the restricted Pod Security Standard, and the operator the profile `strict`.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

from kind.stories.namespace import EXAMPLES, StoryNamespace, make_digits
from kind.stories.release import Release
from kind.stories.user import User
from support.processes import wait_until

JOB = "digits-kubernetes"
DOORS = "app.kubernetes.io/name=imagenet-door"
VERBS = ("get", "create")


def test_a_user_sends_digits_trains_them_and_brings_the_model_home(
    story: StoryNamespace, release: Release, tmp_path: Path
) -> None:
    release.upgrade("--set=templates.profile=strict")
    user = User(story, tmp_path)
    make_digits(tmp_path / "digits.tar")
    shutil.copy(EXAMPLES / f"{JOB}.yaml", tmp_path / "job.yaml")

    user.imagenetctl("upload", "digits.tar", "--claim", "raw", "--size", "1Gi")
    claim = story.kubectl.get("persistentvolumeclaims", "raw")
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert "1 were there" in user.imagenetctl("upload", "digits.tar", "--claim", "raw")
    no_door_is_left(story)

    user.imagenetctl("submit", "job.yaml")
    user.imagenetctl("wait", JOB, "--timeout", "800")
    status = story.job(JOB)["status"]
    user.imagenetctl("download", JOB, "--to", "model")
    user.imagenetctl("download", JOB, "--to", "last", "--checkpoint", "last")
    no_door_is_left(story)

    # The worker has said the sum of result.json, before anything was downloaded.
    result = (tmp_path / "model" / "result.json").read_bytes()
    assert hashlib.sha256(result).hexdigest() == status["model"]["sha256"]
    listed = json.loads(result)["files"]
    assert set(json.loads(result)["model"].values()) <= set(listed)
    for folder, document in (("model", listed), ("last", checkpoint(tmp_path / "last"))):
        for name, file in document.items():
            content = (tmp_path / folder / name).read_bytes()
            assert hashlib.sha256(content).hexdigest() == file["sha256"], name
    user.imagenetctl("download", JOB, "--to", "none", "--checkpoint", "99", code=5)
    user.imagenetctl("download", "other", "--to", "none", code=5)

    without_portforward(story, user)
    assert "pods/portforward" in user.imagenetctl("download", JOB, "--to", "again", code=3)
    no_door_is_left(story)


def no_door_is_left(story: StoryNamespace) -> None:
    """See that the pods that served claims are deleted; their programs have a grace period."""
    story.kubectl.wait_until("pods", lambda left: not left, selector=DOORS)


def checkpoint(folder: Path) -> dict[str, dict[str, str]]:
    """Return the files that a checkpoint's manifest lists."""
    files: dict[str, dict[str, str]] = json.loads((folder / "manifest.json").read_text())["files"]
    return files


def without_portforward(story: StoryNamespace, user: User) -> None:
    """Take a right away, and wait until the API server knows."""
    role = json.loads(story.kubectl("get", "role", user.role, "--output=json"))
    role["rules"] = [rule for rule in role["rules"] if "pods/portforward" not in rule["resources"]]
    story.kubectl.apply(role)
    wait_until(
        lambda: not any(user.may(f"{verb} pods --subresource=portforward") for verb in VERBS),
        "the user may not forward ports",
    )
