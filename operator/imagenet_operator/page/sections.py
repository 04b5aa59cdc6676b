"""The sections of a page, each a heading and HTML."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from imagenet_operator.page import html
from imagenet_operator.page.contents import Contents, Part
from imagenet_operator.page.html import Column
from imagenet_operator.page.series import Chart, Curves, of_validation
from imagenet_spec import curves as training_curves
from imagenet_spec import evaluation as evaluations
from imagenet_spec.curves import Epoch
from imagenet_spec.evaluation import Evaluation, ShownImage

_CONFUSIONS = 50
_LOST = ("redone", "restarting", "unreported")
"""Phases of lost time."""


@dataclass(frozen=True)
class Section:
    """A part of the page with a heading; `name` is its anchor."""

    name: str
    heading: str
    content: str


def sections(contents: Contents, curves: Curves) -> list[Section]:
    """Return all sections in their order."""
    return [
        Section("summary", "Summary", _summary(contents)),
        Section("curves", "Curves", _curves(contents, curves)),
        Section("time", "Time and cost", _time(contents)),
        Section("members", "Members and waits", _members(contents)),
        Section("data", "Data", _data(contents)),
        Section("samples", "Sample images", _shown(contents, "samples")),
        Section("mistakes", "Worst mistakes", _shown(contents, "mistakes")),
        Section("labels", "Likeliest wrong labels", _shown(contents, "suspects")),
        Section("classes", "Accuracy by class", _classes(contents)),
        Section("confusions", "Most confused pairs", _confused(contents)),
    ]


def _summary(contents: Contents) -> str:
    job, status, account = contents.job, contents.job.status, contents.account
    training = job.spec.training
    network = training.model.network
    if training.model.num_layers is not None:
        network += f", {training.model.num_layers} layers"
    found = contents.evaluation
    validated = "" if found is None or not found.images else html.share(found.right / found.images)
    if not validated and status.training is not None and status.training.accuracy is not None:
        last = status.training.accuracy.validation
        validated = "" if last is None else html.share(last)
    finished = None if status.training is None else status.training.finished_epochs
    epochs = f"{training.epochs}" if finished is None else finished.replace("/", " of ", 1)
    goodput = account.get("goodput")
    return html.facts(
        (
            ("phase", html.text(status.phase or "")),
            ("reason", html.text(status.reason or "")),
            ("validation, top-1", validated),
            ("network", html.text(network)),
            ("framework", html.text(training.framework)),
            ("strategy", html.text(training.strategy.kind)),
            ("batch size", f"{training.batch_size:,} images"),
            ("workers", f"{training.workers.replicas:,}"),
            ("GPUs of a worker", f"{training.workers.gpus}" if training.workers.gpus else ""),
            ("epochs", html.text(epochs)),
            ("model of epoch", "" if found is None else f"{found.epoch}"),
            ("attempts", f"{account.get('attempts', 0)}"),
            ("time", html.duration(account.get("seconds", 0.0))),
            ("goodput", "" if goodput is None else html.share(goodput)),
            ("accepted", html.time(status.start_time)),
            ("ended", html.time(status.completion_time)),
            ("UID", html.text(job.metadata.uid or "")),
        )
    )


def _curves(contents: Contents, curves: Curves) -> str:
    charts = curves.charts()
    if not charts:
        return _absent(contents, "runs", "No run has reported an epoch or an interval.")
    restarts = html.table(
        "Restarts",
        (
            Column("attempt", True),
            Column(curves.measures["time"], True),
            Column("workers", True),
            Column("finished epochs", True),
            Column("from the checkpoint"),
        ),
        [
            (
                f"{run.start[1].attempt}",
                f"{curves.since_start(run.start[0]):,.2f}",
                f"{run.start[1].workers}",
                f"{training_curves.first_position(run):,.2f}",
                html.name(run.start[1].resumed_from or "none"),
            )
            for run in curves.runs[1:]
        ],
    )
    return (
        axis(curves.measures)
        + "".join(_chart(chart, curves) for chart in charts)
        + (
            "<p>Each dashed line is a restart. Over other axes than time, what a later attempt "
            f"trained again is drawn once.</p>{restarts}"
            if curves.runs[1:]
            else ""
        )
    )


def axis(measures: Mapping[str, str]) -> str:
    """Return the choice of the horizontal axis of all charts, from measures with their labels."""
    choices = "".join(
        f'<option value="{name}">{label}</option>' for name, label in measures.items()
    )
    return (
        '<p class="controls"><label>Horizontal axis: '
        f'<select id="measure">{choices}</select></label></p>'
        "<noscript><p>The charts need JavaScript. The tables have the same values.</p></noscript>"
    )


def figure(chart: Chart, table: str) -> str:
    """Return the place of a chart with its lines' names, and the table of its values."""
    name, unit = chart.name, _unit(chart)
    keys = "".join(
        '<li><label><input type="checkbox" checked> <svg class="key" viewBox="0 0 20 8" '
        f'aria-hidden="true" focusable="false"><line class="{series.colour}" x2="20" y1="4" '
        f'y2="4"/></svg> {html.name(series.label)} <output></output></label></li>'
        for series in chart.series
    )
    return (
        f'<section aria-labelledby="{name}-heading"><h3 id="{name}-heading">'
        f"{html.text(chart.title)}{unit}</h3>"
        f'<ul class="keys">{keys}</ul>'
        f'<div class="chart" id="{name}" tabindex="0" role="group" aria-label="Chart: '
        f'{html.text(chart.title)}. The arrow keys move along it; a table follows."></div>'
        f"{html.details('Values as a table', table)}</section>"
    )


