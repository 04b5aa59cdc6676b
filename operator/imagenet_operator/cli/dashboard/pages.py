"""The pages of the dashboard: readings in, HTML out.

The page of a job has the sections of `imagenetctl report --html`, with events and log. All names
and messages pass `page.html`, as there.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args
from urllib.parse import quote, urlencode

from imagenet_operator.cli import compare
from imagenet_operator.cli.dashboard.readings import JobView, ListedJob, Reading, Trouble
from imagenet_operator.page import html, render
from imagenet_operator.page.html import Column
from imagenet_operator.page.sections import Section, axis, figure, sections
from imagenet_operator.page.series import (
    MEASURES,
    Chart,
    Curves,
    JobColour,
    Series,
    account_of,
    duration,
)
from imagenet_operator.sdk.interface import in_words
from imagenet_spec.curves import curve
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.table import gpus

COLOURS: tuple[JobColour, ...] = get_args(JobColour)
COMPARED_MAXIMUM = len(COLOURS)

_EVENTS_SHOWN = 200
_LINE_MAXIMUM = 2000
_OF_THE_MODEL = ("samples", "labels", "classes", "confusions")
"""Sections that are empty without an evaluation; the one of mistakes says why."""

_KINDS = {
    "Running": "running",
    "Suspended": "still",
    "Succeeded": "succeeded",
    "Failed": "failed",
    None: "still",
}
"""A phase → its colour; other phases wait for something."""

_ORDER = ("running", "waiting", "still", "failed", "succeeded")
"""Of the list: what runs comes first."""

NO_CHARTS: Mapping[str, Any] = {"columns": [], "measures": {}, "restarts": [], "charts": []}


@dataclass(frozen=True)
class Page:
    """A page without what all pages have.

    The title is text, the content HTML. page.js draws the charts.
    """

    title: str
    content: str
    charts: Mapping[str, Any] = field(default_factory=lambda: NO_CHARTS)
    has_list: bool = False
    is_live: bool = True


def address(name: str) -> str:
    """Return the address of a job's page."""
    return f"/jobs/{quote(name, safe='', errors='replace')}"


def listed(
    reading: Reading[tuple[ListedJob, ...]], options: str, chosen: Collection[str] = ()
) -> Page:
    """Return the list of all jobs; those that run come first, then the newest."""
    jobs = sorted(reading.value or (), key=lambda one: one.job.metadata.name)
    jobs.sort(key=_created, reverse=True)
    jobs.sort(key=lambda one: _ORDER.index(_kind(one.job)))
    counts = Counter(one.job.status.phase for one in jobs)
    summary = "".join(f"<li>{_badge(phase)} {number:,}</li>" for phase, number in counts.items())
    head = f"<h1>Jobs</h1>{_trouble(reading.trouble)}"
    if not jobs:
        empty = (
            '<div class="empty"><p>There are no jobs yet. The page shows a job as soon as there '
            f"is one, as <code>imagenetctl list{html.text(options)}</code> does.</p></div>"
        )
        return Page("Jobs", head + (empty if reading.value is not None else ""), has_list=True)
    rows = "\n".join(_row(one, one.job.metadata.name in chosen) for one in jobs)
    headings = "".join(
        f'<th scope="col" role="columnheader"{" class=number" if is_number else ""}>{heading}</th>'
        for heading, is_number in _HEADINGS
    )
    return Page(
        "Jobs",
        f'{head}<ul class="counts" aria-label="Jobs by phase">{summary}</ul>'
        '<form action="/compare" method="get"><div class="filter toolbar">'
        '<label>Filter <input type="search" autocomplete="off" aria-label="Filter the jobs">'
        f"</label> <output>{len(jobs):,} rows</output>"
        '<button type="submit">Compare the chosen jobs</button></div>'
        '<div class="joblist"><table role="table"><caption>Jobs, with a box for each that is to '
        f'be compared</caption><thead role="rowgroup"><tr role="row">{headings}</tr></thead>'
        f'<tbody role="rowgroup">\n{rows}\n</tbody></table></div></form>',
        has_list=True,
    )


_HEADINGS = (
    ("compare", False),
    ("job", False),
    ("phase", False),
    ("epochs", False),
    ("images/s", True),
    ("top-1", True),
    ("remaining", True),
    ("restarts", True),
    ("GPUs", True),
    ("created, UTC", True),
)


