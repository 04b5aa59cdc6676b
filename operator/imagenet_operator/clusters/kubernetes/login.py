"""The login to the API server: its address, and credentials that stay valid.

In a cluster, the pod's service account is the login; outside, a context of KUBECONFIG. `client`
and kopf's session take the credentials for each request from a `Connection`. They are renewed
before they expire, and when the API server refuses them, without a restart.

The kubernetes package's loaders read a kubeconfig's context or the service account's files, and
its `ExecProvider` runs exec plugins (ExecCredential). This module takes what requests need from
their result. The loaders get certificates and keys as files in memory: their own temporary files
would leave keys on the disk if the process is killed.

People edit kubeconfigs, programs write into them, and the files that they name disappear. So each
value is checked where it is read, before the package gets it. That package merges files too, but
takes the last file's current-context, where kubectl takes the first's, and stops at an item
without a name.
"""

import asyncio
import base64
import contextlib
import logging
import os
import re
import ssl
import sys
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
from kubernetes.config.kube_config import ConfigNode
from yarl import URL

from imagenet_operator.api.load import documents
from imagenet_operator.errors import ImageNetJobError, UnreadableManifest

LOGGER = logging.getLogger(__name__)

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

RENEWAL_SECONDS: Final = 10.0
"""The shortest time between two logins after refusals or failures."""

_REMEDIES = {
    "insecure-skip-tls-verify": "write certificate-authority-data, and tls-server-name if the "
    "certificate names another host",
    "auth-provider": "write exec, with a plugin that fetches the token",
    **dict.fromkeys(("username", "password"), "use a user with a certificate or a token"),
    # The loader ignores them, and requests would have the rights of the user that logs in.
    **dict.fromkeys(
        ("as", "as-uid", "as-groups", "as-user-extra"), "use a user that has these rights itself"
    ),
}
"""Unsupported fields of clusters and users, and what to write instead."""

FILE_SECONDS: Final = 60.0
"""Seconds between two reads of a login's files: the kubelet rotates tokens."""

EARLIEST_RENEWAL: Final = 300.0
"""The seconds before its end at which a credential is renewed; at the most 1/5 of its time."""

_TOKEN_FILE = "it takes a file that holds a token and nothing else"
_AUTHORITY = "it takes the PEM certificates of the authority that signs the API server's"
_OWN_KEY = "it takes a PEM certificate and the key of this certificate, without a passphrase"


class NoConnection(ImageNetJobError):  # noqa: N818 - says what is missing
    """The API server or the login is unknown, or cannot be used."""

    def __init__(self, text: str) -> None:
        # Names in a kubeconfig are arbitrary, and an error is one line.
        super().__init__("".join(char if char.isprintable() else repr(char)[1:-1] for char in text))


_CONTENTS = {
    "contexts": "write its cluster and user",
    "clusters": "write its server",
    "users": "write a client certificate or a token, or {} for anonymous requests",
}
"""What to write for each list, if an item lacks its object."""


@dataclass(frozen=True)
class Content:
    """The content of a field, or of the file that it names.

    Attributes:
        place: Its name in errors: the kubeconfig, the field, the file.
        data: The content.
    """

    place: str
    data: bytes


