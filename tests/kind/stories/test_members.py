"""Members of an attempt that die, hang, or leave at the end."""

from __future__ import annotations

from kind.stories.deployment import Operator
from kind.stories.jobs import AT_CHECKPOINT, VALIDATED, Manifest, played, trained
from kind.stories.namespace import StoryNamespace

EPOCHS = 3
ROLES = ("worker", "server", "scheduler")


def halfway(attempts: int) -> Manifest:
    """A job that is held in training: its first checkpoint is there, and the next is not.

    Args:
        attempts: How many are held, one after another.
    """
    at = {f"worker@{attempt}": AT_CHECKPOINT.format(2) for attempt in range(attempts)}
    # A program that is held ignores SIGTERM.
    return trained(epochs=EPOCHS, hold_at=at, template={"terminationGracePeriodSeconds": 1})


def test_members_killed_in_training_cost_a_restart_each(digits_story: StoryNamespace) -> None:
    story = digits_story
    story.kubectl.apply(halfway(len(ROLES) + 1))
    for attempt, role in enumerate(ROLES):
        story.wait_until_held("worker", attempt=attempt)
        story.kill_program(f"story-r{attempt}-{role}-0")

    # A deleted pod is not charged to the job.
    story.wait_until_held("worker", attempt=len(ROLES))
    story.kill_pod(f"story-r{len(ROLES)}-server-0")

    status = story.wait_for_condition("Succeeded")
    assert (status["restarts"], status["disruptions"]) == (len(ROLES), 1)
    assert status["training"]["attempt"] == len(ROLES) + 1
    written = story.result(status)
    assert "/attempts/r0/checkpoints/epoch-0001" in written["resumedFrom"]
    assert written["epochs"] == EPOCHS
    assert written["validation"]["images"] == VALIDATED


def test_members_killed_after_the_last_checkpoint_cost_no_training(
    digits_story: StoryNamespace,
) -> None:
    """The worker that writes the result is held before it: all epochs are trained, and saved."""
    story = digits_story
    at = {f"worker@{attempt}": r"/result\.json$" for attempt in range(len(ROLES))}
    story.kubectl.apply(trained(epochs=2, hold_at=at))
    for attempt, role in enumerate(ROLES):
        writer = story.wait_until_held("worker", attempt=attempt)
        story.kill_program(writer if role == "worker" else f"story-r{attempt}-{role}-0")

    status = story.wait_for_condition("Succeeded")
    assert (status["restarts"], status["disruptions"]) == (len(ROLES), 0)
    written = story.result(status)
    assert written["resumedFrom"].endswith("/attempts/r0/checkpoints/epoch-0002-batch-00000000")
    assert written["train"]["images"] == 0
    assert written["validation"]["images"] == VALIDATED


def test_servers_that_die_after_the_last_worker_cost_nothing(
    story: StoryNamespace, operator: Operator
) -> None:
    story.kubectl.apply(played(prepared=True, behaviour={"worker": "hold"}))
    story.wait_for_attempt(0)
    operator.stop()  # it must not be faster than what dies
    story.release()
    for index in range(2):
        story.wait_for_phase(f"story-r0-worker-{index}", "Succeeded")

    for role in ("server", "scheduler"):
        story.end_stand_in(f"story-r0-{role}-0")
        story.wait_for_phase(f"story-r0-{role}-0", "Failed")
    operator.start()

    status = story.wait_for_condition("Succeeded")
    assert (status["restarts"], status["disruptions"]) == (0, 0)
    assert status["training"]["attempt"] == 0


def test_a_member_that_exceeds_its_storage_is_charged_and_named(story: StoryNamespace) -> None:
    """The kubelet evicts it, as it evicts pods of a node that lacks memory or disk."""
    job = played(prepared=True, behaviour={"worker@0": "hold"})
    (container,) = job["spec"]["training"]["workers"]["template"]["spec"]["containers"]
    container["resources"] = {"limits": {"ephemeral-storage": "16Mi"}}
    story.kubectl.apply(job)
    story.wait_for_attempt(0)

    story.run_in("story-r0-worker-0", "head -c 64M /dev/zero > /scratch/cache")

    status = story.wait_for_condition("Succeeded")
    assert (status["restarts"], status["disruptions"]) == (1, 0)
    advice = "raise the limit of ephemeral-storage"
    story.kubectl.wait_until(
        "events", lambda events: any(advice in event["message"] for event in events.values())
    )


def test_a_hang_is_caught_by_the_progress_deadline(digits_story: StoryNamespace) -> None:
    story = digits_story
    story.kubectl.apply(halfway(1))
    writer = story.wait_until_held("worker")
    (other,) = {"story-r0-worker-0", "story-r0-worker-1"} - {writer}
    story.kill_program(other, "STOP")
    story.release("worker")

    # Not before: however slow this machine is, what only starts must not be taken for a hang.
    story.change({"runPolicy": {"progressDeadlineSeconds": 20}})
    story.wait_for_condition("Restarting", reason="ProgressDeadlineExceeded")
    story.change({"runPolicy": {"progressDeadlineSeconds": 3600}})

    status = story.wait_for_condition("Succeeded")
    assert (status["restarts"], status["disruptions"]) == (1, 0)
    assert "/attempts/r0/checkpoints/" in story.result(status)["resumedFrom"]
