"""What the fake API server is asked, and what it answers.

Requests as its faults and the tests see them, refusals, and the answers to discovery.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from imagenet_operator.clusters.kubernetes import objects

Manifest = dict[str, Any]


KINDS = {**objects.BY_NAME, **{kind.name: kind for kind in (objects.SECRET, objects.QUOTA)}}
"""Every kind that is served, by its name."""


@dataclass(frozen=True)
class Request:
    """One request: verb as RBAC calls it, kind, subresource, namespace, name, body, time limit.

    The sender is what its bearer token says. `dryRun` and `fieldValidation` are those of the query.
    """

    verb: str
    kind: str
    namespace: str
    name: str
    subresource: str = ""
    body: Manifest = field(default_factory=dict, compare=False)
    timeout: str = field(default="", compare=False)
    sender: str = field(default="", compare=False)
    dry_run: str = ""
    field_validation: str = field(default="", compare=False)

    @property
    def resource(self) -> tuple[str, str]:
        """Group and resource as RBAC calls them, as in `objects.VERBS`."""
        kind = KINDS[self.kind]
        return kind.group, "/".join(filter(None, (kind.plural, self.subresource)))


class Refusal(Exception):  # noqa: N818 - an answer
    """An answer that is no success.

    Attributes:
        code: The HTTP status.
        reason: The API server's word for it.
        details: What it says of the object, as the fields that are wrong.
        retry_after: In how many seconds it wants to be asked again; None if it does not say.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str = "",
        *,
        details: Manifest | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message or reason)
        self.code = code
        self.reason = reason
        self.details = details
        self.retry_after = retry_after

    def again(self) -> Refusal:
        """The same answer to another request."""
        return Refusal(
            self.code,
            self.reason,
            str(self),
            details=self.details,
            retry_after=self.retry_after,
        )

    def response(self) -> web.Response:
        """It as HTTP sends it."""
        status = {
            "kind": "Status",
            "code": self.code,
            "reason": self.reason,
            "message": str(self),
            **({} if self.details is None else {"details": self.details}),
        }
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        return web.json_response(status, status=self.code, headers=headers)


def creates_a_pod(asked: Request) -> bool:
    """Whether a request does, and is no dry run."""
    return (asked.verb, asked.kind, asked.dry_run) == ("create", "Pod", "")


def tries_a_pod(asked: Request) -> bool:
    """Whether a request is the dry run of a pod."""
    return (asked.verb, asked.kind, asked.dry_run) == ("create", "Pod", "All")


def writes_status(asked: Request) -> bool:
    """Whether a request does, of a job."""
    return asked.subresource == "status"


class Lost(Exception):  # noqa: N818 - what becomes of a connection
    """The connection is cut without an answer."""


ASKED: ContextVar[Request | None] = ContextVar("asked", default=None)
"""The request that is carried out; None for what happens in the cluster by itself."""

Fault = Callable[[Request], Awaitable[None]]
"""Is awaited before a request is served; may raise `Refusal` or `Lost`, or take its time."""

Effect = Callable[[Request, Manifest], Awaitable[None]]
"""As a `Fault`, but after the request was carried out, with the answer."""


def discovery(parts: list[str]) -> Manifest | None:
    """The answer to what kopf asks to find out what there is; None to anything else."""
    group, version = objects.JOB.group, objects.JOB.version
    named = {"groupVersion": f"{group}/{version}", "version": version}
    match parts:
        case ["api"]:
            return {"versions": ["v1"]}
        case ["apis"]:
            return {"groups": [{"name": group, "versions": [named], "preferredVersion": named}]}
        case ["api", "v1"]:
            return {"resources": [_resource("namespaces", "Namespace", namespaced=False)]}
        case ["apis", found, version_found] if (found, version_found) == (group, version):
            return {"resources": [_resource(objects.JOB.plural, objects.JOB.name)]}
    return None


def _resource(plural: str, kind: str, *, namespaced: bool = True) -> Manifest:
    return {
        "name": plural,
        "singularName": kind.lower(),
        "namespaced": namespaced,
        "kind": kind,
        "verbs": ["list", "watch"],
    }
