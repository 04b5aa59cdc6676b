"""Where the API server is, and who we are to it: the service account's files, or KUBECONFIG.

In a cluster the kubelet mounts the service account's token and renews the file within the hour, so
it is read again and again. Outside, the current context of a kubeconfig is taken, with what kind
and kubeadm write into one: a certificate or a token. Plugins that fetch credentials are not run.
"""

import atexit
import os
import ssl
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from imagenet_operator.clusters.kubernetes.kubeconfig import (
    Content,
    Fields,
    Kubeconfig,
    NoConnection,
    reason,
)

__all__ = ["Connection", "NoConnection", "UnreadableToken", "find", "from_kubeconfig", "of_context"]

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TOKEN_SECONDS = 60.0

_IDENTITY = "use a user with a certificate or a token of its own"
_NOT_SUPPORTED = {
    "proxy-url": "use a cluster that is reached without a proxy",
    "tls-server-name": "write a server that is named in its own certificate",
    **dict.fromkeys(("username", "password", "as", "as-uid", "as-groups"), _IDENTITY),
}
"""Fields that other clients go by, and what to do where one has them: to pass over one in silence
would be to ask somebody else, or as somebody else."""


class UnreadableToken(NoConnection, OSError):  # noqa: N818 - says what there is
    """The file of our token cannot be read, perhaps only now: it is written anew all the time.

    An OSError as well, so that a watch which needs the token waits and tries again.
    """


