"""The login to the API server: its address, and credentials that stay valid.

In a cluster, the pod's service account is the login; outside, a context of KUBECONFIG. `client`
and kopf's session take the credentials of each request from a `Connection`. They are loaded again
before they expire, and when the API server refuses them, without a restart.

The kubernetes package loads the service account and the context, and runs exec plugins. Its errors
name neither file nor field, and it ignores a plugin that fails. So a kubeconfig's fields are
checked here before they are loaded, and a plugin runs before the loader gets its answer.
"""

import asyncio
import base64
import binascii
import contextlib
import hashlib
import logging
import os
import re
import ssl
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import aiohttp
from kubernetes.client import Configuration
from kubernetes.config import ConfigException, load_kube_config_from_dict
from kubernetes.config.exec_provider import ExecProvider
from kubernetes.config.incluster_config import InClusterConfigLoader
from kubernetes.config.kube_config import ConfigNode, FileOrData
from yarl import URL

from imagenet_spec.errors import ImageNetJobError, UnreadableManifest
from imagenet_spec.load import documents

LOGGER = logging.getLogger(__name__)

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

FILE_SECONDS: Final = 60.0
"""Seconds between two reads of a login's files: the kubelet rotates tokens."""

EARLIEST_RENEWAL: Final = 300.0
"""The seconds before its end at which a credential is renewed; at the most 1/5 of its time."""

RENEWAL_SECONDS: Final = 10.0
"""The shortest time between two logins after refusals or failures."""

PLUGIN_SECONDS: Final = 60.0
"""How long a plugin may take, unless it can ask at a terminal."""

_PLUGIN_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_LONGEST_OUTPUT = 1000

_UNSUPPORTED = {
    "insecure-skip-tls-verify": "write certificate-authority-data, and tls-server-name if the "
    "certificate names another host",
    "auth-provider": "write exec, with a plugin that fetches the token",
    **dict.fromkeys(("username", "password"), "use a user with a certificate or a token"),
    # The loader ignores them, and requests would have the rights of the user that logs in.
    **dict.fromkeys(
        ("as", "as-uid", "as-groups", "as-user-extra"), "use a user that has these rights itself"
    ),
}
"""Fields of clusters and users that are refused, and what to write instead."""

_LISTED = {
    "contexts": "write its cluster and user",
    "clusters": "write its server",
    "users": "write a client certificate or a token, or {} for anonymous requests",
}
"""What to write for each list, if an item lacks its object."""

_PEM_FILE = "write the path of a PEM file that is there"
_TOKEN_FILE = "it takes a file that holds a token and nothing else"
_AUTHORITY = "it takes the PEM certificates of the authority that signs the API server's"
_OWN_KEY = "it takes a PEM certificate and the key of this certificate, without a passphrase"


class NoConnection(ImageNetJobError, OSError):  # noqa: N818 - says what is missing
    """The API server or the login is unknown, or cannot be used at the moment.

    An OSError as well, so that a watch that needs the login tries again.
    """

    def __init__(self, text: str) -> None:
        # Names in a kubeconfig are arbitrary, and an error is one line.
        super().__init__("".join(char if char.isprintable() else repr(char)[1:-1] for char in text))


@dataclass(frozen=True)
class Credentials:
    """The credentials of a request.

    Attributes:
        tls: The TLS context; None without TLS.
        certificates: A hash of what the TLS context is made of.
    """

    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    tls: ssl.SSLContext | None = field(default=None, compare=False)
    certificates: bytes = field(default=b"", repr=False)
    renew_seconds: float = field(default=inf, compare=False)
    valid_seconds: float = field(default=inf, compare=False)


class Login(Protocol):
    """A way to get credentials."""

    async def log_in(self) -> Credentials:
        """Return credentials, equal ones if nothing has changed; raise NoConnection without any."""
        ...


@dataclass
class _Held:
    credentials: Credentials
    renew_at: float
    valid_until: float


