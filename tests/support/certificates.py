"""Certificates for tests: an authority of their own, and what it signs."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

OPEN = serialization.NoEncryption()


def key_in_pem(
    key: ec.EllipticCurvePrivateKey,
    encryption: serialization.KeySerializationEncryption = OPEN,
) -> bytes:
    """A key as a file holds it."""
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, encryption)


class Authority:
    """An authority that signs certificates, valid for a day.

    Attributes:
        pem: Its own certificate.
    """

    def __init__(self) -> None:
        self._name = _named("authority")
        self._key = ec.generate_private_key(ec.SECP256R1())
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        self.pem = self._sign(self._name, self._key.public_key(), constraints, critical=True)

    def issue(self, name: str, *hosts: str) -> tuple[bytes, bytes]:
        """A certificate and its key.

        Args:
            name: The common name, which Kubernetes takes for a user's name.
            *hosts: The names and IP addresses of a server.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        alternatives = x509.SubjectAlternativeName([_host(host) for host in hosts or ("nowhere",)])
        return self._sign(_named(name), key.public_key(), alternatives), key_in_pem(key)

    def server_tls(self, folder: Path, *hosts: str, clients: bool = False) -> ssl.SSLContext:
        """What a server needs, whose certificate names these hosts.

        Args:
            folder: For files that exist while the context is made.
            *hosts: Names or IP addresses.
            clients: Whether it asks clients for certificates of this authority.
        """
        files = {"certificate": b"\n".join(self.issue("server", *hosts)), "authority": self.pem}
        for name, content in files.items():
            (folder / name).write_bytes(content)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        # As an API server, which asks an authority for no extensions.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.load_cert_chain(folder / "certificate")
        if clients:
            context.load_verify_locations(folder / "authority")
            context.verify_mode = ssl.CERT_OPTIONAL
        for name in files:
            (folder / name).unlink()
        return context

    def _sign(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        extension: x509.ExtensionType,
        critical: bool = False,
    ) -> bytes:
        now = datetime.now(UTC)
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        made = (
            x509.CertificateBuilder(self._name, subject, key, x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(extension, critical)
            .add_extension(identifier, critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return made.public_bytes(serialization.Encoding.PEM)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
