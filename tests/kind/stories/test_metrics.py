"""A real Prometheus scrapes every role and the operator, and answers all that the chart asks it.

It has the chart's alert rules as well: it takes each of them, and evaluates it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
import yaml

from kind.cluster import Cluster
from kind.conftest import OPERATOR
from kind.prometheus.server import Prometheus
from kind.stories.jobs import CLAIM, Manifest, held, played, trained
from kind.stories.namespace import StoryNamespace
from support import chart
from support.processes import wait_until

DASHBOARD = json.loads((chart.FOLDER / "files" / "dashboard.json").read_text())
RULES = (chart.FOLDER / "files" / "alerts.yaml").read_text()
ALERTS = yaml.safe_load(RULES)["groups"]

PREPARATION = {"index": "/datasets/", "pack": r"\.rec$", "seal": r"/dataset\.json$"}
FIRST = "epoch-0001-batch-00000000"
RESULT = "result.json"
# Of those alone that were scraped twice, as every rate needs it.
ROLES = "count by (role) (rate(process_cpu_seconds_total[1m]))"


@pytest.fixture
def prometheus(story: StoryNamespace) -> Prometheus:
    """A Prometheus that scrapes nothing yet."""
    found = Prometheus(story.kubectl, CLAIM, story.data)
    found.scrape([])
    found.start(RULES)
    return found


def test_prometheus_answers_all_that_the_chart_asks(
    story: StoryNamespace, cluster: Cluster, prometheus: Prometheus
) -> None:
    operator = cluster.kubectl.within(OPERATOR).all("pods")

    def look_at(*roles: str) -> None:
        """Have all pods scraped until rates are known of each of the roles."""

        def are_known() -> bool:
            # Kubernetes may hear of a pod's address later than the pod does its work.
            prometheus.scrape([*operator, *story.kubectl.all("pods")])
            return set(roles) <= {series.get("role", "") for series in prometheus.answer(ROLES)}

        wait_until(are_known, f"{roles} are scraped")

    story.kubectl.apply(seen())
    for role in PREPARATION:
        story.wait_until_held(role)
        look_at(role)
        story.release(role)
    writer = story.wait_until_held("worker", FIRST)
    look_at("worker", "server", "scheduler")
    # The one role that such a job does not have.
    story.kubectl.apply(
        played(
            "ring",
            prepared=True,
            behaviour={"worker": "hold"},
            training={"strategy": {"horovod": {}}},
        )
    )
    look_at("rendezvous")
    story.release(FIRST)
    story.wait_until_held("worker", RESULT)
    wait_for_answers(prometheus, [query for query in QUESTIONS if "imagenet_operator" not in query])
    # A restart, and a request that the API server refuses.
    story.kill_program(writer)
    story.kubectl("create", "quota", "story", "--hard=count/services=0")
    story.kubectl.apply(played("refused", prepared=True))
    wait_for_answers(prometheus, QUESTIONS)
    story.kubectl("delete", "quota", "story")
    story.wait_for_condition("Succeeded")
    alerts = [rule["alert"] for group in ALERTS for rule in group["rules"]]
    assert prometheus.rules() == dict.fromkeys(alerts, "ok")


def wait_for_answers(prometheus: Prometheus, questions: list[str]) -> None:
    """Wait until each question has had an answer."""
    open_ones = list(questions)

    def all_are_answered() -> bool:
        open_ones[:] = [query for query in open_ones if not prometheus.answer(query)]
        return not open_ones

    try:
        wait_until(all_are_answered, "all is answered")
    finally:
        print("not answered:", *open_ones, sep="\n")


def seen() -> Manifest:
    """A job that is held in every phase until it has been scraped there."""
    return trained(
        epochs=2,
        dataset={
            "source": {
                "synthetic": {"classes": 4, "imagesPerClass": 160, "imageShape": [3, 28, 28]}
            },
            "validation": {"split": {"imagesPerClass": 20}},
            "preprocessing": {
                "minImagesPerClass": 20,
                "shards": 2,
                "template": held(PREPARATION),
            },
            "volume": {"claimName": CLAIM},
        },
        hold_at={"worker@0": f"/({FIRST}|{RESULT})$"},
        # Who is held does not hear that it should end.
        template={"terminationGracePeriodSeconds": 1},
    )


def questions() -> Iterator[str]:
    """Every query of the dashboard and of its variables, and what every alert compares."""
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield for_all(re.sub(r"label_values\((.*), \w+\)", r"\1", variable["query"]))
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield for_all(target["expr"])
    for group in ALERTS:
        for rule in group["rules"]:
            compared = re.sub(r"absent\((.*)\)", r"\1", rule["expr"])
            # With `bool` a comparison answers 0 where it would say nothing.
            yield re.sub(r" (==|!=|>|<|>=|<=) ", r" \1 bool ", compared)


def for_all(query: str) -> str:
    """Return a query of the dashboard as Grafana asks it when all is selected."""
    return re.sub(r"\$(namespace|job)\b", ".*", query.replace("$__rate_interval", "1m"))


QUESTIONS = list(questions())