class Connection:
    """The way to the API server.

    Requests without a login are anonymous. The namespace is that of the kubeconfig's context, and
    the server's name that in its certificate, if the URL has another.
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
        self._login = login
        self.clock: Callable[[], float] = time.monotonic
        self._held: _Held | None = None
        self._renewed_at = -inf
        self._renewal: asyncio.Task[Credentials] | None = None

    async def credentials(self) -> Credentials:
        """Return what the next request carries; raise NoConnection if there is no login."""
        held = self._held
        if held is not None and self.clock() < held.renew_at:
            return held.credentials
        return await self._renew()

    async def renew(self, refused: Credentials) -> Credentials:
        """Return other credentials after a refusal (401); the same ones if there are no others."""
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
            found = Credentials() if self._login is None else await self._login.log_in()
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

        Its token is renewed; its certificate stays that of the credentials. `answered` gets each
        response before its content is read.
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
    """Return the connection of the pod's service account, or of KUBECONFIG; raise NoConnection."""
    host = environment.get("KUBERNETES_SERVICE_HOST")
    if host and (SERVICE_ACCOUNT / "token").exists():
        port = environment.get("KUBERNETES_SERVICE_PORT") or "443"
        login = _ServiceAccountLogin(SERVICE_ACCOUNT, host, port)
        namespace = ""
        with contextlib.suppress(OSError):
            namespace = (SERVICE_ACCOUNT / "namespace").read_text(encoding="utf-8").strip()
        return Connection(login.server, login, namespace=namespace or "default")
    paths = _kubeconfigs(environment)
    if not any(os.access(path, os.R_OK) for path in paths):
        shown = os.pathsep.join(map(str, paths))
        raise NoConnection(
            f"no API server is known: this is no pod with a service account, and {shown} is no "
            "file that can be read; set KUBECONFIG to the path of one kubeconfig"
        )
    return from_kubeconfig(*paths)


def of_user(context: str | None = None, environment: Mapping[str, str] = os.environ) -> Connection:
    """Return the connection of a user's program: KUBECONFIG's, else that of the service account.

    Without a context's name, it is the current one; without any, NoConnection is raised.
    """
    paths = _kubeconfigs(environment)
    if context is not None or any(os.access(path, os.R_OK) for path in paths):
        return from_kubeconfig(*paths, name=context)
    return find(environment)


def of_context(name: str, environment: Mapping[str, str] = os.environ) -> Connection:
    """Return the connection of a context of KUBECONFIG, also in a pod; raise NoConnection."""
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
    """Return the connection of a context of kubeconfigs: the current one without a name.

    The first file that names a context, a cluster or a user decides. A field that cannot be used
    is a NoConnection.
    """
    config = _Kubeconfig(paths, "current context" if name is None else f"context {name!r}")
    context = config.context(name)
    cluster = config.referred(context, "cluster", "clusters")
    user = _Fields(context.file, "", {})
    # As with kubectl, a context needs no user.
    if context.text("user") is not None:
        user = config.referred(context, "user", "users")
    for fields in (cluster, user):
        for unsupported, remedy in _UNSUPPORTED.items():
            value = fields.values.get(unsupported)
            # Any text or number may be the name of a user, also 0 and a YAML "no".
            is_given = value not in (None, "", [], {}) if unsupported.startswith("as") else value
            if is_given:
                raise NoConnection(f"{fields.place(unsupported)}: is not supported; {remedy}")
    return Connection(
        cluster.url("server", "https", "http").rstrip("/"),
        _KubeconfigLogin(cluster, user),
        namespace=context.text("namespace") or "default",
        proxy=cluster.url("proxy-url", "http") if cluster.text("proxy-url") else None,
        server_name=cluster.text("tls-server-name"),
    )


