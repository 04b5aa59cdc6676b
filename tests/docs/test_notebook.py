"""examples/notebook.ipynb is in the shape in which it is kept; tests/home runs it."""

from __future__ import annotations

import ast
import json
import re

from imagenetjob import ImageNetJob, LocalClient
from kind.stories.test_notebook import VERBS
from support import notebook
from support.pod_subset import REPOSITORY

NOTEBOOK = notebook.read()
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]


def test_it_has_no_outputs_and_names_no_machine() -> None:
    for cell in CODE:
        assert (cell["outputs"], cell["execution_count"], cell["metadata"]) == ([], None, {})
    # A kernel adds its version, and tools their own names.
    assert NOTEBOOK["metadata"] == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    assert "/home" not in notebook.FILE.read_text()


def test_it_is_written_as_jupyter_writes_it() -> None:
    assert notebook.FILE.read_text() == json.dumps(NOTEBOOK, indent=1, ensure_ascii=False) + "\n"


def test_every_link_leads_to_a_page() -> None:
    texts = ("".join(cell["source"]) for cell in NOTEBOOK["cells"] if cell not in CODE)
    links = [link.partition("#")[0] for text in texts for link in LINK.findall(text)]
    assert links
    assert [link for link in links if not (notebook.FILE.parent / link).exists()] == []


def test_a_cluster_needs_one_other_cell() -> None:
    changed = notebook.for_cluster(NOTEBOOK)
    pairs = zip(NOTEBOOK["cells"], changed["cells"], strict=True)
    assert [old["id"] for old, new in pairs if old != new] == ["client"]
    here, there = (names(notebook.source(found, "client")) for found in (NOTEBOOK, changed))
    after = CODE[[cell["id"] for cell in CODE].index("client") + 1 :]
    for cell in after:
        assert not names("".join(cell["source"]), ast.Load) & (here - there)


def names(code: str, context: type[ast.expr_context] = ast.Store) -> set[str]:
    """Return the names that code binds or, by the context, those that it uses."""
    found = set()
    for node in ast.walk(ast.parse(code.replace("%matplotlib inline", ""))):
        if isinstance(node, ast.Name) and isinstance(node.ctx, context):
            found.add(node.id)
        elif isinstance(node, ast.ImportFrom | ast.Import) and context is ast.Store:
            found |= {alias.asname or alias.name for alias in node.names}
    return found


def test_the_job_is_valid() -> None:
    found: dict[str, object] = {}
    exec(notebook.source(NOTEBOOK, "build"), found)
    job = found["job"]
    assert isinstance(job, ImageNetJob)
    assert job.metadata.name == notebook.JOB
    assert LocalClient("work").submit(job, dry_run=True).spec == job.spec


def test_the_walk_has_what_the_story_types() -> None:
    walk = (REPOSITORY / "docs" / "walks.md").read_text()
    for verb, (right, right_code, wrong, wrong_code) in VERBS.items():
        commands = (" ".join((verb, *typed.split())) for typed in (right, wrong))
        right_command, wrong_command = commands
        row = f"| `{right_command}` | {right_code} | `{wrong_command}` | {wrong_code} |"
        assert row in walk.splitlines()
