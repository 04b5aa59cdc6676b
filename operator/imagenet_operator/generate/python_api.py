"""Generates docs/python.md, the page of the Python client, from its docstrings.

A docstring has Google's sections. Of a class, the attributes, the errors and the example follow its
first paragraphs; each public method is a heading of its own.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

from imagenet_operator.clusters.interface import ClusterError
from imagenet_operator.clusters.kubernetes.login import NoConnection
from imagenet_operator.sdk import blocking, errors, interface
from imagenet_spec.errors import Problem

_HEAD = """# Jobs from Python
<!-- Written by `make generate` from the docstrings in operator/imagenet_operator/sdk. -->

`from imagenetjob import Client` submits, follows and ends jobs, in a script or a notebook. It is in
the wheel of the operator (`pip install dist/*.whl`, [releases](releases.md)), and needs no kubectl.
[Jobs from the command line](jobs.md) has the same as commands, and the Role that a user needs.

`AsyncClient` has the same methods for programs that await; `logs` and `watch` are asynchronous
iterators there, and `AsyncClient.local` is that of a working directory. A job is the model
`ImageNetJob`, whose fields are those of [the resource](reference/README.md) in snake_case:
`job.status.training.images_per_second`. `imagenetjob.models` has the models of the fields, for a
job that is written in Python, as in [the notebook](notebook.md).
"""

_CLASSES: tuple[type, ...] = (
    blocking.Client,
    blocking.LocalClient,
    interface.JobList,
    interface.JobEvent,
    interface.LogLine,
    interface.Removal,
    interface.Progress,
    interface.Transferred,
    interface.Selection,
    errors.NotFound,
    errors.Forbidden,
    NoConnection,
    errors.Rejected,
    Problem,
    errors.Timeout,
    errors.JobEnded,
    ClusterError,
)

_SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Example):$")
_TITLES = {"Args": "Arguments", "Raises": "Errors"}
_ITEM = re.compile(r"^(\*{0,2}[\w.]+): (.*)$")


def render() -> str:
    """Return the page."""
    return "\n".join([_HEAD, *(line for kind in _CLASSES for line in _of_class(kind))]) + "\n"


def _of_class(kind: type) -> Iterator[str]:
    yield f"## {kind.__name__}"
    yield from _of_docstring(inspect.getdoc(kind) or "")
    yield ""
    if kind not in (blocking.Client, blocking.LocalClient):
        return
    for name, member in vars(kind).items():
        if name.startswith("_") or not (callable(member) or isinstance(member, staticmethod)):
            continue
        function = getattr(kind, name)
        yield f"### {kind.__name__}.{name}"
        yield "```python"
        yield f"{name}{_signature(function)}"
        yield "```"
        yield from _of_docstring(inspect.getdoc(function) or "")
        yield ""


def _signature(function: object) -> str:
    """Return the parameters of a method as its source has them, without `self`."""
    assert callable(function)
    signature = inspect.signature(function)
    parameters = [item for name, item in signature.parameters.items() if name != "self"]
    text = str(signature.replace(parameters=parameters))
    # The default of a callback has no text that says anything.
    text = re.sub(r"<function .*? at 0x[0-9a-f]+>", "…", text)
    # Annotations are texts, whose quotes are not in the source.
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)


def _of_docstring(text: str) -> Iterator[str]:
    section = ""
    for line in text.splitlines():
        if found := _SECTION.match(line):
            if section == "Example":
                yield "```"
            section = found[1]
            yield f"{_TITLES.get(section, section)}:"
            yield "```python" if section == "Example" else ""
        elif section == "Example":
            if line.strip():
                yield re.sub(r"^ {4}(>>>|\.\.\.) ?", "", line)
        elif section and (item := _ITEM.match(line.removeprefix("    "))):
            yield f"- `{item[1]}`: {item[2]}"
        elif section and line.strip():
            yield f"  {line.strip()}" if section != "Returns" else line.strip()
        else:
            yield line
    if section == "Example":
        yield "```"