@dataclass(frozen=True)
class Fields:
    """An object of a kubeconfig.

    Attributes:
        file: The kubeconfig.
        name: The object's path with a dot behind it; empty for the file as a whole.
        values: Its fields.
    """

    file: Path
    name: str
    values: dict[str, Any]

    def place(self, field: str) -> str:
        """Return a field's name in errors."""
        return f"{self.file}: {self.name}{field}"

    def text(self, field: str) -> str | None:
        """Return a text; None if it is absent or empty."""
        value = self.values.get(field)
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            raise NoConnection(f"{self.place(field)}: is not text; write it in quotes")
        return value

    def texts(self, field: str) -> tuple[str, ...]:
        """Return a list of texts; empty if it is absent."""
        value = self.values.get(field)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise NoConnection(f"{self.place(field)}: is not a list of texts; write them in quotes")
        return tuple(value)

    def path(self, field: str) -> Path | None:
        """Return a path, relative to the kubeconfig's folder; None if it is absent."""
        text = self.text(field)
        return None if text is None else self.file.parent / text

    def content(self, field: str) -> Content | None:
        """Return the content of ``FIELD-data``, or of the file that ``FIELD`` names."""
        encoded, path = self.text(f"{field}-data"), self.path(field)
        if encoded is not None:
            return Content(self.place(f"{field}-data"), self._decoded(field, encoded))
        if path is None:
            return None
        place = f"{self.place(field)}: {path}"
        try:
            return Content(place, path.read_bytes())
        except (OSError, ValueError) as error:
            raise NoConnection(
                f"{place}: {reason(error)}; write the path of a PEM file that is there"
            ) from error

    def _decoded(self, field: str, encoded: str) -> bytes:
        try:
            # It may be wrapped, but a character that is no base64 is a sign of damage.
            return base64.b64decode("".join(encoded.split()), validate=True)
        except ValueError as error:
            raise NoConnection(
                f"{self.place(field)}-data: is not base64 ({error}); write a PEM file in base64, "
                f"or its path as {field}"
            ) from error


class Kubeconfig:
    """One file or several; as with kubectl, the first file that names something decides.

    Args:
        files: Their paths, at least one.
        which: The context to be read, for errors: the current one, or another.

    Raises:
        NoConnection: A file cannot be read, or is not a kubeconfig.
    """

    def __init__(self, files: Sequence[Path], which: str) -> None:
        self._shown = os.pathsep.join(map(str, files))
        self._which = which
        self._files = [Fields(file, "", self._read(file)) for file in files]

    @property
    def top(self) -> Fields:
        """The first file with a current context; the first file if none has one."""
        named = (file for file in self._files if file.values.get("current-context"))
        return next(named, self._files[0])

    def names(self, part: str) -> list[str]:
        """Return the names in a list, such as ``contexts``."""
        return list(self._items(part))

    def named(self, part: str, name: str) -> Fields:
        """Return a list's object by its name: a context, a cluster, a user."""
        kind = part.removesuffix("s")
        file, item = self._items(part)[name]
        values = item.get(kind)
        if not isinstance(values, dict):
            what = "is empty" if values is None else "is not an object"
            raise NoConnection(f"{file}: {part}[{name}].{kind}: {what}; {_CONTENTS[part]}")
        return Fields(file, f"{part}[{name}].{kind}.", values)

    def referred(self, fields: Fields, field: str, part: str) -> Fields:
        """Return the object of a list that a field names."""
        name, known = fields.text(field), self.names(part)
        if name is None or name not in known:
            what = "is missing" if name is None else f"{name!r} is not among the {part}"
            raise NoConnection(f"{fields.place(field)}: {what}; write one of {', '.join(known)}")
        return self.named(part, name)

    def _items(self, part: str) -> dict[str, tuple[Path, dict[str, Any]]]:
        items: dict[str, tuple[Path, dict[str, Any]]] = {}
        for file in self._files:
            listed = file.values.get(part)
            for item in listed if isinstance(listed, list) else ():
                if isinstance(item, dict) and isinstance(item.get("name"), str):
                    items.setdefault(item["name"], (file.file, item))
        if not items:
            kind = part.removesuffix("s")
            raise self._no_kubeconfig(
                self._shown,
                f"{part}: is not a list of {part}; write one of objects with name and {kind}",
            )
        return items

    def _read(self, file: Path) -> dict[str, Any]:
        remedy = "set KUBECONFIG to the path of one"
        try:
            read = documents(file.read_text(encoding="utf-8"), str(file))
        except UnreadableManifest as error:
            raise self._no_kubeconfig(file, f"{error.message}; {remedy}") from error
        except (OSError, ValueError) as error:
            raise self._no_kubeconfig(file, f"{reason(error)}; {remedy}") from error
        if len(read) != 1 or not isinstance(read[0], dict):
            raise self._no_kubeconfig(file, f"does not hold one object; {remedy}")
        return dict(read[0])

    def _no_kubeconfig(self, file: Path | str, why: str) -> NoConnection:
        return NoConnection(f"{file}: is not a kubeconfig with a {self._which}: {why}")