def _unit(chart: Chart) -> str:
    return "" if chart.unit == "share" else f", {chart.unit}"


def _chart(chart: Chart, curves: Curves) -> str:
    columns, digits = _VALUES[chart.name], 1 if chart.name == "speed" else 4
    values = html.table(
        f"{chart.title}{_unit(chart)}, by epoch",
        (
            Column("epoch", True),
            Column("attempt", True),
            Column(curves.unit, True),
            *(Column(heading, True) for heading in columns),
        ),
        [
            (
                f"{epoch.number}",
                f"{epoch.attempt}",
                f"{curves.since_start(epoch.time):,.2f}",
                *(
                    "" if (value := of(epoch)) is None else f"{value:,.{digits}f}"
                    for of in columns.values()
                ),
            )
            for epoch in curves.epochs
        ],
        more="metrics.jsonl has all.",
    )
    return figure(chart, values)


_VALUES: dict[str, dict[str, Callable[[Epoch], float | None]]] = {
    "accuracy": {
        "validation, top-1": lambda one: of_validation(one, "top1"),
        "validation, top-5": lambda one: of_validation(one, "top5"),
        "training, top-1": lambda one: one.top1,
        "training, top-5": lambda one: one.top5,
    },
    "loss": {
        "validation": lambda one: of_validation(one, "loss"),
        "training": lambda one: one.loss,
    },
    "speed": {"images/s": lambda one: one.images_per_second},
}
"""The columns of a chart's table."""


def _time(contents: Contents) -> str:
    account = contents.account
    phases, whole = account.get("phases", {}), account.get("seconds", 0.0)
    rows = [
        (
            html.text(phase),
            f"{seconds:,.1f} s",
            html.share(seconds / whole) if whole else "",
            _bar(
                seconds / whole if whole else 0.0,
                "kept" if phase == "stepping" else "lost" if phase in _LOST else "other",
            ),
        )
        for phase, seconds in phases.items()
    ]
    goodput, images = account.get("goodput"), account.get("images")
    lost = account.get("lostStepSeconds")
    return html.facts(
        (
            ("time", html.duration(whole)),
            ("goodput", "" if goodput is None else html.share(goodput)),
            (
                "checkpoint",
                "none: no step is kept" if account.get("keepsNothing") else "",
            ),
            ("lost steps", "" if lost is None else f"{lost:,.1f} s since the newest checkpoint"),
            ("trained images", "" if images is None else f"{images:,}"),
            ("GPU-hours", f"{account.get('gpuHours', 0.0):,.2f} h"),
            ("cost", f"{account['cost']:,.2f}" if "cost" in account else ""),
            (
                "energy",
                f"{account['kilowattHours']:,.2f} kWh" if "kilowattHours" in account else "",
            ),
        )
    ) + html.table(
        "Seconds by phase",
        (Column("phase"), Column("time", True), Column("share", True), Column("bar")),
        rows,
    )