def _row(one: ListedJob, is_chosen: bool) -> str:
    job, name = one.job, one.job.metadata.name
    status = job.status
    why = "" if status.phase in ("Running", "Succeeded", status.reason) else status.reason or ""
    if one.standstill and status.phase != "Suspended":
        why = "no process runs it"
    figures = _figures(job)
    created = job.metadata.creation_timestamp
    cells = (
        ("images/s", figures["images/s"]),
        ("top-1", figures["top-1"]),
        ("remaining", figures["remaining"]),
        ("restarts", figures["restarts"]),
        ("GPUs", f"{gpus(job) or ''}"),
        (
            "created",
            ""
            if created is None
            else f'<time datetime="{created.isoformat()}">{created:%Y-%m-%d %H:%M}</time>',
        ),
    )
    key = hashlib.sha256(name.encode(errors="replace")).hexdigest()[:12]
    return (
        f'<tr role="row" id="job-{key}"><td role="cell" class="choice"><label><input '
        f'type="checkbox" name="job" value="{html.text(name)}"{" checked" if is_chosen else ""} '
        f'aria-label="Compare {html.text(name)}"></label></td>'
        f'<th scope="row" role="rowheader"><a href="{html.text(address(name), 4000)}">'
        f'{html.name(name)}</a><span class="quiet">{html.text(_network(job))}</span></th>'
        f'<td role="cell" class="state">{_badge(status.phase)}'
        f'<span class="quiet">{html.text(why, 80)}</span></td>'
        f'<td role="cell" class="epochs">{_progress(job)}</td>'
        + "".join(
            f'<td role="cell" class="number" data-label="{label}">{cell}</td>'
            for label, cell in cells
        )
        + "</tr>"
    )


def of_job(reading: Reading[JobView], name: str) -> Page:
    """Return the page of a job that was read, or that could not be."""
    view = reading.value
    back = '<p class="back"><a href="/">All jobs</a></p>'
    if view is None:
        head = f"{back}<h1>{html.name(name)}</h1>{_trouble(reading.trouble)}"
        return Page(name, head)
    job, contents = view.contents.job, view.contents
    curves = Curves(contents.runs, account_of(job))
    parts = sections(contents, curves)
    if contents.evaluation is None:
        parts = [part for part in parts if part.name not in _OF_THE_MODEL]
    summary, drawn, *rest = parts
    # What changes comes first.
    log, happened = Section("log", "Log", _log(view)), Section("events", "Events", _events(view))
    parts = [drawn, log, happened, summary, *rest]
    still = view.standstill[:1].upper() + view.standstill[1:]
    figures = _figures(job)
    tiles = [("epochs", _progress(job)), *figures.items()]
    goodput = contents.account.get("goodput")
    if goodput is not None and not contents.account.get("keepsNothing"):
        tiles.append(("goodput", html.share(goodput)))
    said = in_words(job)
    why = "" if job.status.phase in ("Running", "Succeeded") else said.partition(": ")[2] or said
    return Page(
        f"{name}: {job.status.phase or 'new'}",
        f'{back}<div class="head"><h1>{html.name(name)}</h1>{_badge(job.status.phase)}</div>'
        f'<p class="place">{html.text(_network(job) + _size(job))}</p>{_trouble(reading.trouble)}'
        + (f'<p class="trouble">{html.message(why)}</p>' if why else "")
        + (f'<p class="trouble">{html.message(still)}</p>' if still else "")
        + '<dl class="tiles">'
        + "".join(
            f"<div><dt>{html.text(key)}</dt><dd>{value}</dd></div>" for key, value in tiles if value
        )
        + f'</dl><nav aria-label="Contents"><ol>{render.links(parts)}</ol></nav>'
        + render.written(parts),
        curves.document(),
    )


def _events(view: JobView) -> str:
    if "events" in view.absent:
        return html.paragraph(html.message(view.absent["events"]))
    if not view.events:
        return html.paragraph("There are no events.")
    return html.table(
        "Events, the newest first",
        (
            Column("time"),
            Column("type"),
            Column("reason"),
            Column("message"),
            Column("times", True),
        ),
        [
            (
                html.time(event.time),
                html.text(event.type),
                html.text(event.reason),
                html.message(event.message),
                f"{event.count:,}" if event.count > 1 else "",
            )
            for event in list(reversed(view.events))[:_EVENTS_SHOWN]
        ],
    )


def _log(view: JobView) -> str:
    if not view.log:
        return html.paragraph(html.message(view.absent.get("log", "The log is empty.")))
    pods = ", ".join(dict.fromkeys(line.pod for line in view.log))
    lines = "\n".join(html.text(line.text, _LINE_MAXIMUM) for line in view.log)
    return (
        f"<p>The last {len(view.log):,} lines of {html.name(pods)}.</p>"
        f'<pre class="log" tabindex="0" role="region" aria-label="The end of the log">{lines}</pre>'
    )


