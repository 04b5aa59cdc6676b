"""What an API server says of a request by a ValidatingAdmissionPolicy, as far as celpy can.

celpy evaluates the expressions; the order around them, and what an authorization check costs, are
written out here from k8s.io/apiserver. Only the policy itself is used.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import celpy
from celpy import celtypes
from celpy.adapter import json_to_cel
from celpy.evaluation import CELFunction

Manifest = dict[str, Any]
Right = tuple[str, str, str]
"""Verb, resource, and the name of an object, or "" for all."""

CHECK_COST = 350_000
EXPRESSION_LIMIT = 1_000_000
LIMIT = 10_000_000

_BUILDERS = ("group", "resource", "namespace", "name", "check")


@dataclass
class Requester:
    """Who sends a request.

    Attributes:
        name: The user's name.
        rights: What it may do in the namespace.
        asked: What the policy has asked, by expression.
    """

    name: str = "ann"
    rights: frozenset[Right] = frozenset()
    asked: list[list[Right]] = field(default_factory=list)


def refusals(
    policy: Manifest, requester: Requester, job: Manifest, stored: Manifest | None = None
) -> list[str]:
    """Return the message of each validation that denies a request.

    Args:
        policy: The spec of the policy.
        requester: Its `asked` gets a list for each expression with the checks that it made.
        job: The job that is created, or its update.
        stored: The job as it is stored, for an update.
    """
    request = {
        "operation": "CREATE" if stored is None else "UPDATE",
        "namespace": "vision",
        "userInfo": {"username": requester.name},
    }
    known = {"object": job, "oldObject": stored, "request": request}
    scope: dict[str, Any] = {name: json_to_cel(value) for name, value in known.items()}
    conditions = policy["matchConditions"]
    if not all(_evaluate(item["expression"], scope, requester) for item in conditions):
        return []
    scope["variables"] = celtypes.MapType()
    for variable in policy["variables"]:
        found = _evaluate(variable["expression"], scope, requester)
        scope["variables"][celtypes.StringType(variable["name"])] = found
    return [
        str(_evaluate(item["messageExpression"], scope, requester))
        for item in policy["validations"]
        if not _evaluate(item["expression"], scope, requester)
    ]


def _evaluate(expression: str, scope: dict[str, Any], requester: Requester) -> Any:
    asked: list[Right] = []
    requester.asked.append(asked)

    def allowed(check: celtypes.MapType) -> celtypes.BoolType:
        parts = {str(name): str(value) for name, value in check.items()}
        assert (parts["group"], parts["namespace"]) == ("", "vision")
        right = (parts["check"], parts["resource"], parts.get("name", ""))
        asked.append(right)
        of_all = (right[0], right[1], "")
        return celtypes.BoolType(not requester.rights.isdisjoint({right, of_all}))

    program = _environment().program(
        _compiled(expression), functions={**_library(), "allowed": allowed}
    )
    return program.evaluate({**scope, "authorizer": celtypes.MapType()})


@cache
def _environment() -> celpy.Environment:
    return celpy.Environment()


@cache
def _compiled(expression: str) -> Any:
    return _environment().compile(expression)


@cache
def _library() -> dict[str, CELFunction]:
    """Return the functions of Kubernetes' CEL that celpy lacks."""

    def builder(name: str) -> CELFunction:
        def add(check: celtypes.MapType, value: celtypes.StringType) -> celtypes.MapType:
            added = {celtypes.StringType(name): value}
            return celtypes.MapType({**check, **added})

        return add

    return {**{name: builder(name) for name in _BUILDERS}, "join": _join, "split": _split}


def _join(texts: Iterable[str], separator: str) -> celtypes.StringType:
    return celtypes.StringType(separator.join(texts))


def _split(text: str, separator: str) -> celtypes.ListType:
    return celtypes.ListType([celtypes.StringType(part) for part in text.split(separator)])