@dataclass(frozen=True)
class _Fields:
    """An object of a kubeconfig; its name ends with a dot, and is empty for the whole file."""

    file: Path
    name: str
    values: dict[str, Any]

    def place(self, name: str) -> str:
        """Return a field's name in errors."""
        return f"{self.file}: {self.name}{name}"

    def text(self, name: str) -> str | None:
        value = self.values.get(name)
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            raise NoConnection(f"{self.place(name)}: is not text; write it in quotes")
        return value

    def path(self, name: str, remedy: str) -> Path | None:
        """Return the path of a file that can be read; None if it is absent."""
        text = self.text(name)
        if text is None:
            return None
        path = self.file.parent / text
        with _named(f"{self.place(name)}: {path}", remedy):
            path.open("rb").close()
        return path

    def pem(self, name: str) -> dict[str, str]:
        """Return the field ``NAME-data``, or ``NAME`` with a whole path; empty without both."""
        encoded = self.text(f"{name}-data")
        if encoded is None:
            path = self.path(name, _PEM_FILE)
            return {} if path is None else {name: str(path)}
        remedy = f"write a PEM file in base64, or its path as {name}"
        with _named(self.place(f"{name}-data"), remedy):
            # It may be wrapped. The loader ignores other characters, which are a sign of damage.
            base64.b64decode("".join(encoded.split()).encode(), validate=True)
        return {f"{name}-data": encoded}

    def url(self, name: str, *schemes: str) -> str:
        """Return a URL with a host and one of these schemes."""
        text = self.text(name) or ""
        try:
            parts = urlsplit(text)
            is_url = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
        except ValueError:  # such as a port that is no number
            is_url = False
        if not is_url:
            # A proxy's URL may hold a password.
            shown = re.sub("//.*@", "//…@", text)
            what = f"{shown!r} is not a URL" if text else "is missing"
            raise NoConnection(f"{self.place(name)}: {what}; write {schemes[0]}://HOST:PORT")
        return text


class _Kubeconfig:
    """One file or several; as with kubectl, the first file that names something decides.

    The package's merger takes the last file's current-context, and stops at an item without a name.
    In errors, `which` says which context is to be read.
    """

    def __init__(self, paths: Sequence[Path], which: str) -> None:
        self._shown = os.pathsep.join(map(str, paths))
        self._no_kubeconfig = f"is not a kubeconfig with a {which}"
        self._files = [_Fields(path, "", self._read(path)) for path in paths]

    def _read(self, path: Path) -> dict[str, Any]:
        with _named(f"{path}: {self._no_kubeconfig}", "set KUBECONFIG to the path of one"):
            read = documents(path.read_text(encoding="utf-8"), str(path))
            if len(read) != 1 or not isinstance(read[0], dict):
                raise ValueError("does not hold one object")
        return dict(read[0])

    def context(self, name: str | None) -> _Fields:
        """Return a context; the current one without a name."""
        if name is None:
            named = (file for file in self._files if file.values.get("current-context"))
            top = next(named, self._files[0])
            return self.referred(top, "current-context", "contexts")
        known = self._items("contexts")
        if name not in known:
            listed = ", ".join(known)
            raise NoConnection(f"{self._shown}: has no context {name!r}; write one of {listed}")
        return self._object("contexts", name)

    def referred(self, fields: _Fields, field: str, part: str) -> _Fields:
        """Return the object of a list, such as ``clusters``, that a field names."""
        name, known = fields.text(field), self._items(part)
        if name is None or name not in known:
            what = "is missing" if name is None else f"{name!r} is not among the {part}"
            raise NoConnection(f"{fields.place(field)}: {what}; write one of {', '.join(known)}")
        return self._object(part, name)

    def _object(self, part: str, name: str) -> _Fields:
        kind = part.removesuffix("s")
        file, item = self._items(part)[name]
        values = item.get(kind)
        if not isinstance(values, dict):
            what = "is empty" if values is None else "is not an object"
            raise NoConnection(f"{file}: {part}[{name}].{kind}: {what}; {_LISTED[part]}")
        return _Fields(file, f"{part}[{name}].{kind}.", values)

    def _items(self, part: str) -> dict[str, tuple[Path, dict[str, Any]]]:
        items: dict[str, tuple[Path, dict[str, Any]]] = {}
        for file in self._files:
            listed = file.values.get(part)
            for item in listed if isinstance(listed, list) else ():
                if isinstance(item, dict) and isinstance(item.get("name"), str):
                    items.setdefault(item["name"], (file.file, item))
        if not items:
            raise NoConnection(
                f"{self._shown}: {self._no_kubeconfig}: {part}: is not a list of {part}; write one "
                f"of objects with name and {part.removesuffix('s')}"
            )
        return items


