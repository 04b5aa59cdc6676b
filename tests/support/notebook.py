"""The notebook of examples/: its cells, and a run of it in a kernel of Jupyter.

    PYTHONPATH=tests .venv-home/bin/python -m support.notebook FOLDER

runs it in a folder, on the cluster of KUBECONFIG, and writes it there with its outputs. It needs
the environment of `make install-home`.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from support.pod_subset import REPOSITORY

NAME = "notebook.ipynb"
FILE = REPOSITORY / "examples" / NAME
JOB = "digits-notebook"
_SECONDS = 900

Notebook = dict[str, Any]


def read(file: Path = FILE) -> Notebook:
    """Return a notebook."""
    found: Notebook = json.loads(file.read_text())
    return found


def cell(notebook: Notebook, name: str) -> dict[str, Any]:
    """Return the cell with an id."""
    (found,) = (cell for cell in notebook["cells"] if cell["id"] == name)
    return dict(found)


def source(notebook: Notebook, name: str) -> str:
    """Return the source of the cell with an id."""
    return "".join(cell(notebook, name)["source"])


def text(notebook: Notebook, name: str) -> str:
    """Return all text that the cell with an id shows, its HTML too."""
    shown = []
    for output in cell(notebook, name)["outputs"]:
        data = output.get("data", {})
        shown += [output.get("text", ""), data.get("text/plain", ""), data.get("text/html", "")]
    return "".join("".join(part) for part in shown)


def for_cluster(notebook: Notebook) -> Notebook:
    """Return the notebook with the cell that it shows for a cluster in place of `client`."""
    found = re.search(r"```python\n(.*?)\n```", source(notebook, "where"), re.DOTALL)
    assert found is not None
    cells = [
        {**cell, "source": found[1]} if cell["id"] == "client" else cell
        for cell in notebook["cells"]
    ]
    return {**notebook, "cells": cells}


def run(notebook: Notebook, folder: Path) -> Notebook:
    """Run all cells in a folder; return the notebook with their outputs, which is there too."""
    # Only .venv-home has them.
    import nbformat
    from nbclient import NotebookClient

    found = nbformat.reads(json.dumps(notebook), as_version=4)
    client = NotebookClient(found, timeout=_SECONDS, resources={"metadata": {"path": str(folder)}})
    try:
        client.execute()
    finally:
        nbformat.write(found, folder / NAME)
    return read(folder / NAME)


if __name__ == "__main__":
    run(for_cluster(read()), Path(sys.argv[1]))
