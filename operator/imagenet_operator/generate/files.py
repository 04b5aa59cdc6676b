"""Write the files that are generated from the models: CRD, admission policy, docs/reference.

Also docs/python.md, from the docstrings of the Python client, and the manifests of
`imagenetctl demo`, which are copies of examples.

    python -m imagenet_operator.generate.files         # make generate
    python -m imagenet_operator.generate.files --check   # make verify

Not a command of `imagenetctl`: it runs in a checkout of this repository, from its root.

Exit codes: 0 written, or no difference; 1 a file differs from its models.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from imagenet_operator.cli import demo
from imagenet_operator.cli.files import Dumper
from imagenet_operator.generate import admission, crd, python_api, reference
from imagenet_spec.resource import Manifest

CRD = Path("charts/imagenet-operator/files/imagenetjobs.yaml")
POLICY = Path("charts/imagenet-operator/files/admission-policy.yaml")
REFERENCE = Path("docs/reference")
PYTHON = Path("docs/python.md")
DEMO, EXAMPLES = Path("operator/imagenet_operator/cli"), Path("examples")

_HEADER = "# Written by `make generate` from spec/imagenet_spec/resource; change it there.\n"


def contents() -> dict[Path, str]:
    """Return every generated file, by its path from the repository's root."""
    examples = {name: (EXAMPLES / name).read_text("utf-8") for name in demo.MANIFESTS}
    return {
        CRD: _yaml(crd.definition()),
        POLICY: _yaml({"spec": admission.policy()}),
        **{REFERENCE / name: page for name, page in reference.render().items()},
        PYTHON: python_api.render(),
        **{DEMO / name: text for name, text in examples.items()},
    }


def _yaml(document: Manifest) -> str:
    return _HEADER + yaml.dump(
        document, Dumper=Dumper, sort_keys=False, width=100, allow_unicode=True
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files, or with ``--check`` say which differ; return the exit code."""
    return write_or_check(contents(), "its models", __doc__ or "", arguments)


def write_or_check(
    contents: Mapping[Path, str], origin: str, description: str, arguments: Sequence[str] | None
) -> int:
    """Be the main function of a program that generates files; return the exit code.

    `origin` says in messages what the files are made from. Relative paths are from the repository's
    root.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail on a difference")
    parser.add_argument(
        "--root", type=Path, default=Path(), help="the repository (default: this folder)"
    )
    options = parser.parse_args(arguments)
    found = {options.root / path: text for path, text in contents.items()}
    different = {
        path: text
        for path, text in found.items()
        if not (path.is_file() and path.read_text(encoding="utf-8") == text)
    }
    for path, text in different.items():
        if options.check:
            print(f"{path}: differs from {origin}; run make generate")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"{path}: written")
    return 1 if options.check and different else 0


if __name__ == "__main__":
    sys.exit(main())