class _ServiceAccountLogin:
    """The service account of the pod that the process runs in."""

    def __init__(self, folder: Path, host: str, port: str) -> None:
        self._folder = folder
        self._token, self._authority = str(folder / "token"), str(folder / "ca.crt")
        self._loader = InClusterConfigLoader(
            self._token,
            self._authority,
            try_refresh_token=False,
            environ={"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port},
        )
        configuration = self._load()
        # A token that cannot be sent is reported at the start.
        _headers(configuration, self._token)
        self.server: str = configuration.host

    async def log_in(self) -> Credentials:
        configuration = self._load()
        tls, certificates = _tls(configuration, self._authority, "")
        return Credentials(_headers(configuration, self._token), tls, certificates, FILE_SECONDS)

    def _load(self) -> Configuration:
        configuration = Configuration()
        with _named(str(self._folder), "mount a service account into the pod"):
            self._loader.load_and_set(configuration)
        return configuration


class _KubeconfigLogin:
    """The user of a kubeconfig's context, and its cluster."""

    def __init__(self, cluster: _Fields, user: _Fields) -> None:
        self._cluster = cluster
        self._user = user
        self._plugin: _ExecPlugin | None = None
        plugin = user.values.get("exec")
        if plugin is not None:
            if not isinstance(plugin, dict):
                raise NoConnection(f"{user.place('exec')}: is not an object; write its command")
            self._plugin = _ExecPlugin(_Fields(user.file, f"{user.name}exec.", plugin), cluster)

    async def log_in(self) -> Credentials:
        authority = self._cluster.pem("certificate-authority")
        authority_place = self._cluster.place(next(iter(authority), "certificate-authority"))
        if "certificate-authority" in authority:
            authority_place += f": {authority['certificate-authority']}"
        certificate, key = (self._user.pem(f"client-{name}") for name in ("certificate", "key"))
        if bool(certificate) != bool(key):
            absent, other = ("key", "certificate") if certificate else ("certificate", "key")
            place = self._user.place(f"client-{absent}")
            raise NoConnection(f"{place}: is missing; write it, or remove client-{other}")
        cluster: dict[str, Any] = {"server": self._cluster.values["server"], **authority}
        user = {**certificate, **key}
        token_place, expires = self._user.place("token"), None
        token, token_file = self._user.text("token"), self._user.path("tokenFile", _TOKEN_FILE)
        if token_file is not None:
            token_place = f"{self._user.place('tokenFile')}: {token_file}"
            user["tokenFile"] = str(token_file)
        elif token is not None:
            user["token"] = token
        # As with kubectl, a token counts for more than a plugin.
        elif self._plugin is not None:
            token_place = f"{self._user.place('exec')}: the token of the plugin"
            answer, expires = await self._plugin.run()
            user |= answer
        described = {
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user}],
        }
        configuration = Configuration()
        remedy = "tokens are UTF-8 text, and the folder of TMPDIR can be written"
        with (
            _named(self._user.place("").rstrip(". :"), remedy),
            # For keys: only this user can read them, and they are gone when TLS has loaded them.
            tempfile.TemporaryDirectory(prefix="imagenet-operator-") as folder,
        ):
            load_kube_config_from_dict(
                described,
                client_configuration=configuration,
                persist_config=False,
                temp_file_path=folder,
            )
            tls, certificates = _tls(
                configuration,
                authority_place,
                f"{self._user.place('client-certificate')} and client-key",
            )
        files = {"certificate-authority", "client-certificate", "client-key", "tokenFile"}
        renew, valid = FILE_SECONDS if files & {*authority, *user} else inf, inf
        if expires is not None:
            valid = max(0.0, (expires - datetime.now(UTC)).total_seconds())
            renew = max(valid - EARLIEST_RENEWAL, valid * 4 / 5)
        return Credentials(_headers(configuration, token_place), tls, certificates, renew, valid)


