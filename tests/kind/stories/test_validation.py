"""What is refused: by the API server if possible, else by a condition with the reason."""

from __future__ import annotations

import pytest

from kind.kubectl import KubectlError
from kind.stories.jobs import played
from kind.stories.namespace import StoryNamespace, condition


def test_an_invalid_job_is_refused_by_the_api_server(story: StoryNamespace) -> None:
    job = played()
    job["spec"]["training"]["batchSize"] = 7

    with pytest.raises(KubectlError) as refused:
        story.kubectl.apply(job)

    assert "spec.training.batchSize" in str(refused.value)
    assert "must be divisible by the number of devices" in str(refused.value)


def test_an_unknown_field_is_refused_by_the_api_server(story: StoryNamespace) -> None:
    job = played()
    job["spec"]["training"]["batch_size"] = 8

    with pytest.raises(KubectlError) as refused:
        story.kubectl.apply(job)

    assert 'unknown field "batch_size"' in str(refused.value)


def test_what_is_trained_does_not_change_after_the_start(story: StoryNamespace) -> None:
    story.kubectl.apply(played(behaviour={"index": "hold"}))
    story.wait_for_running_pods("index", 1)
    changed = played(behaviour={"index": "hold"})
    changed["spec"]["training"]["epochs"] = 2

    with pytest.raises(KubectlError) as refused:
        story.kubectl.apply(changed)

    assert "epochs" in str(refused.value)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ({"hostNetwork": True}, "spec.hostNetwork: cannot be overridden"),
        ({"restartPolicy": "Always"}, "spec.restartPolicy: cannot be overridden"),
        (
            {"containers": [{"name": "main", "env": [{"name": "N", "value": 1}]}]},
            'spec.containers[0].env[0].value: must be text, not 1; write "1" in quotes',
        ),
    ],
    ids=["security", "owned", "type"],
)
def test_an_invalid_template_fails_the_job_at_once(
    story: StoryNamespace, template: dict[str, object], message: str
) -> None:
    story.kubectl.apply(played(template=template))

    status = story.wait_for_condition("Failed")

    failed = condition(status, "Failed")
    assert failed is not None
    assert message in failed["message"]
    assert story.children() == set()
    # A person who describes the job reads it too.
    story.kubectl.wait_until(
        "events", lambda events: any(message in event["message"] for event in events.values())
    )