def _members(contents: Contents) -> str:
    status, parts = contents.job.status, []
    training = status.training
    wait = None if training is None else training.data_wait
    restarted = f"{status.restarts:,} after failures, {status.disruptions:,} after interruptions"
    outcome = None if training is None else training.outcome
    parts.append(
        html.facts(
            (
                ("restarts", restarted),
                (
                    "the last attempt ended",
                    "" if outcome is None else html.message(f"{outcome.reason}: {outcome.message}"),
                ),
                ("wait for data", "" if wait is None else html.share(wait.share)),
                ("reading", "" if wait is None else html.message(wait.message)),
                ("metrics left out", html.message(status.metrics_left_out or "")),
            )
        )
    )
    if status.conditions:
        parts.append(
            html.table(
                "Conditions",
                (
                    Column("condition"),
                    Column("status"),
                    Column("reason"),
                    Column("message"),
                    Column("since"),
                ),
                [
                    (
                        html.text(one.type),
                        html.text(one.status),
                        html.text(one.reason),
                        html.message(one.message),
                        html.time(one.last_transition_time),
                    )
                    for one in status.conditions
                ],
            )
        )
    if training is None:
        return "".join(parts)
    if training.stragglers:
        parts.append(
            html.table(
                "Stragglers",
                (Column("pod"), Column("process", True), Column("times the median", True)),
                [
                    (
                        html.name(one.name),
                        "" if one.slot is None else f"{one.slot}",
                        f"{one.factor:.2f}",
                    )
                    for one in training.stragglers
                ],
            )
        )
    if training.members:
        parts.append(
            html.table(
                f"Members of attempt {training.attempt}",
                (
                    Column("pod"),
                    Column("role"),
                    Column("phase"),
                    Column("exit code", True),
                    Column("reason"),
                    Column("node"),
                    Column("started"),
                    Column("ended"),
                    Column("message"),
                ),
                [
                    (
                        html.name(one.name),
                        html.text(one.role),
                        html.text(one.phase),
                        "" if one.exit_code is None else f"{one.exit_code}",
                        html.text(one.reason or ""),
                        html.name(one.node or ""),
                        html.time(one.started_at),
                        html.time(one.finished_at),
                        # That of a worker that ended well has its figures, for the operator.
                        html.message(one.message or "") if one.exit_code else "",
                    )
                    for one in training.members
                ],
                filtered=len(training.members) > 20,
                more="status.training.members has all.",
            )
        )
    if training.member_groups:
        parts.append(
            html.table(
                "Further members, grouped by role and state",
                (Column("role"), Column("phase"), Column("exit code", True), Column("pods")),
                [
                    (
                        html.text(one.role),
                        html.text(one.phase),
                        "" if one.exit_code is None else f"{one.exit_code}",
                        html.text(one.pods),
                    )
                    for one in training.member_groups
                ],
            )
        )
    return "".join(parts)


def _data(contents: Contents) -> str:
    listed, found = contents.job.status.listed, contents.dataset
    decision = None if listed is None else listed.decision
    facts = {} if found is None else found.facts
    parts = []
    if listed is not None:
        parts.append(
            html.facts(
                (
                    ("training images", f"{listed.images.train:,}"),
                    ("validation images", f"{listed.images.validation:,}"),
                    ("classes", f"{listed.classes:,}"),
                    ("shards", f"{listed.shards:,}"),
                    ("key", html.text(listed.key)),
                    *((key, html.text(value)) for key, value in facts.items()),
                    ("read as", "" if decision is None else html.message(decision.said)),
                    *(
                        ("warning", html.message(warning))
                        for warning in (() if decision is None else decision.warnings or ())
                    ),
                    ("codec chosen", html.message((decision and decision.codec) or "")),
                    ("left out", html.message(listed.left_out)),
                )
            )
        )
    parts.append(_left_out(contents))
    if found is None or not found.classes:
        parts.append(_absent(contents, "dataset", "dataset.json names no class."))
        return "".join(parts)
    splits = list(found.per_class)
    parts.append(
        html.table(
            "Images by class",
            (
                Column("class"),
                Column("in words"),
                *(Column({"train": "training"}.get(one, one), True) for one in splits),
            ),
            [
                (
                    html.name(one),
                    html.name(found.words.get(one, "")),
                    *(f"{found.per_class[split][label]:,}" for split in splits),
                )
                for label, one in enumerate(found.classes)
            ],
            filtered=len(found.classes) > 20,
            more="dataset.json has all.",
        )
    )
    return "".join(parts)


def _left_out(contents: Contents) -> str:
    listed, found = contents.job.status.listed, contents.dataset
    decision = None if listed is None else listed.decision
    rows = [
        (html.text(rule), f"{one.count:,}", html.name(one.example))
        for rule, one in ((decision and decision.left_out) or {}).items()
    ]
    if found is not None:
        rows += [
            (f"class with too few images: {html.name(one)}", f"{count:,}", "")
            for one, count in found.dropped_classes.items()
        ]
        rows += [
            (f"validation images of an unknown class: {html.name(one)}", f"{count:,}", "")
            for one, count in found.unknown_labels.items()
        ]
    rows += [
        (f"files that are no images: {html.name(suffix)}", f"{count:,}", "")
        for suffix, count in ((listed and listed.passed_over) or {}).items()
    ]
    parts = []
    if rows:
        parts.append(
            html.table(
                "What was left out",
                (Column("rule"), Column("number", True), Column("example")),
                rows,
                filtered=len(rows) > 20,
                more="dataset.json has all.",
            )
        )
    if found is not None and found.skipped:
        parts.append(
            html.table(
                "Damaged images; skipped.jsonl has all",
                (Column("file"), Column("class"), Column("damage")),
                [
                    (html.name(one.name), html.name(one.class_name), html.text(one.reason))
                    for one in found.skipped
                ],
            )
        )
    return "".join(parts)


