"""The connection to the API server: its address, and credentials that stay valid.

In a cluster, the pod's service account is the login; outside, a context of KUBECONFIG. `client`
and kopf's session take the credentials for each request from here. They are renewed before they
expire, and when the API server refuses them, without a restart.
"""

import asyncio
import logging
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Final
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from imagenet_operator.clusters.kubernetes.exec_plugin import LoginFailed
from imagenet_operator.clusters.kubernetes.kubeconfig import Fields, Kubeconfig, NoConnection
from imagenet_operator.clusters.kubernetes.login import (
    Anonymous,
    Credentials,
    KubeconfigLogin,
    Login,
    ServiceAccountLogin,
)

__all__ = [
    "Connection",
    "Credentials",
    "LoginFailed",
    "NoConnection",
    "find",
    "from_kubeconfig",
    "of_context",
]

LOGGER = logging.getLogger(__name__)

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

RENEWAL_SECONDS: Final = 10.0
"""The shortest time between two logins after refusals or failures."""

_REMEDIES = {
    "insecure-skip-tls-verify": "write certificate-authority-data, and tls-server-name if the "
    "certificate names another host",
    "auth-provider": "write exec, with a plugin that fetches the token",
    **dict.fromkeys(("username", "password"), "use a user with a certificate or a token"),
}
"""Unsupported fields of clusters and users, and what to write instead."""


@dataclass
class _Held:
    credentials: Credentials
    renew_at: float
    valid_until: float


