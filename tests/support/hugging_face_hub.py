"""A server that speaks the API of Hugging Face: a dataset's commit, its files, and redirects."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

from support.file_server import FileServer, Handler

COMMIT = "0123456789abcdef0123456789abcdef01234567"
_ANSWERS = 100_000


@dataclass
class Hub:
    """A hub with one dataset; its files come from another host, by signed links.

    Attributes:
        dataset: the name of the dataset.
        token: that it wants; empty for a public dataset.
        commits: by branch or tag.
        sums: SHA-256 by path, in place of that of the content.
        store: the host of the files.
        api: the hub itself.
    """

    dataset: str
    token: str
    store: FileServer
    api: FileServer = field(default_factory=lambda: FileServer({}))
    commits: dict[str, str] = field(default_factory=lambda: {"main": COMMIT})
    sums: dict[str, str] = field(default_factory=dict)

    @property
    def files(self) -> list[str]:
        """The paths of the files."""
        return [path.removeprefix("/").partition("?")[0] for path in self.store.content]

    def answer(self, handler: Handler) -> None:
        """Answer as the hub does."""
        path = unquote(handler.path)
        if self.token and handler.headers["Authorization"] != f"Bearer {self.token}":
            handler.refuse(HTTPStatus.UNAUTHORIZED)
        elif path.startswith(f"/api/datasets/{self.dataset}"):
            self._describe(handler, path)
        elif path.startswith(f"/datasets/{self.dataset}/resolve/"):
            commit, _, name = path.partition("/resolve/")[2].partition("/")
            location = f"{self.store.url}/{name}?signature=s"
            known = commit in self.commits.values() and name in self.files
            if known:
                handler.refuse(HTTPStatus.FOUND, Location=location)
            else:
                handler.refuse(HTTPStatus.NOT_FOUND, X_Error_Code="EntryNotFound")
        else:
            handler.refuse(HTTPStatus.NOT_FOUND, X_Error_Code="RepoNotFound")

    def _describe(self, handler: Handler, path: str) -> None:
        path, _, query = path.partition("?")
        revision = path.partition("/revision/")[2] or "main"
        commit = self.commits.get(revision, revision)
        if commit not in self.commits.values():
            handler.refuse(HTTPStatus.NOT_FOUND, X_Error_Code="RevisionNotFound")
            return
        siblings = [{"rfilename": name} for name in (".gitattributes", *self.files)]
        if "blobs=true" in query:
            siblings = [{**one, **self._lfs(one["rfilename"])} for one in siblings]
        found = {"id": self.dataset, "sha": commit, "siblings": siblings}
        content = {"Content-Type": "application/json"}
        handler.answer(HTTPStatus.OK, json.dumps(found).encode(), content)

    def _lfs(self, name: str) -> dict[str, Any]:
        """What the hub says of a file in Git LFS; nothing of others."""
        if not name.endswith((".parquet", ".tar", ".gz")):
            return {}
        content = self.store.content[f"/{name}?signature=s"]
        digest = self.sums.get(name, sha256(content).hexdigest())
        return {"lfs": {"sha256": digest, "size": len(content), "pointerSize": 134}}


@contextmanager
def serve_hub(files: Mapping[str, bytes], dataset: str, token: str = "") -> Iterator[Hub]:
    """Serve a dataset until the block ends.

    Args:
        files: content by path.
        dataset: its name, as ``owner/name``.
        token: that the hub wants; empty for a public dataset.
    """
    store = FileServer({f"/{name}?signature=s": one for name, one in files.items()})
    hub = Hub(dataset, token, store)
    hub.api.faults = deque([hub.answer] * _ANSWERS)
    with store.running(), hub.api.running():
        yield hub