_SHOWN = {
    "samples": (
        "The model predicted no validation image right.",
        "Validation images that the model predicted right, of different classes.",
    ),
    "mistakes": (
        "The model predicted every validation image right.",
        "Validation images whose label the model gives the lowest probability, the worst first.",
    ),
    "suspects": (
        "No label of a validation image is in doubt.",
        "Validation images whose label may be wrong, the likeliest first: the model is as sure of "
        "another class as it is of that class's own images (confident learning, Northcutt, Jiang "
        "and Chuang 2021). Look at each picture before you change a label.",
    ),
}
"""A list of an evaluation → what an empty one says, and what the others are."""


def _shown(contents: Contents, chosen: str) -> str:
    found = contents.evaluation
    if found is None:
        return _absent(contents, "evaluation", "")
    none, what = _SHOWN[chosen]
    images = getattr(found, chosen)
    return (
        html.paragraph(what) + _pictures(contents, found, images)
        if images
        else (html.paragraph(none))
    )


def _pictures(contents: Contents, found: Evaluation, images: Sequence[ShownImage]) -> str:
    shown = []
    for image in images:
        label, prediction = found.labels[image.index], found.predictions[image.index]
        file = image.name or f"validation image {image.index}"
        content = contents.pictures.get(image.thumbnail or "")
        if content is None:
            picture = '<p class="no-picture">no thumbnail</p>'
        else:
            alternative = html.text(
                f"{file}: labelled {_class(found, label)}, predicted {_class(found, prediction)}",
                4 * html.TEXT_MAXIMUM,
            )
            encoded = base64.b64encode(content).decode()
            picture = f'<img src="data:image/jpeg;base64,{encoded}" alt="{alternative}">'
        rows = [
            ("label", label, found.label_probability(image.index)),
            ("prediction", prediction, found.prediction_probability(image.index)),
        ]
        shown.append(
            f"<li><figure>{picture}<figcaption><span>{html.name(file)}</span>"
            + html.facts(
                (what, f"{html.name(_class(found, one))}, {html.share(probability)}")
                for what, one, probability in (rows[1:] if label == prediction else rows)
            )
            + "</figcaption></figure></li>"
        )
    return f'<ol class="pictures">{"".join(shown)}</ol>'


def _classes(contents: Contents) -> str:
    found = contents.evaluation
    if found is None:
        return _absent(contents, "evaluation", "")
    return html.table(
        "Accuracy of each class on its validation images, the lowest first",
        (
            Column("class"),
            Column("in words"),
            Column("images", True),
            Column("right", True),
            Column("accuracy", True),
            Column("bar"),
        ),
        [
            (
                html.name(found.classes[one.label]),
                html.name(found.words[one.label]),
                f"{one.images:,}",
                f"{one.right:,}",
                html.share(one.right / one.images),
                _bar(one.right / one.images, "kept"),
            )
            for one in evaluations.worst_classes(found)
        ],
        filtered=len(found.classes) > 20,
        more="evaluation.json has all.",
    )


def _confused(contents: Contents) -> str:
    found = contents.evaluation
    if found is None:
        return _absent(contents, "evaluation", "")
    pairs = evaluations.confusions(found)[:_CONFUSIONS]
    if not pairs:
        return html.paragraph("The model predicted every validation image right.")
    images = {one.label: one.images for one in evaluations.accuracy_by_class(found)}
    return html.table(
        f"The {len(pairs)} most confused pairs of classes",
        (
            Column("label"),
            Column("prediction"),
            Column("images", True),
            Column("share of the label", True),
        ),
        [
            (
                html.name(_class(found, one.label)),
                html.name(_class(found, one.prediction)),
                f"{one.images:,}",
                html.share(one.images / images[one.label]),
            )
            for one in pairs
        ],
    )


def _class(found: Evaluation, label: int) -> str:
    words = found.words[label]
    return f"{found.classes[label]} ({words})" if words else found.classes[label]


def _absent(contents: Contents, part: Part, otherwise: str) -> str:
    return html.paragraph(html.text(contents.absent.get(part, otherwise), html.MESSAGE_MAXIMUM))


def _bar(share: float, kind: str) -> str:
    return (
        '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true" '
        f'focusable="false"><rect class="{kind}" width="{100 * share:.2f}" height="8"/></svg>'
    )