class Connection:
    """The way to the API server.

    Args:
        server: The URL's beginning.
        login: The way to get credentials; without it, requests are anonymous.
        namespace: The namespace of the kubeconfig's context.
        proxy: The URL of the HTTP proxy to it.
        server_name: The name in its certificate, if the URL has another.

    Attributes:
        clock: The seconds that pass.
    """

    def __init__(
        self,
        server: str,
        login: Login | None = None,
        *,
        namespace: str = "default",
        proxy: str | None = None,
        server_name: str | None = None,
    ) -> None:
        self.server = server
        self.namespace = namespace
        self.proxy = proxy
        self.server_name = server_name
        self._login = Anonymous() if login is None else login
        self.clock: Callable[[], float] = time.monotonic
        self._held: _Held | None = None
        self._renewed_at = -inf
        self._renewal: asyncio.Task[Credentials] | None = None

    async def credentials(self) -> Credentials:
        """Return what the next request carries.

        Raises:
            NoConnection: There is no login.
        """
        held = self._held
        if held is not None and self.clock() < held.renew_at:
            return held.credentials
        return await self._renew()

    async def renew(self, refused: Credentials) -> Credentials:
        """Return other credentials after a refusal; the same ones if there are no others.

        Args:
            refused: Those that the API server has answered with 401.

        Raises:
            NoConnection: There is no login.
        """
        if self._held is None or self._held.credentials is not refused:
            return await self.credentials()
        if self._renewal is not None and not self._renewal.done():
            return await self._renew()
        if self.clock() < self._renewed_at + RENEWAL_SECONDS:
            return refused
        self._held.valid_until = self.clock()
        return await self._renew()

    async def _renew(self) -> Credentials:
        """Log in, once for all requests that wait for it."""
        if self._renewal is None or self._renewal.done():
            self._renewal = asyncio.create_task(self._log_in(), name="login")
        return await asyncio.shield(self._renewal)

    async def _log_in(self) -> Credentials:
        held, self._renewed_at = self._held, self.clock()
        try:
            found = await self._login.log_in()
        except NoConnection as error:
            if held is None or self.clock() >= held.valid_until:
                raise
            LOGGER.warning("%s; the last login is used until it expires", error)
            held.renew_at = self.clock() + RENEWAL_SECONDS
            return held.credentials
        # The same object, if nothing has changed: `renew` says so by it.
        same = held is not None and found == held.credentials
        kept = held.credentials if held is not None and same else found
        now = self.clock()
        renew = max(found.renew_seconds, RENEWAL_SECONDS)
        self._held = _Held(kept, now + renew, now + found.valid_seconds)
        return kept

    async def authorize(
        self, request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Send a request with credentials: a middleware of aiohttp."""
        # No other server gets them, where this one redirects to.
        if request.url.origin() == URL(self.server).origin():
            request.headers.extend((await self.credentials()).headers)
        if self.server_name is not None:
            request.server_hostname = self.server_name
        return await send(request)

    def session(
        self, credentials: Credentials, answered: Callable[[aiohttp.ClientResponse], None]
    ) -> aiohttp.ClientSession:
        """Return a session that is logged in, for a library that makes its own requests.

        Its token is renewed; its certificate stays that of the credentials.

        Args:
            credentials: The login.
            answered: Called with each response, before its content is read.
        """

        async def report(
            _session: aiohttp.ClientSession,
            _context: SimpleNamespace,
            ended: aiohttp.TraceRequestEndParams,
        ) -> None:
            answered(ended.response)

        trace = aiohttp.TraceConfig()
        trace.on_request_end.append(report)
        connector = aiohttp.TCPConnector(limit=0, ssl=credentials.tls or True)
        return aiohttp.ClientSession(
            connector=connector,
            middlewares=(self.authorize,),
            proxy=self.proxy,
            trace_configs=[trace],
        )


def find(environment: Mapping[str, str] = os.environ) -> Connection:
    """Return the connection of the pod's service account, or of KUBECONFIG.

    Raises:
        NoConnection: Neither exists, or it cannot be used.
    """
    host = environment.get("KUBERNETES_SERVICE_HOST")
    if host and (SERVICE_ACCOUNT / "token").exists():
        port = environment.get("KUBERNETES_SERVICE_PORT") or "443"
        login = ServiceAccountLogin(SERVICE_ACCOUNT, host, port)
        return Connection(login.server, login)
    paths = _kubeconfigs(environment)
    if not any(os.access(path, os.R_OK) for path in paths):
        shown = os.pathsep.join(map(str, paths))
        raise NoConnection(
            f"no API server is known: this is no pod with a service account, and {shown} is no "
            "file that can be read; set KUBECONFIG to the path of one kubeconfig"
        )
    return from_kubeconfig(*paths)


def of_context(name: str, environment: Mapping[str, str] = os.environ) -> Connection:
    """Return the connection of a context of KUBECONFIG, also in a pod.

    Raises:
        NoConnection: There is no such context, or it cannot be used.
    """
    return from_kubeconfig(*_kubeconfigs(environment), name=name)


def _kubeconfigs(environment: Mapping[str, str]) -> list[Path]:
    """Return the files of KUBECONFIG that exist; all of them if none does."""
    named = [Path(name) for name in environment.get("KUBECONFIG", "").split(os.pathsep) if name]
    try:
        paths = named or [Path.home() / ".kube" / "config"]
    except RuntimeError as error:
        raise NoConnection(
            "no home folder is known, nor a kubeconfig; set KUBECONFIG to the path of one"
        ) from error
    return [path for path in paths if os.path.exists(path)] or paths  # noqa: PTH110 - no errors


def from_kubeconfig(*paths: Path, name: str | None = None) -> Connection:
    """Return the connection of a context of kubeconfigs.

    Args:
        *paths: The files; the first that names a context, a cluster or a user decides.
        name: The context's; None for the current one.

    Raises:
        NoConnection: There is no such context, or a field of it cannot be used.
    """
    which = "current context" if name is None else f"context {name!r}"
    config = Kubeconfig(paths, which)
    context = _context(config, paths, name)
    cluster = config.referred(context, "cluster", "clusters")
    user = Fields(context.file, "", {})
    # As with kubectl, a context needs no user.
    if context.text("user") is not None:
        user = config.referred(context, "user", "users")
    for fields in (cluster, user):
        for field, remedy in _REMEDIES.items():
            if fields.values.get(field):
                raise NoConnection(f"{fields.place(field)}: is not supported; {remedy}")
    return Connection(
        _url(cluster, "server", "https", "http").rstrip("/"),
        KubeconfigLogin(cluster, user),
        namespace=context.text("namespace") or "default",
        proxy=_url(cluster, "proxy-url", "http") if cluster.text("proxy-url") else None,
        server_name=cluster.text("tls-server-name"),
    )


def _context(config: Kubeconfig, paths: tuple[Path, ...], name: str | None) -> Fields:
    known = config.names("contexts")
    if name is None:
        return config.referred(config.top, "current-context", "contexts")
    if name not in known:
        shown = os.pathsep.join(map(str, paths))
        raise NoConnection(f"{shown}: has no context {name!r}; write one of {', '.join(known)}")
    return config.named("contexts", name)


def _url(cluster: Fields, field: str, *schemes: str) -> str:
    text = cluster.text(field) or ""
    try:
        parts = urlsplit(text)
        is_url = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:  # such as a port that is no number
        is_url = False
    if not is_url:
        # A proxy's URL may hold a password.
        shown = re.sub("//.*@", "//…@", text)
        what = f"{shown!r} is not a URL" if text else "is missing"
        raise NoConnection(f"{cluster.place(field)}: {what}; write {schemes[0]}://HOST:PORT")
    return text
