"""The strategy that docs/add-a-strategy.md adds is one: its code runs, and its pods are built."""

import inspect
import re
from typing import Annotated, Any

import pytest
from annotated_types import Ge, Le

from imagenet_operator.clusters.local import pods
from imagenet_operator.manifests import attempt, names, rendezvous, strategies, worker
from imagenet_operator.manifests.settings import Settings
from imagenet_operator.manifests.strategies import Replicas
from imagenet_spec.resource import ImageNetJob, schema
from imagenet_spec.resource.strategies import StrategyFields
from imagenet_spec.resource.templates.owned_fields import owned_field_conflicts
from imagenet_spec.strategies import STRATEGIES, Strategy
from support.job_table import JOBS
from support.pod_subset import REPOSITORY, outside_subset

PAGE = (REPOSITORY / "docs" / "add-a-strategy.md").read_text()


def block(path: str) -> str:
    """Return the code that the page has for a module."""
    blocks: list[str] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    return next(text for text in blocks if text.startswith(f"# {path}\n"))


def line(path: str) -> dict[str, Any]:
    """Return what the page adds to the table in a module."""
    found: dict[str, Any] = eval("{" + block(path) + "}", {"Strategy": Strategy})
    return found


def defined(path: str, name: str, namespace: dict[str, Any]) -> Any:
    """Return what the page's code for a module defines, with these names at hand."""
    exec(block(path), namespace)
    return namespace[name]


@pytest.fixture
def ring() -> type[StrategyFields]:
    """Return the fields that the page defines."""
    known = {"Annotated": Annotated, "Ge": Ge, "Le": Le, "StrategyFields": StrategyFields}
    fields: type[StrategyFields] = defined("resource/strategies/ring.py", "Ring", known)
    return fields


def test_its_fields_are_a_strategys(ring: type[StrategyFields]) -> None:
    node = schema.of_model(ring)["properties"]["chunks"]
    assert (node["type"], node["default"], node["maximum"]) == ("integer", 4, 64)
    assert ring().devices(gpus=3) == 3
    said = {name for name in inspect.get_annotations(StrategyFields) if hasattr(ring, name)}
    assert {"frozen", "incidental"} <= said


def test_what_tells_its_members_their_places_is_the_operators(
    ring: type[StrategyFields], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(STRATEGIES, "ring", line("strategies.py")["ring"])

    def conflicts(name: str) -> list[str]:
        container = {"name": "main", "env": [{"name": name, "value": "1"}]}
        found = owned_field_conflicts({"spec": {"containers": [container]}}, "template")
        return [problem.path for problem in found]

    assert conflicts("RING_FIRST") == conflicts("RING_INDEX")
    assert conflicts("RING_FIRST") == ["template.spec.containers[0].env[0]"]
    assert conflicts("RING_TIMEOUT") == []
    shell = {"RING_FIRST": "left over", "RING_TIMEOUT": "9", "PATH": "/bin"}
    assert pods.inherited(shell) == {"PATH": "/bin"}


def test_its_members_are_pods_that_both_clusters_run(
    ring: type[StrategyFields], monkeypatch: pytest.MonkeyPatch
) -> None:
    members = defined(
        "manifests/strategies/ring.py",
        "members",
        {
            **{"ImageNetJob": ImageNetJob, "Settings": Settings, "Replicas": Replicas},
            **{"names": names, "rendezvous": rendezvous, "worker": worker},
        },
    )

    class Ring:
        """Replaces the module."""

        def members(self, *given: Any) -> list[Replicas]:
            return list(members(*given))

    monkeypatch.setattr(strategies, "of_job", lambda job: Ring())
    built = attempt.build(JOBS["horovod"], 1)
    made = [item for item in built if item["kind"] == "Pod"]
    assert [pod["metadata"]["name"] for pod in made] == ["digits-r1-worker-0", "digits-r1-worker-1"]
    for index, pod in enumerate(made):
        assert outside_subset(pod) == []
        # No less than the members of the other strategies wait for each other.
        arguments = pod["spec"]["containers"][0]["args"]
        waits = arguments[arguments.index("--join-timeout") + 1]
        assert waits == str(rendezvous.join_timeout(JOBS["horovod"]))
        env = {item["name"]: item.get("value") for item in pod["spec"]["containers"][0]["env"]}
        assert env["RING_FIRST"] == "digits-r1-worker-0.digits-r1"
        assert env["RING_INDEX"] == str(index)
        described = line("strategies.py")["ring"]
        assert {name for name in env if name.startswith("RING")} == set(described.variables)
