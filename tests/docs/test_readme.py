"""The README's commands for a cluster, and the output that it shows.

Whether it works a story finds out (tests/kind/stories/test_first_jobs.py).
"""

from __future__ import annotations

from imagenet_operator.generate import crd
from support import chart
from support.pages import blocks

TYPED, SHOWN = blocks((chart.REPOSITORY / "README.md").read_text(), "## On a cluster")
INSTALL = (chart.REPOSITORY / "docs" / "install.md").read_text()


def test_docs_install_leads_to_a_first_job_by_the_same_commands() -> None:
    assert TYPED[1:] == blocks(INSTALL, "## A first job")[0]


def test_the_columns_are_those_that_kubectl_shows() -> None:
    (version,) = crd.definition()["spec"]["versions"]
    columns = version["additionalPrinterColumns"]
    shown = [column["name"].upper() for column in columns if not column.get("priority")]
    assert SHOWN[0].split() == ["NAME", *shown]
    for line in SHOWN[1:]:
        assert line.startswith("digits-kubernetes ")
