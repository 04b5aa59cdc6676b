"""The chart is upgraded and uninstalled while jobs run: they do not notice."""

from __future__ import annotations

from kind.stories.jobs import played
from kind.stories.place import Operator, Place
from kind.stories.release import Release


def test_upgrade_and_uninstall_keep_jobs(
    place: Place, operator: Operator, release: Release
) -> None:
    place.kubectl.apply(played(prepared=True, behaviour={"worker": "hold"}))
    place.wait_for_attempt(0)
    before = {pod["metadata"]["uid"] for pod in place.pods()}

    release.upgrade("--set=pods.podDisruptionBudget=true")
    assert {pod["metadata"]["uid"] for pod in place.pods()} == before

    release.uninstall()
    operator.wait_until_gone()
    assert {pod["metadata"]["uid"] for pod in place.pods()} == before
    assert place.job()["status"]["phase"] == "Running"
    place.release()

    release.upgrade()
    status = place.wait_for_condition("Succeeded")
    assert (status["restarts"], status["disruptions"]) == (0, 0)
    assert {pod["metadata"]["uid"] for pod in place.pods(role="worker")} <= before
