"""Write the tables of docs/telemetry.md from the metrics of the pods and of the operator.

    PYTHONPATH=tests python -m support.telemetry_page           # make generate
    PYTHONPATH=tests python -m support.telemetry_page --check   # make verify

A table is between two comments of the page; the text around it is written in the page itself.

Exit codes: 0 written, or nothing differs; 1 the page differs from what it is made from.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence

from prometheus_client import Counter
from prometheus_client.metrics import MetricWrapperBase

from imagenet_operator.clusters.kubernetes import metrics as of_operator
from imagenet_operator.generate.files import write_or_check
from imagenet_spec import metrics
from imagenet_spec.resource.figures import FIGURES, Figure
from support.pod_subset import REPOSITORY

PAGE = REPOSITORY / "docs" / "telemetry.md"
_SECTION = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def rendered(page: str) -> str:
    """Return the page with its tables as they are to be.

    Raises:
        KeyError: The page has a section that no table is made for.
    """
    tables = {
        "training": _workload(metrics.TRAINING + metrics.CHECKPOINTS + metrics.MEASURED),
        "preprocessing": _workload(metrics.PREPARATION),
        "rendezvous": _workload(metrics.RENDEZVOUS),
        "figures": _table(("Status field", "From", "How", "Column"), map(_figure, FIGURES)),
        "operator": _table(("Name", "Type", "Labels", "Meaning"), operator_metrics()),
    }
    return _SECTION.sub(lambda found: f"{found[1]}{tables[found[2]]}{found[3]}", page)


def operator_metrics() -> list[tuple[str, str, str, str]]:
    """Return name, type, labels and meaning of each metric of the operator."""
    found = []
    for metric in vars(of_operator).values():
        if isinstance(metric, MetricWrapperBase):
            (family,) = metric.describe()
            name = f"{family.name}_total" if isinstance(metric, Counter) else family.name
            # The public interface has no labels of a metric that has no value yet.
            labels = ", ".join(f"`{label}`" for label in metric._labelnames)
            found.append((f"`{name}`", family.type, labels, family.documentation))
    return found


def _workload(found: Iterable[metrics.Metric]) -> str:
    rows = [(f"`{item.name}`", item.kind.value, item.unit, item.help) for item in found]
    return _table(("Name", "Type", "Unit", "Meaning"), rows)


def _figure(item: Figure) -> tuple[str, str, str, str]:
    source = f"`{item.metric}`" + (f", `{item.per}`" if item.per else "") if item.metric else ""
    column = "" if item.column is None else item.column.name
    return f"`status.training.{item.path}`", source, item.combine.value, column


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    text = "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
    return text.replace("| --- | --- | --- | --- |", "|---|---|---|---|")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or with ``--check`` compare it; return the exit code."""
    contents = {PAGE: rendered(PAGE.read_text(encoding="utf-8"))}
    return write_or_check(contents, "the metrics", __doc__ or "", arguments)


if __name__ == "__main__":
    sys.exit(main())
