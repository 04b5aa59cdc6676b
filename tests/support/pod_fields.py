"""Write the operator's table of the fields of a pod, from the models of the kubernetes package.

PYTHONPATH=tests python -m support.pod_fields            # make generate
PYTHONPATH=tests python -m support.pod_fields --check    # make verify

The operator does not load these models: that would take 40 MiB.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from kubernetes.client import models

from imagenet_operator.generate.files import write_or_check

ROOT = "V1PodTemplateSpec"
# The operator cannot be imported without this module.
MODULE = Path(__file__).parents[2] / "spec/imagenet_spec/resource/templates/pod_fields.py"
HEAD = '''"""The fields of a pod template, and of every object in it, from kubernetes {version}.

`make generate` writes this module. A field is text unless it says otherwise: [X] is a list, {{X}}
an object with names of the user's, and a capital begins an object of this table.
"""

ROOT = "PodTemplateSpec"

FIELDS = {{
'''

_SCALARS = {"str": "text", "int": "integer", "bool": "boolean", "datetime": "text"}
# The models have quantities as text, and an integer or a text as an object.
_QUANTITIES = re.compile(r"limits|requests|overhead|sizeLimit|divisor")


def rendered() -> str:
    """Return the module's text."""
    lines = [HEAD.format(version=version("kubernetes").partition(".")[0])]
    for model in sorted(_within(ROOT, set()), key=_name):
        types = getattr(models, model).openapi_types
        names = getattr(models, model).attribute_map
        fields = " ".join(sorted(_field(names[key], kind) for key, kind in types.items()))
        if len(f'    "{_name(model)}": "{fields}",') <= 100:
            lines.append(f'    "{_name(model)}": "{fields}",\n')
        else:
            wrapped = textwrap.fill(fields, 88, break_on_hyphens=False, break_long_words=False)
            lines.append(f'    "{_name(model)}": """\n{textwrap.indent(wrapped, " " * 8)}""",\n')
    return "".join([*lines, "}\n"])


def _within(model: str, found: set[str]) -> set[str]:
    """Add the names of a model and of all models in it to a set, and return it."""
    if model not in found:
        found.add(model)
        for kind in getattr(models, model).openapi_types.values():
            for name in re.findall(r"\w+", kind):
                if hasattr(models, name):
                    _within(name, found)
    return found


def _name(model: str) -> str:
    return model.removeprefix("Core").removeprefix("V1")


def _field(name: str, kind: str) -> str:
    """Return a field with its type, as the table writes it."""
    written = _type(name, kind)
    return name if written == "text" else f"{name}:{written}"


def _type(name: str, kind: str) -> str:
    if kind.startswith("List["):
        return f"[{_type(name, kind[5:-1])}]"
    if kind.startswith("Dict["):
        return f"{{{_type(name, kind[10:-1])}}}"
    if kind == "object":
        return "port" if name == "port" else "object"
    if kind == "str" and _QUANTITIES.fullmatch(name):
        return "quantity"
    return _SCALARS.get(kind) or _name(kind)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the module, or with ``--check`` compare it; return the exit code."""
    contents = {MODULE: rendered()}
    return write_or_check(contents, "Kubernetes's schema", __doc__ or "", arguments)


if __name__ == "__main__":
    sys.exit(main())