def _is_variable(item: Any) -> bool:
    return isinstance(item, dict) and all(isinstance(item.get(x), str) for x in ("name", "value"))


class _ExecPlugin:
    """The exec plugin of a kubeconfig's user: a program that prints credentials."""

    def __init__(self, fields: _Fields, cluster: _Fields) -> None:
        self._place = fields.place("command")
        command = fields.text("command")
        if command is None:
            raise NoConnection(f"{self._place}: is missing; write the plugin's name or path")
        if fields.text("apiVersion") not in _PLUGIN_VERSIONS:
            versions = " or ".join(_PLUGIN_VERSIONS)
            raise NoConnection(f"{fields.place('apiVersion')}: write {versions}")
        if fields.text("interactiveMode") == "Always" and not (sys.stdin and sys.stdin.isatty()):
            raise NoConnection(
                f"{fields.place('interactiveMode')}: Always needs a terminal; write IfAvailable"
            )
        # As with kubectl: a path is relative to the kubeconfig, a name is found on the PATH.
        self._command = str(fields.file.parent / command) if "/" in command else command
        self._hint = fields.text("installHint") or "install it"
        arguments = fields.values.get("args") or []
        if not isinstance(arguments, list) or not all(isinstance(item, str) for item in arguments):
            raise NoConnection(
                f"{fields.place('args')}: is not a list of texts; write them in quotes"
            )
        described = dict(cluster.values)
        if fields.values.get("provideClusterInfo"):
            # As kubectl tells plugins of the cluster: with the certificates, not their path.
            authority = cluster.pem("certificate-authority")
            described.pop("certificate-authority", None)
            with _named(cluster.place("certificate-authority"), _PEM_FILE):
                content = FileOrData(authority, "certificate-authority").as_data()
            if content is not None:
                described["certificate-authority-data"] = content
        variables = fields.values.get("env") or []
        if not isinstance(variables, list) or not all(map(_is_variable, variables)):
            raise NoConnection(
                f"{fields.place('env')}: is not a list of variables; write objects with name and "
                "value, in quotes"
            )
        self._provider = ExecProvider(
            ConfigNode("exec", {**fields.values, "command": self._command}),
            None,
            ConfigNode("cluster", described),
        )
        self._run: Future[Any] | None = None

    async def run(self) -> tuple[dict[str, str], datetime | None]:
        """Run the plugin; return the fields of a user that it says, and when they expire."""
        if self._run is None or self._run.done():
            self._run = _in_thread(self._provider.run)
        limit = None if sys.stdout.isatty() else PLUGIN_SECONDS
        try:
            status = await asyncio.wait_for(asyncio.wrap_future(self._run), limit)
            return _as_user(status)
        except TimeoutError as error:
            raise self._failed(f"has not answered in {PLUGIN_SECONDS:g} s") from error
        except FileNotFoundError as error:
            raise self._failed(f"no such program; {self._hint}") from error
        except (ConfigException, OSError, ValueError, TypeError, LookupError) as error:
            said = str(error).strip()[-_LONGEST_OUTPUT:]
            raise self._failed(f"{said}; run it in a terminal to see what it prints") from error

    def _failed(self, why: str) -> NoConnection:
        return NoConnection(f"{self._place}: {self._command}: {why}")


