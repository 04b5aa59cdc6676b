"""Logins: credentials from a kubeconfig's user or a pod's service account.

`connection` asks a login for credentials, and again before they expire or when the API server
rejects them. The kubernetes package's loaders read a kubeconfig's context or the service account's
files. This module takes what requests need from their result. The loaders get certificates and keys
as files in memory: their own temporary files would leave keys on the disk if the process is killed.
"""

import base64
import contextlib
import os
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote

from kubernetes.client import Configuration
from kubernetes.config import ConfigException, load_kube_config_from_dict
from kubernetes.config.incluster_config import InClusterConfigLoader

from imagenet_operator.clusters.kubernetes.exec_plugin import (
    ExecCredential,
    ExecPlugin,
    LoginFailed,
)
from imagenet_operator.clusters.kubernetes.kubeconfig import (
    Content,
    Fields,
    NoConnection,
    reason,
)

FILE_SECONDS: Final = 60.0
"""Seconds between two reads of a login's files: the kubelet rotates tokens."""

EARLIEST_RENEWAL: Final = 300.0
"""The seconds before its end at which a credential is renewed; at the most 1/5 of its time."""

_TOKEN_FILE = "it takes a file that holds a token and nothing else"
_AUTHORITY = "it takes the PEM certificates of the authority that signs the API server's"
_OWN_KEY = "it takes a PEM certificate and the key of this certificate, without a passphrase"


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
        self._impersonation = _impersonation(user)
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
        headers = _authorization(configuration) + self._impersonation
        return Credentials(headers, tls, renew, valid)

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


def _impersonation(user: Fields) -> tuple[tuple[str, str], ...]:
    """Return the headers for impersonation, which the package lacks.

    Raises:
        NoConnection: A field cannot be used.
    """
    headers = [("Impersonate-User", name) for name in filter(None, [user.text("as")])]
    uid = user.text("as-uid")
    headers += [("Impersonate-Uid", uid)] if uid is not None else []
    headers += [("Impersonate-Group", group) for group in user.texts("as-groups")]
    extra = user.values.get("as-user-extra") or {}
    if not isinstance(extra, dict):
        raise NoConnection(f"{user.place('as-user-extra')}: is not an object; write KEY: [VALUE]")
    fields = Fields(user.file, f"{user.name}as-user-extra.", extra)
    for key in map(str, extra):
        name = f"Impersonate-Extra-{quote(key, safe='')}"
        headers += [(name, value) for value in fields.texts(key)]
    if headers and user.text("as") is None:
        raise NoConnection(f"{user.place('as')}: is missing; write the user to act as")
    for _, value in headers:
        if value != value.strip() or not value.isprintable():
            raise NoConnection(f"{user.place('as')}: {value!r} is not one line of text")
    return tuple(headers)
