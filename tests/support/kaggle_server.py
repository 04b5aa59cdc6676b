"""A server that speaks Kaggle's API: logins, rules, versions, and signed links that expire."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import parse_qs, unquote, urlsplit

from support.file_server import FileServer, Handler

_ANSWERS = 100_000
_API = "/api/v1"


@dataclass
class Kaggle:
    """Competitions and one dataset; their files come from another host, by signed links.

    Attributes:
        files: content by the path of its download, as `competitions/data/download-all/NAME`; that
            of a dataset ends with `@VERSION`, and `:FILE` for one file.
        login: the header that competitions want; empty for none.
        accepted: whether the user has accepted the rules.
        newest: the newest version of the dataset.
        signature: that links need; another one expires them.
        store: the host of the files.
        api: Kaggle itself.
    """

    files: Mapping[str, bytes]
    login: str
    accepted: bool = True
    newest: int = 1
    signature: int = 1
    store: FileServer = field(default_factory=lambda: FileServer({}))
    api: FileServer = field(default_factory=lambda: FileServer({}))

    def answer(self, handler: Handler) -> None:
        """Answer as the API does."""
        url = urlsplit(handler.path)
        path = unquote(url.path).removeprefix(f"{_API}/")
        if self.login and handler.headers["Authorization"] != self.login:
            _refuse(handler, HTTPStatus.UNAUTHORIZED)
        elif path.startswith("datasets/view/"):
            content = json.dumps({"currentVersionNumber": self.newest, "files": []}).encode()
            handler.answer(HTTPStatus.OK, content, {"Content-Type": "application/json"})
        elif not self.accepted:
            _refuse(handler, HTTPStatus.FORBIDDEN)
        else:
            self._redirect(handler, path + self._suffix(path, parse_qs(url.query)))

    def serve(self, handler: Handler) -> None:
        """Answer as the host of the files does."""
        path, _, signature = handler.path.partition("?X-Goog-Signature=")
        if signature != f"sig-na-ture-{self.signature}":
            handler.refuse(HTTPStatus.FORBIDDEN)
            return
        self.store.content = {handler.path: self.files[unquote(path).removeprefix("/")]}
        handler.serve()

    def _suffix(self, path: str, query: Mapping[str, list[str]]) -> str:
        if not path.startswith("datasets/"):
            return ""
        version = query.get("dataset_version_number", [str(self.newest)])[0]
        return "".join((f"@{version}", *(f":{name}" for name in query.get("file_name", ()))))

    def _redirect(self, handler: Handler, name: str) -> None:
        if name not in self.files:
            _refuse(handler, HTTPStatus.NOT_FOUND)
            return
        link = f"{self.store.url}/{name}?X-Goog-Signature=sig-na-ture-{self.signature}"
        handler.refuse(HTTPStatus.FOUND, Location=link)


def _refuse(handler: Handler, status: HTTPStatus) -> None:
    content = json.dumps({"code": status, "message": "Permission was denied"}).encode()
    handler.answer(status, content, {"Content-Type": "application/json"})


@contextmanager
def serve_kaggle(files: Mapping[str, bytes], login: str = "") -> Iterator[Kaggle]:
    """Serve downloads until the block ends.

    Args:
        files: as `Kaggle.files`.
        login: the header that the server wants; empty for none.
    """
    kaggle = Kaggle(files, login)
    kaggle.store.faults = deque([kaggle.serve] * _ANSWERS)
    kaggle.api.faults = deque([kaggle.answer] * _ANSWERS)
    with kaggle.store.running(), kaggle.api.running():
        yield kaggle
