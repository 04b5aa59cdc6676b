"""Errors of the programs that reach a job's condition name the manifest's field beside an option.

A program does not know whether a manifest or a command line gave an option, so it names both:
`raise --max-skipped-fraction (maxSkippedFraction)`.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from imagenet_operator.generate.crd import definition
from imagenet_operator.manifests import dataset, volumes
from imagenet_spec.resource.extra_arguments import OPERATOR_OPTIONS
from support.job_table import JOBS
from support.pod_subset import REPOSITORY

PREPARATION = {
    "--source": "path",
    "--prepared": "source.prepared",
    "--path-in-archive": "pathInArchive",
    "--validation-source": "validation.path",
    "--validation-labels": "validation.labels",
    "--expected-class-names": "expectedClassNames",
    "--class-words": "classWords",
    "--bounding-boxes": "boundingBoxes",
    "--validation-per-class": "validation.split.imagesPerClass",
    "--format": "preprocessing.format",
    "--resize": "preprocessing.resize",
    "--quality": "preprocessing.quality",
    "--shards": "preprocessing.shards",
    "--seed": "preprocessing.seed",
    "--min-images-per-class": "minImagesPerClass",
    "--expected-classes": "expectedClasses",
    "--class-word": "classWords",
    "--max-skipped-fraction": "maxSkippedFraction",
}
"""Options of imagenet-index, and the field of each."""

# The options for the dataset itself are left out: a job always has one of them, and no other.
FIELDS = PREPARATION | {
    option: field for option, field in OPERATOR_OPTIONS.items() if field != "spec.dataset"
}
WITHOUT_FIELDS = ("--data", "--default-validation-per-class", "--cache")
"""Options that the operator chooses itself."""
OF_SOURCES = ("--http-", "--s3-", "--hf-", "--kaggle-", "--synthetic-")
"""Options of sources; only parsers name them in errors."""

PROGRAMS = REPOSITORY / "workloads" / "imagenet_workloads"
PARSERS = (
    *("commands", "train/command_line.py", "data/reader.py"),
    "frameworks/mxnet/description.py",
)
"""Modules whose errors are about a command line alone; `validate` finds what they refuse."""
TOOLS = ("exporting.py", "prediction.py", "telemetry/plot.py")
"""Modules of programs that no pod runs."""
DECLARATIONS = ("add_argument", "add_argument_group", "option", "ArgumentParser")

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")


def texts_of(node: ast.AST) -> Iterator[str]:
    """The texts below a node, but for those of parsers; `…` stands for each value."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return  # a docstring
    if isinstance(node, ast.FunctionDef) and "mistake" in node.name:
        return  # the mistake in the options that a parser reports
    if isinstance(node, ast.Call):
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name in DECLARATIONS:
            return
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(
            str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values
        )
    for child in ast.iter_child_nodes(node):
        if not isinstance(node, ast.JoinedStr):
            yield from texts_of(child)


def missing(text: str) -> list[str]:
    """The options in a text that their field does not follow in brackets."""
    found = list(OPTION.finditer(text))
    if text in {one[0] for one in found}:
        return []  # the name of an option, not a sentence
    return [
        one[0]
        for one in found
        if (field := FIELDS.get(one[0])) is not None
        and not re.match(rf"[^-,;:(]*\([^)]*\b{field.split('.')[-1]}\b", text[one.end() :])
    ]


def modules() -> list[Path]:
    return [
        file
        for file in sorted(PROGRAMS.rglob("*.py"))
        if not any(file.is_relative_to(PROGRAMS / name) for name in (*PARSERS, *TOOLS))
    ]


def test_every_error_names_the_field_beside_the_option() -> None:
    wrong = [
        f"{file.relative_to(PROGRAMS)}: {option}: {text}"
        for file in modules()
        for text in texts_of(ast.parse(file.read_text(encoding="utf-8")))
        for option in missing(text)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("raise --max-skipped-fraction (maxSkippedFraction)", []),
        ("raise --max-skipped-fraction", ["--max-skipped-fraction"]),
        ("lower --shards, or see (preprocessing.shards)", ["--shards"]),
        ("lower --shards (preprocessing.seed)", ["--shards"]),
        ("write --framework MXNet (framework: MXNet), or --gpus", ["--gpus"]),
        ("--gpus: there is no GPU 1", ["--gpus"]),
        ("tar --dereference", []),
        ("--source", []),
    ],
)
def test_a_text_without_the_field_is_found(text: str, options: list[str]) -> None:
    assert missing(text) == options


def test_texts_are_those_that_a_user_may_read() -> None:
    code = '''
def fail(path):
    """Reads --source."""
    raise InputError(f"{path}: lower --shards " "of it", remedy="lower --seed")

def mistake(parsed):
    return "--source is missing"
'''
    assert list(texts_of(ast.parse(code))) == ["…: lower --shards of it", "lower --seed"]


def test_the_fields_of_preparation_are_those_of_the_operator() -> None:
    built = [dataset.index_job(job) for job in JOBS.values() if volumes.dataset_claim(job)]
    programs = [job["spec"]["template"]["spec"]["containers"][0] for job in built]
    options = {text.partition("=")[0] for one in programs for text in one["args"]}
    given = {one for one in options if one.startswith("--") and not one.startswith(OF_SOURCES)}
    assert given <= {*PREPARATION, *WITHOUT_FIELDS}
    fields = set(properties(definition()))
    assert {field.split(".")[-1] for field in FIELDS.values()} <= fields


def properties(schema: Any) -> Iterator[str]:
    """The names of all properties in a schema."""
    for key, value in schema.items() if isinstance(schema, dict) else ():
        if key == "properties":
            yield from value
        yield from properties(value)
    for item in schema if isinstance(schema, list) else ():
        yield from properties(item)