def reason(error: OSError | ValueError) -> str:
    """Return why a file cannot be read or used, as part of an error line."""
    if isinstance(error, ssl.SSLError):
        return f"TLS cannot use it ({(error.reason or 'damaged').replace('_', ' ').lower()})"
    if isinstance(error, UnicodeDecodeError):
        return "is not UTF-8 text"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error)


PLUGIN_SECONDS: Final = 60.0
"""How long a plugin may take, unless it can ask at a terminal."""

_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_LONGEST_OUTPUT = 1000


class LoginFailed(NoConnection, OSError):  # noqa: N818 - as its base
    """There is no login at the moment; the next attempt may succeed.

    An OSError as well, so that a watch that needs the login tries again.
    """


@dataclass(frozen=True)
class ExecCredential:
    """A plugin's answer.

    Attributes:
        token: A bearer token.
        certificate: A client certificate with its key, in PEM.
        expires: The end of its validity; None if it is valid until the API server refuses it.
    """

    token: str | None
    certificate: bytes | None
    expires: datetime | None


class ExecPlugin:
    """The plugin of a kubeconfig's user.

    Args:
        fields: The user's field ``exec``.
        cluster: The cluster, for plugins with ``provideClusterInfo``.

    Raises:
        NoConnection: A field cannot be used.
    """

    def __init__(self, fields: Fields, cluster: Mapping[str, Any]) -> None:
        self._place = fields.place("command")
        command = fields.text("command")
        if command is None:
            raise NoConnection(f"{self._place}: is missing; write the plugin's name or path")
        if fields.text("apiVersion") not in _VERSIONS:
            raise NoConnection(f"{fields.place('apiVersion')}: write {' or '.join(_VERSIONS)}")
        if fields.text("interactiveMode") == "Always" and not (sys.stdin and sys.stdin.isatty()):
            raise NoConnection(
                f"{fields.place('interactiveMode')}: Always needs a terminal; write IfAvailable"
            )
        # As with kubectl: a path is relative to the kubeconfig, a name is found on the PATH.
        self.command = str(fields.file.parent / command) if "/" in command else command
        self._hint = fields.text("installHint")
        described = {
            "apiVersion": fields.values["apiVersion"],
            "command": self.command,
            "args": list(fields.texts("args")),
            "env": _environment(fields),
            "provideClusterInfo": fields.values.get("provideClusterInfo") is True,
        }
        self._provider = ExecProvider(
            ConfigNode("exec", described), None, ConfigNode("cluster", dict(cluster))
        )
        self._run: Future[Any] | None = None

    async def run(self) -> ExecCredential:
        """Run the plugin, and return its answer.

        Raises:
            LoginFailed: It cannot be run, fails, takes too long, or prints something else.
        """
        if self._run is None or self._run.done():
            self._run = _in_thread(self._provider.run)
        limit = None if sys.stdout.isatty() else PLUGIN_SECONDS
        try:
            status = await asyncio.wait_for(asyncio.wrap_future(self._run), limit)
            return _read(status)
        except TimeoutError as error:
            raise self._failed(f"has not answered in {PLUGIN_SECONDS:g} s") from error
        except FileNotFoundError as error:
            raise self._failed(f"no such program; {self._hint or 'install it'}") from error
        except (ConfigException, OSError, ValueError, TypeError, LookupError) as error:
            said = str(error).strip()[-_LONGEST_OUTPUT:]
            raise self._failed(f"{said}; run it in a terminal to see what it prints") from error

    def _failed(self, why: str) -> LoginFailed:
        return LoginFailed(f"{self._place}: {self.command}: {why}")