def compared(names: Sequence[str], readings: Sequence[Reading[JobView] | None]) -> Page:
    """Return the page that lays the curves of jobs over each other; their names differ."""
    query = urlencode([("job", name) for name in names])
    back = f'<p class="back"><a href="/?{html.text(query, 4000)}">Choose other jobs</a></p>'
    head = f"{back}<h1>Comparison</h1>"
    if len(names) < 2 or len(names) > COMPARED_MAXIMUM:
        said = f"Choose 2 to {COMPARED_MAXIMUM} jobs in the list; {len(names)} are chosen."
        return Page("Comparison", f'{head}<div class="empty"><p>{said}</p></div>')
    found: list[tuple[str, JobView]] = []
    notes = []
    for name, reading in zip(names, readings, strict=True):
        if reading is None:
            notes.append(f"{html.name(name)}: there is no such job.")
            continue
        if reading.trouble is not None:
            notes.append(f"{html.name(name)}: {html.message(reading.trouble.message)}")
        if reading.value is not None:
            found.append((name, reading.value))
    head += "".join(f'<p class="trouble">{note}</p>' for note in notes)
    if len(found) < 2:
        return Page("Comparison", head)
    charts, measures = _overlaid(found)
    content = f'{head}<div class="figures">{_table(found)}</div>'
    if charts:
        order = {name: measures[name] for name in ("epochs", *MEASURES) if name in measures}
        content += f'<section aria-labelledby="curves"><h2 id="curves">Curves</h2>{axis(order)}'
        content += "".join(figure(chart, _values(chart)) for chart in charts) + "</section>"
    else:
        content += html.paragraph(
            "No curves: the status of a job has its present figures and no earlier epochs."
        )
    document = {
        "columns": list(MEASURES),
        "measures": measures,
        "restarts": [],
        "charts": [chart.document() for chart in charts],
    }
    return Page("Comparison", content, document)


_OVERLAID = (
    ("accuracy", "Accuracy, validation top-1", "validation", "share"),
    ("loss", "Loss of training", "training", "nats"),
    ("speed", "Speed", "training", "images/s"),
)
"""Of each chart: its name, its title, which line of a job it has, and its unit."""


def _overlaid(found: Sequence[tuple[str, JobView]]) -> tuple[list[Chart], dict[str, str]]:
    longest = max(duration(view.contents.runs) for _, view in found)
    jobs = [
        (name, Curves(view.contents.runs, account_of(view.contents.job), longest))
        for name, view in found
    ]
    measures: dict[str, str] = {}
    lines: dict[str, list[Series]] = {}
    for (name, curves), colour in zip(jobs, COLOURS, strict=False):
        measures |= curves.measures
        for chart in curves.charts():
            line = {title: wanted for title, _, wanted, _ in _OVERLAID}[chart.name]
            points = next((one.points for one in chart.series if one.colour == line), ())
            if points:
                lines.setdefault(chart.name, []).append(Series(name, points, colour))
    charts = [
        Chart(key, title, unit, lines[key]) for key, title, _, unit in _OVERLAID if key in lines
    ]
    return charts, measures


def _values(chart: Chart) -> str:
    by_job = [
        {point.place[1]: point.value for point in series.points if point.is_kept}
        for series in chart.series
    ]
    epochs = sorted({epoch for values in by_job for epoch in values if epoch is not None})
    digits = 1 if chart.name == "speed" else 4
    return html.table(
        f"{chart.title}, by epoch",
        (Column("epoch", True), *(Column(series.label, True) for series in chart.series)),
        [
            (
                f"{epoch:g}",
                *(f"{one[epoch]:,.{digits}f}" if epoch in one else "" for one in by_job),
            )
            for epoch in epochs
        ],
    )


