"""A stand-in for MLflow's REST API, which keeps every point that it gets, and can fail."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

Mode = Literal["works", "refuses", "hangs", "forgets to answer"]
Document = dict[str, Any]


@dataclass
class MlflowServer:
    """An MLflow server with one experiment.

    Attributes:
        mode: What it does with a request. One that forgets to answer has done what was asked.
        points: (series, step, value), as they came; a point that came twice is there twice.
        runs: Those that were created.
        requests: Their paths, and the header of the login.
    """

    mode: Mode = "works"
    points: list[tuple[str, int, float]] = field(default_factory=list)
    runs: list[Document] = field(default_factory=list)
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    address: str = ""
    experiment: str | None = None
    _released: threading.Event = field(default_factory=threading.Event)

    def steps(self, series: str) -> list[int]:
        """Return the steps of a series in the order of their arrival."""
        return [step for name, step, _ in self.points if name == series]

    def answer(self, path: str, query: dict[str, list[str]], document: Document) -> Document | None:
        """Return the answer of the API; None for what does not exist."""
        if path == "experiments/get-by-name":
            known = self.experiment == query["experiment_name"][0]
            return {"experiment": {"experiment_id": "7"}} if known else None
        if path == "experiments/create":
            self.experiment = document["name"]
            return {"experiment_id": "7"}
        if path == "runs/search":
            assert document["experiment_ids"] == ["7"]
            wanted = document["filter"].rpartition(" = ")[2].strip("'")
            return {"runs": [run for run in self.runs if _uid(run) == wanted]}
        if path == "runs/create":
            info = {"run_id": str(len(self.runs)), "start_time": document["start_time"]}
            data: Document = {"tags": document["tags"], "params": [], "metrics": []}
            self.runs.append({"info": {**info, "status": "RUNNING"}, "data": data})
            return {"run": self.runs[-1]}
        run = self.runs[int(document["run_id"])]
        if path == "runs/update":
            run["info"]["status"] = document["status"]
        elif path == "runs/log-batch":
            self._store(run["data"], document)
        else:
            return None
        return {}

    def _store(self, data: Document, batch: Document) -> None:
        assert len(batch.get("metrics", [])) <= 1000
        for point in batch.get("metrics", []):
            self.points.append((point["key"], point["step"], point["value"]))
            newest = {item["key"]: item for item in data["metrics"]}
            if newest.get(point["key"], point)["step"] <= point["step"]:
                newest[point["key"]] = point
            data["metrics"] = list(newest.values())
        for kind in ("params", "tags"):
            data[kind] += batch.get(kind, [])

    @contextmanager
    def served(self, tls: ssl.SSLContext | None = None) -> Iterator[MlflowServer]:
        """Serve it until the block ends."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        server.daemon_threads = True
        server.mlflow = self  # type: ignore[attr-defined]
        scheme = "http" if tls is None else "https"
        self.address = f"{scheme}://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._released.set()
            server.shutdown()
            server.server_close()

    def hang(self) -> None:
        """Keep a request until the server has another mode, or ends."""
        while self.mode == "hangs" and not self._released.wait(0.05):
            pass


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        mlflow: MlflowServer = self.server.mlflow  # type: ignore[attr-defined]
        url = urlsplit(self.path)
        path = url.path.removeprefix("/api/2.0/mlflow/")
        mlflow.requests.append((path, self.headers["Authorization"]))
        document = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or "{}")
        if mlflow.mode == "hangs":
            mlflow.hang()
            self.close_connection = True
            return
        if mlflow.mode == "refuses":
            self._send(503, {"error_code": "TEMPORARILY_UNAVAILABLE", "message": "at 10.0.0.1"})
            return
        found = mlflow.answer(path, parse_qs(url.query), document)
        if mlflow.mode == "forgets to answer":
            self.close_connection = True
            return
        if found is None:
            self._send(404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "no"})
        else:
            self._send(200, found)

    def _send(self, status: int, document: Document) -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def _uid(run: Document) -> str:
    tags = {item["key"]: item["value"] for item in run["data"]["tags"]}
    return str(tags["imagenet.job_uid"])
