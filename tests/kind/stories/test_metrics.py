"""A real Prometheus scrapes every role and the operator, and answers every query of the chart.

It loads the chart's alert rules and evaluates each of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial

import pytest
import yaml

from kind.cluster import Cluster
from kind.conftest import OPERATOR
from kind.kubectl import SECONDS, Kubectl
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
# A rate needs two scrapes.
ROLES = "count by (role) (rate(process_cpu_seconds_total[1m]))"


@pytest.fixture
def prometheus(story: StoryNamespace) -> Prometheus:
    """A Prometheus without targets."""
    found = Prometheus(story.kubectl, CLAIM, story.data)
    found.scrape([])
    found.start(RULES)
    return found


def test_prometheus_answers_all_that_the_chart_asks(
    story: StoryNamespace, cluster: Cluster, prometheus: Prometheus
) -> None:
    scrape = partial(scrape_roles, prometheus, cluster.kubectl.within(OPERATOR), story.kubectl)
    story.kubectl.apply(seen())
    for role in PREPARATION:
        story.wait_until_held(role)
        scrape(role)
        story.release(role)
    writer = story.wait_until_held("worker", FIRST)
    scrape("worker", "server", "scheduler")
    # The one role that the first job does not have.
    horovod: Manifest = {"strategy": {"horovod": {}}}
    ring = played("ring", prepared=True, behaviour={"worker": "hold"}, training=horovod)
    story.kubectl.apply(ring)
    scrape("rendezvous")
    story.release(FIRST)
    story.wait_until_held("worker", RESULT)
    wait_for_answers(prometheus, [query for query in QUESTIONS if "imagenet_operator" not in query])
    # A restart, and a request that the API server refuses.
    story.kill_program(writer)
    story.set_quota("story", "count/services=0")
    story.kubectl.apply(played("refused", prepared=True))
    wait_for_answers(prometheus, QUESTIONS)
    story.kubectl("delete", "quota", "story")
    story.wait_for_condition("Succeeded")
    alerts = [rule["alert"] for group in ALERTS for rule in group["rules"]]
    assert prometheus.rules() == dict.fromkeys(alerts, "ok")


def scrape_roles(
    prometheus: Prometheus, operator: Kubectl, namespace: Kubectl, *roles: str
) -> None:
    """Have Prometheus scrape all pods until it knows a rate of each role."""

    def rates_are_known() -> bool:
        # A pod may start its work before its address is in its status.
        prometheus.scrape([*operator.all("pods"), *namespace.all("pods")])
        return set(roles) <= {series.get("role", "") for series in prometheus.answer(ROLES)}

    wait_until(rates_are_known, f"{roles} are scraped", SECONDS)


def wait_for_answers(prometheus: Prometheus, questions: list[str]) -> None:
    """Wait until each query has had an answer."""
    unanswered = list(questions)

    def all_are_answered() -> bool:
        unanswered[:] = [query for query in unanswered if not prometheus.answer(query)]
        return not unanswered

    try:
        wait_until(all_are_answered, "every query has an answer", SECONDS)
    finally:
        print("not answered:", *unanswered, sep="\n")


def seen() -> Manifest:
    """A job that is held in every phase, for a scrape.

    While the checkpoint of the first epoch is held, the second one is trained, and waits to be
    saved. So steps that come between two scrapes are those of the third one.
    """
    return trained(
        epochs=3,
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
        # A program that is held ignores SIGTERM.
        template={"terminationGracePeriodSeconds": 1},
    )


def questions() -> Iterator[str]:
    """Every query of the dashboard and of its variables, and every alert as a query."""
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield for_all(re.sub(r"label_values\((.*), \w+\)", r"\1", variable["query"]))
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield for_all(target["expr"])
    for group in ALERTS:
        for rule in group["rules"]:
            compared = re.sub(r"absent\((.*)\)", r"\1", rule["expr"])
            # A job of the story waits for one reason; its metric is that of every other.
            compared = re.sub(r'\{reason="\w+"\}', "", compared)
            # With `bool`, a comparison that is false answers 0 instead of nothing.
            yield re.sub(r" (==|!=|>|<|>=|<=) ", r" \1 bool ", compared)


def for_all(query: str) -> str:
    """Return a query of the dashboard as Grafana asks it when all is selected."""
    return re.sub(r"\$(namespace|job)\b", ".*", query.replace("$__rate_interval", "1m"))


# No worker of this story keeps the others waiting, and none has a GPU, so none has these series.
ABSENT = re.compile("straggler_ratio|gpu_utilization_ratio")
QUESTIONS = [query for query in questions() if not ABSENT.search(query)]