def _environment(fields: Fields) -> list[dict[str, str]]:
    listed = fields.values.get("env") or []
    try:
        pairs = [(item["name"], item["value"]) for item in listed]
        valid = all(isinstance(text, str) for pair in pairs for text in pair)
    except (TypeError, LookupError):
        valid = False
    if not valid:
        raise NoConnection(f"{fields.place('env')}: is not a list of variables; {_VARIABLES}")
    return [{"name": name, "value": value} for name, value in pairs]


_VARIABLES = "write objects with name and value, in quotes"


def _in_thread(run: Any) -> Future[Any]:
    """Run a plugin in a thread that does not delay the end of the program.

    The end of a program waits for the threads of `asyncio.to_thread`.
    """
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


def _read(status: Mapping[str, Any]) -> ExecCredential:
    """Return what the field ``status`` of a plugin's answer says.

    Raises:
        ValueError: It holds no login.
    """
    token = _text(status, "token")
    certificate = _text(status, "clientCertificateData")
    key = _text(status, "clientKeyData")
    if (certificate is None) != (key is None):
        raise ValueError("status has only one of clientCertificateData and clientKeyData")
    if token is None and certificate is None:
        raise ValueError("status has neither token nor clientCertificateData")
    expires = _text(status, "expirationTimestamp")
    return ExecCredential(
        token=token,
        certificate=None if certificate is None else f"{certificate}\n{key}".encode(),
        expires=None if expires is None else _time(expires),
    )


def _text(status: Mapping[str, Any], name: str) -> str | None:
    value = status.get(name) or None
    if value is not None and not isinstance(value, str):
        raise ValueError(f"status.{name} is not text")
    return value


def _time(text: str) -> datetime:
    read = datetime.fromisoformat(text)
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Credentials:
    """The credentials of a request.

    Attributes:
        headers: Names and values; a name may occur twice.
        tls: The TLS context; None without TLS.
        renew_seconds: How long to use them until they are renewed.
        valid_seconds: How long they are valid.
    """

    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    tls: ssl.SSLContext | None = None
    renew_seconds: float = field(default=inf, compare=False)
    valid_seconds: float = field(default=inf, compare=False)


class Login(Protocol):
    """A way to get credentials."""

    async def log_in(self) -> Credentials:
        """Return credentials; equal ones if nothing has changed.

        Raises:
            NoConnection: There are none.
        """
        ...


class Anonymous:
    """Anonymous requests."""

    async def log_in(self) -> Credentials:
        """Return empty credentials."""
        return Credentials()