@dataclass
class Connection:
    """How to reach the API server.

    Attributes:
        server: The URL's beginning.
        authority: The file of the certificates that vouch for the server; None for the system's.
        certificate: The file of our own certificate and key, if that is how we log in.
        token_file: The file of our token, which may be renewed, if that is how we log in.
        token: Our token, if it stands in the kubeconfig itself.
        namespace: Where the kubeconfig's context looks for objects.
        origins: What errors call the files above, by attribute, where their paths say nothing to
            people: the fields of a kubeconfig.
    """

    server: str
    authority: Path | None = None
    certificate: Path | None = None
    token_file: Path | None = None
    token: str | None = None
    namespace: str = "default"
    origins: Mapping[str, str] = field(default_factory=dict, repr=False)
    _read_at: float = field(default=-_TOKEN_SECONDS, repr=False)

    def bearer(self) -> str | None:
        """Return the token to send, as it is on disk now; None if a certificate says it all.

        Raises:
            UnreadableToken: There is none on disk that could be sent.
        """
        now = time.monotonic()
        if self.token_file is not None and now - self._read_at >= _TOKEN_SECONDS:
            self.token = self._read(self.token_file)
            self._read_at = now
        return self.token

    def renew(self) -> None:
        """Read the token anew for the next request: the server has refused it."""
        self._read_at = time.monotonic() - _TOKEN_SECONDS

    def tls(self) -> ssl.SSLContext:
        """Return what a client needs for TLS.

        Raises:
            NoConnection: The certificates cannot be used.
        """
        try:
            context = ssl.create_default_context(cafile=self.authority)
        except (OSError, ValueError) as error:
            raise NoConnection(
                f"{self._called('authority', self.authority)}: {reason(error)}; it takes PEM "
                "certificates, of whoever vouches for the API server"
            ) from error
        if self.certificate is not None:
            try:
                # With an empty password, because OpenSSL would ask at the terminal for one.
                context.load_cert_chain(self.certificate, password="")
            except (OSError, ValueError) as error:
                raise NoConnection(
                    f"{self._called('certificate', self.certificate)}: {reason(error)}; it takes a "
                    "PEM certificate and the key of this certificate, without a passphrase"
                ) from error
        return context

    def _read(self, token_file: Path) -> str:
        try:
            return _sendable(token_file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UnreadableToken(
                f"{self._called('token_file', token_file)}: {reason(error)}; it takes a file that "
                "holds a token and nothing else"
            ) from error

    def _called(self, attribute: str, path: Path | None) -> str:
        return self.origins.get(attribute, str(path))


def find(environment: Mapping[str, str] = os.environ) -> Connection:
    """Return the connection of the cluster that we are in, or of KUBECONFIG.

    Raises:
        NoConnection: Neither is there, or the kubeconfig cannot be used.
    """
    host = environment.get("KUBERNETES_SERVICE_HOST")
    if host and (SERVICE_ACCOUNT / "token").exists():
        shown = f"[{host}]" if ":" in host else host
        return Connection(
            server=f"https://{shown}:{environment.get('KUBERNETES_SERVICE_PORT', '443')}",
            authority=SERVICE_ACCOUNT / "ca.crt",
            token_file=SERVICE_ACCOUNT / "token",
        )
    path = _kubeconfig(environment)
    if not os.access(path, os.R_OK):
        raise NoConnection(
            f"no API server is known: this is no pod with a service account, and {path} is no "
            "file that can be read; set KUBECONFIG to the path of one kubeconfig"
        )
    return from_kubeconfig(path)


def of_context(name: str, environment: Mapping[str, str] = os.environ) -> Connection:
    """Return the connection of a context of KUBECONFIG, wherever we are.

    Raises:
        NoConnection: There is no such context, or it cannot be used.
    """
    return from_kubeconfig(_kubeconfig(environment), name)


def _kubeconfig(environment: Mapping[str, str]) -> Path:
    named = environment.get("KUBECONFIG")
    try:
        return Path(named) if named else Path.home() / ".kube" / "config"
    except RuntimeError as error:
        raise NoConnection(
            "no home folder is known, nor a kubeconfig; set KUBECONFIG to the path of one"
        ) from error


def from_kubeconfig(path: Path, name: str | None = None) -> Connection:
    """Return the connection of one of a kubeconfig's contexts.

    Args:
        path: Of the kubeconfig.
        name: The context's; None for the current one.

    Raises:
        NoConnection: It has no such context, logs in by something else than a certificate or a
            token, or has a field that cannot be used or is not supported.
    """
    which = "current context" if name is None else f"context {name!r}"
    config = Kubeconfig(path, which)
    context = _context(config, path, name)
    cluster = config.referred(context, "cluster", "clusters")
    user = Fields(path, "", {})
    # As with kubectl: who is let in without a name need not have one.
    if context.text("user") is not None:
        user = config.referred(context, "user", "users")
    _refuse_unsupported(path, which, cluster, user)
    return _connection(context, cluster, user)


def _refuse_unsupported(path: Path, which: str, cluster: Fields, user: Fields) -> None:
    if cluster.values.get("insecure-skip-tls-verify") or (
        {"exec", "auth-provider"} & user.values.keys()
    ):
        raise NoConnection(
            f"{path}: the {which} skips TLS verification or logs in by a plugin; use one "
            "with a certificate or a token"
        )
    for fields in (cluster, user):
        for unsupported, remedy in _NOT_SUPPORTED.items():
            if fields.values.get(unsupported):
                raise NoConnection(f"{fields.place(unsupported)}: is not supported; {remedy}")


def _context(config: Kubeconfig, path: Path, name: str | None) -> Fields:
    known = config.names("contexts")
    if name is None:
        return config.referred(config.top, "current-context", "contexts")
    if name not in known:
        raise NoConnection(f"{path}: has no context {name!r}; write one of {', '.join(known)}")
    return config.named("contexts", name)


def _connection(context: Fields, cluster: Fields, user: Fields) -> Connection:
    namespace = context.text("namespace") or "default"
    server, token, token_file = _server(cluster), _token(user), user.path("tokenFile")
    contents = {
        "authority": cluster.content("certificate-authority"),
        "certificate": _certificate(user),
    }
    present = {name: content for name, content in contents.items() if content is not None}
    origins = {name: content.place for name, content in present.items()}
    if token_file is not None:
        origins["token_file"] = f"{user.place('tokenFile')}: {token_file}"
    # Keys are copied last, when nothing else can be wrong.
    files = {name: _private_file(content) for name, content in present.items()}
    return Connection(
        server=server,
        authority=files.get("authority"),
        certificate=files.get("certificate"),
        token_file=token_file,
        token=token,
        namespace=namespace,
        origins=origins,
    )


def _server(cluster: Fields) -> str:
    text = cluster.text("server") or ""
    try:
        parts = urlsplit(text)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # such as a port that is no number
        is_url = False
    if not is_url:
        what = f"{text!r} is no URL" if text else "is missing"
        raise NoConnection(f"{cluster.place('server')}: {what}; write https://HOST:PORT")
    return text.rstrip("/")


def _certificate(user: Fields) -> Content | None:
    """Return our certificate with its key behind it, as TLS takes them; None if there is none."""
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


def _token(user: Fields) -> str | None:
    token = user.text("token")
    try:
        return None if token is None else _sendable(token)
    except ValueError as error:
        raise NoConnection(f"{user.place('token')}: {error}; write the token alone") from error


def _sendable(token: str) -> str:
    """Return a token as a header takes it.

    Raises:
        ValueError: No header takes it.
    """
    stripped = token.strip()
    if not stripped.isprintable():
        raise ValueError("is not one line of text")
    return stripped


def _private_file(content: Content) -> Path:
    """Return a file with this content for as long as we run: TLS takes keys from files alone."""
    try:
        handle, name = tempfile.mkstemp(prefix="imagenet-operator-")
        atexit.register(Path(name).unlink, missing_ok=True)
        with os.fdopen(handle, "wb") as file:
            file.write(content.data)
    except OSError as error:
        raise NoConnection(
            f"{content.place}: cannot be copied to a temporary file: {reason(error)}; set TMPDIR "
            "to a folder with room for it"
        ) from error
    return Path(name)