def _in_thread(run: Callable[[], Any]) -> Future[Any]:
    done: Future[Any] = Future()
    # From now on, a caller that gives up does not cancel it for others.
    done.set_running_or_notify_cancel()

    def work() -> None:
        try:
            done.set_result(run())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=work, name="exec plugin", daemon=True).start()
    return done


def _as_user(status: Any) -> tuple[dict[str, str], datetime | None]:
    """Return what the field ``status`` of a plugin's answer says, as fields of a user.

    Raises TypeError if it has no fields, and ValueError if it holds no login.
    """
    said = {name: value for name, value in dict(status).items() if value}
    for name in ("token", "clientCertificateData", "clientKeyData", "expirationTimestamp"):
        if not isinstance(said.get(name, ""), str):
            raise ValueError(f"status.{name} is not text")
    if ("clientCertificateData" in said) != ("clientKeyData" in said):
        raise ValueError("status has only one of clientCertificateData and clientKeyData")
    user = {}
    if "token" in said:
        user["token"] = said["token"]
    if "clientKeyData" in said:
        for name, kind in (("clientCertificateData", "certificate"), ("clientKeyData", "key")):
            user[f"client-{kind}-data"] = base64.b64encode(said[name].encode()).decode()
    if not user:
        raise ValueError("status has neither token nor clientCertificateData")
    if "expirationTimestamp" not in said:
        return user, None
    # RFC 3339 has a small z, too.
    expires = datetime.fromisoformat(said["expirationTimestamp"].replace("z", "Z"))
    return user, expires.replace(tzinfo=UTC) if expires.tzinfo is None else expires


def _headers(configuration: Configuration, place: str) -> tuple[tuple[str, str], ...]:
    """Return the header with a configuration's token; the place names it in errors."""
    _, _, token = configuration.api_key.get("BearerToken", "").partition(" ")
    token = token.strip()
    if not token.isprintable():
        raise NoConnection(f"{place}: is not one line of text; write the token alone")
    return (("Authorization", f"Bearer {token}"),) if token else ()


def _tls(
    configuration: Configuration, authority: str, certificate: str
) -> tuple[ssl.SSLContext | None, bytes]:
    """Return the TLS context for a configuration, and a hash of what it is made of.

    In errors, `authority` names the API server's authority, and `certificate` our certificate.
    """
    if not configuration.host.startswith("https:"):
        return None, b""
    # Each file is read before TLS loads it: if it is replaced between, the next hash differs.
    content = hashlib.sha256()
    with _named(authority, _AUTHORITY):
        if configuration.ssl_ca_cert is not None:
            content.update(Path(configuration.ssl_ca_cert).read_bytes())
        context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    # Since Python 3.13, the default asks for extensions that authorities of clusters may lack, and
    # that no other client of Kubernetes asks for.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if configuration.cert_file is not None:
        with _named(certificate, _OWN_KEY):
            for file in (configuration.cert_file, configuration.key_file):
                content.update(Path(file).read_bytes())
            # With an empty password: otherwise OpenSSL would ask for one at the terminal.
            context.load_cert_chain(configuration.cert_file, configuration.key_file, password="")
    return context, content.digest()


@contextlib.contextmanager
def _named(place: str, remedy: str) -> Iterator[None]:
    """Name the place of an error, and what to write instead."""
    try:
        yield
    except NoConnection:
        raise
    except (ConfigException, UnreadableManifest, OSError, TypeError, ValueError) as error:
        why = str(error).rstrip(".")
        if isinstance(error, ssl.SSLError):
            why = f"TLS cannot use it ({(error.reason or 'damaged').replace('_', ' ').lower()})"
        elif isinstance(error, binascii.Error):
            why = f"is not base64 ({error})"
        elif isinstance(error, UnicodeDecodeError):
            why = "is not UTF-8 text"
        elif isinstance(error, UnreadableManifest):
            why = error.message
        elif isinstance(error, OSError) and error.strerror:
            why = error.strerror[:1].lower() + error.strerror[1:]
        raise NoConnection(f"{place}: {why}; {remedy}") from error