class ServiceAccountLogin:
    """The service account of the pod that the process runs in.

    Args:
        folder: The folder of its files.
        host: The API server's.
        port: The API server's.

    Raises:
        LoginFailed: A file cannot be read.

    Attributes:
        server: The API server's URL.
    """

    def __init__(self, folder: Path, host: str, port: str) -> None:
        self._folder = folder
        self._loader = InClusterConfigLoader(
            str(folder / "token"),
            str(folder / "ca.crt"),
            try_refresh_token=False,
            environ={"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port},
        )
        self._tls = _Tls(str(folder / "ca.crt"), "")
        self.server: str = self._read().host

    async def log_in(self) -> Credentials:
        """Return the token as it is now.

        Raises:
            LoginFailed: A file cannot be read.
        """
        configuration = self._read()
        return Credentials(
            _authorization(configuration), self._tls.context(configuration), FILE_SECONDS
        )

    def _read(self) -> Configuration:
        configuration = Configuration()
        try:
            self._loader.load_and_set(configuration)
            _authorization(configuration)
        except ConfigException as error:
            raise LoginFailed(f"{self._folder}: {error}") from error
        except (OSError, ValueError) as error:
            raise LoginFailed(f"{self._folder}/token: {reason(error)}; {_TOKEN_FILE}") from error
        return configuration


class KubeconfigLogin:
    """The user of a kubeconfig's context.

    Args:
        cluster: Its cluster, with a server.
        user: Its user.

    Raises:
        NoConnection: A field cannot be used.
    """

    def __init__(self, cluster: Fields, user: Fields) -> None:
        self._cluster = cluster
        self._user = user
        self._token_file = user.path("tokenFile")
        self._token = None if self._token_file is not None else _token(user)
        self._tls = _Tls(
            _place(cluster, "certificate-authority"),
            f"{user.place('client-certificate')} and client-key",
        )
        self._plugin: ExecPlugin | None = None
        plugin = user.values.get("exec")
        if plugin is not None:
            if not isinstance(plugin, dict):
                raise NoConnection(f"{user.place('exec')}: is not an object; write its command")
            fields = Fields(user.file, f"{user.name}exec.", plugin)
            self._plugin = ExecPlugin(fields, _described(cluster))

    async def log_in(self) -> Credentials:
        """Read the files, run the plugin, and return the credentials.

        Raises:
            NoConnection: A file or the plugin's answer cannot be used.
        """
        token = self._token if self._token_file is None else self._read_token(self._token_file)
        said = ExecCredential(token, None, None)
        # As with kubectl, a token counts for more than a plugin.
        if token is None and self._plugin is not None:
            said = await self._plugin.run()
        with contextlib.ExitStack() as files:
            configuration = self._load(said, files)
            tls = self._tls.context(configuration)
        renew, valid = _times(said.expires, self._reads_files)
        return Credentials(_authorization(configuration), tls, renew, valid)

    @property
    def _reads_files(self) -> bool:
        return self._token_file is not None or any(
            fields.values.get(name)
            for fields, name in (
                (self._cluster, "certificate-authority"),
                (self._user, "client-certificate"),
                (self._user, "client-key"),
            )
        )

    def _load(self, said: ExecCredential, files: contextlib.ExitStack) -> Configuration:
        """Return the package's configuration of the context; files last as long as the stack."""
        cluster = {"server": self._cluster.values["server"]}
        user = {} if said.token is None else {"token": said.token}
        authority = self._cluster.content("certificate-authority")
        if authority is not None:
            cluster["certificate-authority"] = files.enter_context(_memory_file(authority))
        certificate = _certificate(self._user)
        if said.certificate is not None:
            certificate = Content(self._user.place("exec"), said.certificate)
        if certificate is not None:
            path = files.enter_context(_memory_file(certificate))
            user |= {"client-certificate": path, "client-key": path}
        configuration = Configuration()
        described: dict[str, Any] = {
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user}],
        }
        load_kube_config_from_dict(
            described, client_configuration=configuration, persist_config=False
        )
        return configuration

    def _read_token(self, path: Path) -> str:
        try:
            return _sendable(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise LoginFailed(
                f"{self._user.place('tokenFile')}: {path}: {reason(error)}; {_TOKEN_FILE}"
            ) from error


class _Tls:
    """TLS contexts, created again only when a certificate has changed.

    Args:
        authority: The name of the API server's authority in errors.
        certificate: The name of our certificate in errors.
    """

    def __init__(self, authority: str, certificate: str) -> None:
        self._authority = authority
        self._certificate = certificate
        self._made: ssl.SSLContext | None = None
        self._made_of: tuple[bytes | None, ...] = ()

    def context(self, configuration: Configuration) -> ssl.SSLContext | None:
        """Return the TLS context for a configuration; None if its server does not use TLS.

        Raises:
            NoConnection: A certificate cannot be used.
        """
        if not configuration.host.startswith("https:"):
            return None
        files = (configuration.ssl_ca_cert, configuration.cert_file)
        try:
            content = tuple(None if file is None else Path(file).read_bytes() for file in files)
        except OSError as error:
            raise LoginFailed(f"{self._authority}: {reason(error)}; {_AUTHORITY}") from error
        if self._made is None or content != self._made_of:
            self._made, self._made_of = self._new(*files), content
        return self._made

    def _new(self, authority: str | None, certificate: str | None) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=authority)
        except (OSError, ValueError) as error:
            raise NoConnection(f"{self._authority}: {reason(error)}; {_AUTHORITY}") from error
        # Since Python 3.13, the default asks for extensions that authorities of clusters may lack,
        # and that no other client of Kubernetes asks for.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if certificate is not None:
            try:
                # With an empty password: otherwise OpenSSL would ask for one at the terminal.
                context.load_cert_chain(certificate, password="")
            except (OSError, ValueError) as error:
                raise NoConnection(f"{self._certificate}: {reason(error)}; {_OWN_KEY}") from error
        return context


