"""Sends a job's history to an MLflow server, as one run over all attempts.

MLflow stores what it gets and takes nothing back. So a point is sent once its checkpoint covers it,
and only if it is after the last step of its series that the server has. The server itself is asked
for that, and for the run, before anything is sent: by the tag of the job's UID. So no state is
kept, and another process goes on after any failure.

The requests are those of MLflow's REST API 2.0, four of them, by the client that the images have.
What the Secret has, the server's address included, is in no message.
"""

import json
import math
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import urllib3
from urllib3.exceptions import HTTPError, NameResolutionError, ReadTimeoutError, SSLError

from imagenet_spec.names import (
    IMAGENET_TRACKING_CREDENTIALS,
    MLFLOW_TRACKING_PASSWORD,
    MLFLOW_TRACKING_TOKEN,
    MLFLOW_TRACKING_USERNAME,
    TRACKING_CA,
)
from imagenet_workloads.clients.credentials import Credentials
from imagenet_workloads.clients.http import Login, Token
from imagenet_workloads.errors import InputError, WorkloadError
from imagenet_workloads.tracking.history import History, to_send

UID_TAG = "imagenet.job_uid"
"""The tag by which the run of a job is found."""

# Of MLflow, for one request.
MOST_POINTS = 1000
MOST_PARAMETERS = 100
MOST_TAGS = 100
# In characters, of a parameter and of a tag.
_LONGEST_VALUE = 5000

_TIMEOUT = urllib3.Timeout(connect=5, read=10)
_LONGEST_ANSWER = 16 << 20
_MISSING = "RESOURCE_DOES_NOT_EXIST"
_EXISTS = "RESOURCE_ALREADY_EXISTS"


class TrackingError(WorkloadError):
    """The server cannot be reached, or refuses; a later try may succeed.

    `code` is MLflow's own, such as RESOURCE_DOES_NOT_EXIST; empty without one.
    """

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Job:
    """Whose run it is."""

    name: str
    namespace: str
    uid: str


