"""Asks a cluster's API server as `kubectl get --raw` does, without a process for each question.

Stories have thousands of them, and a kubectl takes an eighth of a second of a processor to start.
"""

from __future__ import annotations

import base64
import functools
import itertools
import json
import ssl
import time
from http.client import HTTPResponse
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any
from urllib.error import HTTPError
from urllib.request import HTTPSHandler, OpenerDirector, ProxyHandler, Request, build_opener

import yaml

# Seconds in which something that is no watch has to say something.
SILENCE = 120.0

# How often it is asked that says when to ask again, as it does while it has too much to do: as
# often as Kubernetes' own client does.
BUSY_TIMES = 11


def opened(
    kubeconfig: Path,
    path: str,
    seconds: float = SILENCE,
    *,
    verb: str = "GET",
    document: Any = None,
    media: str = "application/json",
) -> HTTPResponse:
    """Ask for something at a path; what is answered is read, and closed, by the caller.

    Args:
        kubeconfig: Of the cluster, with one cluster and one user as kind writes it.
        path: Of what is asked for, with its query.
        seconds: How long there may be nothing to read.
        verb: The method of HTTP.
        document: What is sent: a text as it is, all else as JSON.
        media: The document's media type.

    Raises:
        HTTPError: The API server refuses.
        OSError: It does not answer.
    """
    server, opener = _opener(kubeconfig.read_text())
    data = None if document is None else _sent(document).encode()
    headers = {} if data is None else {"Content-Type": media}
    request = Request(f"{server}{path}", data, headers, method=verb)
    for left in itertools.count(BUSY_TIMES, -1):
        try:
            answer: HTTPResponse = opener.open(request, timeout=seconds)
            break
        except HTTPError as refusal:
            pause = refusal.headers.get("Retry-After")
            if pause is None or left == 1:
                raise
            refusal.close()
            time.sleep(int(pause))
    return answer


@functools.cache
def _opener(kubeconfig: str) -> tuple[str, OpenerDirector]:
    """Return the API server's address, and what opens its paths as the kubeconfig's user."""
    parsed = yaml.safe_load(kubeconfig)
    cluster, user = parsed["clusters"][0]["cluster"], parsed["users"][0]["user"]
    trusted = ssl.create_default_context(cadata=_decoded(cluster["certificate-authority-data"]))
    with NamedTemporaryFile("w") as own:
        own.write(_decoded(user["client-certificate-data"]) + _decoded(user["client-key-data"]))
        own.flush()
        trusted.load_cert_chain(own.name)
    # The cluster is on this machine, whatever proxy the environment names.
    return cluster["server"], build_opener(ProxyHandler({}), HTTPSHandler(context=trusted))


def _sent(document: Any) -> str:
    return document if isinstance(document, str) else json.dumps(document)


def _decoded(data: str) -> str:
    return base64.b64decode(data).decode()