@contextlib.contextmanager
def _memory_file(content: Content) -> Iterator[str]:
    """Yield the path of a file in memory: OpenSSL reads keys from files alone."""
    try:
        with os.fdopen(os.memfd_create("imagenet-operator"), "wb") as file:
            file.write(content.data)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
    except OSError as error:
        raise NoConnection(f"{content.place}: no file in memory: {reason(error)}") from error


def _times(expires: datetime | None, reads_files: bool) -> tuple[float, float]:
    """Return the seconds until credentials are renewed, and until they expire."""
    if expires is None:
        return (FILE_SECONDS if reads_files else inf), inf
    left = max(0.0, (expires - datetime.now(UTC)).total_seconds())
    return max(left - EARLIEST_RENEWAL, left * 4 / 5), left


def _authorization(configuration: Configuration) -> tuple[tuple[str, str], ...]:
    """Return the header of a configuration's token.

    Raises:
        ValueError: It is not valid in a header.
    """
    _, _, token = configuration.api_key.get("BearerToken", "").partition(" ")
    return (("Authorization", f"Bearer {_sendable(token)}"),) if token else ()


def _place(fields: Fields, name: str) -> str:
    """Return the name in errors of a field, or of the file that it names."""
    if fields.text(f"{name}-data") is not None:
        return fields.place(f"{name}-data")
    path = fields.path(name)
    return fields.place(name) if path is None else f"{fields.place(name)}: {path}"


def _certificate(user: Fields) -> Content | None:
    """Return a user's certificate with its key behind it; None if there is none."""
    certificate, key = user.content("client-certificate"), user.content("client-key")
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        absent, other = "client-certificate", "client-key"
        if key is None:
            absent, other = other, absent
        raise NoConnection(f"{user.place(absent)}: is missing; write it, or remove {other}")
    place = f"{user.place('client-certificate')} and client-key"
    return Content(place, certificate.data + b"\n" + key.data)


def _described(cluster: Fields) -> dict[str, Any]:
    """Return a cluster as plugins get it: with the authority's certificates."""
    authority = cluster.content("certificate-authority")
    if authority is None:
        return dict(cluster.values)
    encoded = base64.b64encode(authority.data).decode()
    values = {**cluster.values, "certificate-authority-data": encoded}
    values.pop("certificate-authority", None)
    return values


def _token(user: Fields) -> str | None:
    token = user.text("token")
    try:
        return None if token is None else _sendable(token)
    except ValueError as error:
        raise NoConnection(f"{user.place('token')}: {error}; write the token alone") from error


def _sendable(text: str) -> str:
    """Return a text as a header value.

    Raises:
        ValueError: It is not valid in a header.
    """
    stripped = text.strip()
    if not stripped.isprintable():
        raise ValueError("is not one line of text")
    return stripped


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
        for unsupported, remedy in _REMEDIES.items():
            if fields.values.get(unsupported):
                raise NoConnection(f"{fields.place(unsupported)}: is not supported; {remedy}")
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