class Server:
    """The REST API of an MLflow server."""

    def __init__(self, credentials: Credentials, uri_key: str) -> None:
        """Read the Secret, and connect to nothing yet.

        InputError if a key is missing or wrong; the message has no value.
        """
        uri = credentials.read(uri_key).rstrip("/")
        try:
            parts = urllib3.util.parse_url(uri)
        except HTTPError:
            parts = urllib3.util.Url()
        if parts.scheme not in ("http", "https") or not parts.host or parts.auth or parts.query:
            raise InputError(
                f"the key {uri_key} of the Secret is not an http or https URL without user and "
                f"query; write the login to {MLFLOW_TRACKING_USERNAME} and "
                f"{MLFLOW_TRACKING_PASSWORD}"
            )
        self._api = f"{uri}/api/2.0/mlflow"
        self._headers = {"Content-Type": "application/json"}
        if credentials.has(MLFLOW_TRACKING_TOKEN):
            token = Token(credentials.read(MLFLOW_TRACKING_TOKEN))
            self._headers["Authorization"] = token.header
        elif credentials.has(MLFLOW_TRACKING_USERNAME):
            login = Login(
                credentials.read(MLFLOW_TRACKING_USERNAME),
                credentials.read(MLFLOW_TRACKING_PASSWORD),
            )
            self._headers["Authorization"] = login.header
        context = None
        if credentials.has(TRACKING_CA):
            try:
                context = ssl.create_default_context(cadata=credentials.read(TRACKING_CA))
            except ssl.SSLError:
                raise InputError(
                    f"the key {TRACKING_CA} of the Secret is no certificate; write it as PEM"
                ) from None
        self._pool = urllib3.PoolManager(timeout=_TIMEOUT, ssl_context=context)

    def close(self) -> None:
        self._pool.clear()

    def get(self, path: str, **fields: str) -> dict[str, Any]:
        """Return the answer to a GET request; TrackingError if there is none, or it is an error."""
        return self._request("GET", path, fields=fields)

    def post(self, path: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a POST request; errors are those of `get`."""
        return self._request("POST", path, body=json.dumps(document).encode())

    def _request(self, method: str, path: str, **content: Any) -> dict[str, Any]:
        try:
            answer = self._pool.request(
                method,
                f"{self._api}/{path}",
                headers=self._headers,
                retries=False,
                redirect=False,
                preload_content=False,
                **content,
            )
            try:
                body = answer.read(_LONGEST_ANSWER)
            finally:
                answer.release_conn()
        except (SSLError, ssl.SSLError):
            raise TrackingError(
                f"no trusted encrypted connection; the key {TRACKING_CA} of the Secret is for the "
                "certificates of the server's authority"
            ) from None
        except NameResolutionError:
            raise TrackingError("the name of the server cannot be resolved") from None
        except ReadTimeoutError:
            raise TrackingError("the server does not answer in time") from None
        except (HTTPError, OSError, ValueError):
            raise TrackingError("the server cannot be reached") from None
        try:
            found = json.loads(body or b"{}")
        except ValueError:
            found = None
        if answer.status == 200 and isinstance(found, dict):
            return found
        code = found.get("error_code", "") if isinstance(found, dict) else ""
        # The server's own words may be anything, its codes are few.
        code = code if isinstance(code, str) and code.replace("_", "").isalpha() else ""
        why = {
            401: "it refuses the login of the Secret",
            403: "the login of the Secret lacks the right",
            404: "there is no MLflow at this address",
        }.get(answer.status, "it is no answer of MLflow" if found is None else "it refuses")
        if code:
            why = code
        raise TrackingError(f"the server answers {answer.status}: {why}", code)


class Run:
    """The run of a job on a server, and the steps that the server has."""

    def __init__(self, server: Server, experiment: str, job: Job, history: History) -> None:
        """Find the run, or create it; TrackingError if the server cannot be reached, or refuses."""
        self._server = server
        where = _experiment(server, experiment)
        wanted = f"tags.`{UID_TAG}` = '{job.uid}'"
        query = {"experiment_ids": [where], "filter": wanted, "max_results": 100}
        found = server.post("runs/search", query).get("runs", [])
        if found:
            # Two processes may have created one at the same time; all take the same.
            run = min(found, key=lambda one: (one["info"]["start_time"], one["info"]["run_id"]))
        else:
            tags = {
                UID_TAG: job.uid,
                "imagenet.job": job.name,
                "imagenet.namespace": job.namespace,
            }
            document = {
                "experiment_id": where,
                "run_name": job.name,
                "start_time": _milliseconds(history.started or 0.0),
                "tags": [{"key": key, "value": value} for key, value in tags.items()],
            }
            run = server.post("runs/create", document)["run"]
        self.identity: str = run["info"]["run_id"]
        self._is_ended = run["info"].get("status") == "FINISHED"
        data = run.get("data", {})
        self.acknowledged = {
            item["key"]: int(item.get("step", 0)) for item in data.get("metrics", [])
        }
        self._parameters = {item["key"] for item in data.get("params", [])}
        self._tags = {item["key"] for item in data.get("tags", [])}

    def send(self, history: History) -> None:
        """Send what is covered and the server lacks.

        After a TrackingError nothing is known of what it has taken: find the run again.
        """
        marks = {f"imagenet.restart.{one.number}": one.text for one in history.restarts}
        points: list[dict[str, Any]] = [
            {
                "key": point.series,
                "value": point.value,
                "timestamp": _milliseconds(point.time),
                "step": point.step,
            }
            for point in to_send(history, self.acknowledged)
        ]
        for key, most, items in (
            ("params", MOST_PARAMETERS, _items(history.parameters, self._parameters)),
            ("tags", MOST_TAGS, _items(marks, self._tags)),
            ("metrics", MOST_POINTS, points),
        ):
            for start in range(0, len(items), most):
                batch: dict[str, Any] = {key: items[start : start + most]}
                self._server.post("runs/log-batch", {"run_id": self.identity, **batch})
                for point in batch.get("metrics", []):
                    self.acknowledged[point["key"]] = point["step"]
                self._parameters |= {item["key"] for item in batch.get("params", [])}
                self._tags |= {item["key"] for item in batch.get("tags", [])}
        is_ended = history.ended is not None
        if is_ended and not self._is_ended:
            ended = {"status": "FINISHED", "end_time": _milliseconds(history.ended or 0.0)}
            self._server.post("runs/update", {"run_id": self.identity, **ended})
        elif self._is_ended and not is_ended:
            self._server.post("runs/update", {"run_id": self.identity, "status": "RUNNING"})
        self._is_ended = is_ended


def _experiment(server: Server, name: str) -> str:
    try:
        found = server.get("experiments/get-by-name", experiment_name=name)
    except TrackingError as error:
        if error.code != _MISSING:
            raise
        try:
            return str(server.post("experiments/create", {"name": name})["experiment_id"])
        except TrackingError as refused:
            if refused.code != _EXISTS:
                raise
            found = server.get("experiments/get-by-name", experiment_name=name)
    return str(found["experiment"]["experiment_id"])


def _items(values: Mapping[str, str], known: set[str]) -> list[dict[str, str]]:
    return [
        {"key": key, "value": value[:_LONGEST_VALUE]}
        for key, value in values.items()
        if key not in known
    ]


def _milliseconds(time: float) -> int:
    return math.floor(1000 * time)


def credentials_of(variables: Mapping[str, str]) -> Credentials:
    """Return the keys of the Secret that is mounted for this program."""
    return Credentials(variables, IMAGENET_TRACKING_CREDENTIALS)