def _table(found: Sequence[tuple[str, JobView]]) -> str:
    jobs = [view.contents.job for _, view in found]
    curves = [
        curve(view.contents.runs, account_of(view.contents.job)) if view.contents.runs else None
        for _, view in found
    ]
    document = compare.document(jobs, curves)
    keys = [
        f'<svg class="key" viewBox="0 0 20 8" aria-hidden="true" focusable="false"><line '
        f'class="{colour}" x2="20" y1="4" y2="4"/></svg> '
        f'<a href="{html.text(address(name), 4000)}">{html.name(name)}</a>'
        for (name, _), colour in zip(found, COLOURS, strict=False)
    ]
    rows = [
        (
            key,
            _badge(one["phase"]),
            f"{_number(one['epochs'], 'd')} of {one['plannedEpochs']}",
            _number(one["images"], ",d"),
            "" if one["seconds"] is None else html.duration(one["seconds"]),
            _number(one["gpuHours"], ",.2f"),
            _number(one["top1"], ".4f"),
            _number(one["bestTop1"], ".4f"),
            _number(one["loss"], ".4f"),
            _number(one["validationLoss"], ".4f"),
            _number(one["imagesPerSecond"], ",.0f"),
            f"{one['restarts'] + one['disruptions']}",
        )
        for key, one in zip(keys, document["jobs"], strict=True)
    ]
    columns = (
        Column("job"),
        Column("phase"),
        *(Column(heading, True) for heading in ("epochs", "images", "time", "GPU-hours")),
        *(Column(heading, True) for heading in ("top-1", "best", "loss", "val. loss")),
        *(Column(heading, True) for heading in ("images/s", "restarts")),
    )
    parts = [html.table("Present figures", columns, rows)]
    if (reached := document["reached"]) is not None:
        costs = [
            (
                key,
                _number(one["epoch"], "d") if one["epoch"] is not None else "not reached",
                _number(one["images"], ",d"),
                "" if one["seconds"] is None else html.duration(one["seconds"]),
                _number(one["gpuHours"], ",.2f"),
            )
            for key, one in zip(keys, reached["jobs"], strict=True)
        ]
        parts.append(
            html.table(
                f"Costs of top-1 {reached['top1']:.4f}, the highest that all reached",
                (
                    Column("job"),
                    *(Column(one, True) for one in ("epoch", "images", "time", "GPU-hours")),
                ),
                costs,
            )
        )
    return "".join(parts)


def missing(name: str, place: str) -> Page:
    """Return the page in place of a job that does not exist."""
    return Page(
        "No such job",
        f'<p class="back"><a href="/">All jobs</a></p><h1>No such job</h1><div class="empty">'
        f"<p>There is no job {html.name(name)} in {html.text(place)}. It may have been deleted; "
        'the <a href="/">list</a> has all jobs.</p></div>',
    )


def refused(heading: str, sentence: str) -> Page:
    """Return the page for a request that is not admitted; `sentence` says what to do."""
    return Page(
        heading,
        f'<h1>{html.text(heading)}</h1><div class="empty"><p>{html.text(sentence)}</p></div>',
        is_live=False,
    )


def _trouble(trouble: Trouble | None) -> str:
    if trouble is None:
        return ""
    what = "The job is gone" if trouble.is_gone else "No new values"
    return (
        f'<div class="trouble" data-trouble><p><strong>{what} since {html.time(trouble.since)}.'
        f"</strong> The page shows what was read before. {html.message(trouble.message)}</p></div>"
    )


def _badge(phase: str | None) -> str:
    kind = _KINDS.get(phase, "waiting")
    return f'<span class="phase {kind}">{html.text(phase or "new")}</span>'


def _network(job: ImageNetJob) -> str:
    training = job.spec.training
    layers = "" if training.model.num_layers is None else f"-{training.model.num_layers}"
    return f"{training.model.network}{layers} · {training.framework}"


def _size(job: ImageNetJob) -> str:
    workers = job.spec.training.workers
    size = f" · {workers.replicas:,} worker{'' if workers.replicas == 1 else 's'}"
    if workers.gpus:
        size += f" with {workers.gpus} GPU{'' if workers.gpus == 1 else 's'}"
    return size


def _kind(job: ImageNetJob) -> str:
    return _KINDS.get(job.status.phase, "waiting")


def _figures(job: ImageNetJob) -> dict[str, str]:
    training, status = job.status.training, job.status
    accuracy = None if training is None else training.accuracy
    top1 = None if accuracy is None else accuracy.validation
    speed = None if training is None else training.images_per_second
    loss = None if training is None else training.loss
    eta = training.eta if training is not None and status.phase == "Running" else None
    return {
        "images/s": _number(speed, ",.0f"),
        "top-1": "" if top1 is None else html.share(top1),
        "loss": _number(loss, ".4g"),
        "remaining": html.text(eta or ""),
        "restarts": f"{status.restarts + status.disruptions:,}",
    }


def _progress(job: ImageNetJob) -> str:
    training = job.status.training
    finished = "" if training is None else training.finished_epochs or ""
    done, _, planned = finished.partition("/")
    if not done.isdecimal() or not planned.isdecimal() or not int(planned):
        done, planned = "0", f"{job.spec.training.epochs}"
    share = min(1.0, int(done) / max(1, int(planned)))
    return (
        f'<span class="done">{int(done):,} of {int(planned):,}</span>'
        '<svg class="progress" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true" '
        f'focusable="false"><rect class="{_kind(job)}" width="{100 * share:.1f}" height="4"/></svg>'
    )


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _created(one: ListedJob) -> float:
    created = one.job.metadata.creation_timestamp
    return 0.0 if created is None else created.timestamp()
