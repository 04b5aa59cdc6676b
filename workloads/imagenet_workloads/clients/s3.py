"""A bucket with an S3 API: opens it by the keys of the Secret, and explains its errors.

The client library sends the requests, retries and signatures (docs/decisions/0013-s3-client.md).
Its own messages hold addresses and answers of the server, so only the error's code is repeated.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from imagenet_spec.names import ENDPOINT
from imagenet_workloads.clients import TRAFFIC
from imagenet_workloads.clients.credentials import Credentials
from imagenet_workloads.errors import InputError, WorkloadError

if TYPE_CHECKING:
    from obstore import GetOptions, ObjectMeta
    from obstore.store import S3Store

AT_ONCE = 32
"""The requests to a bucket at the same time."""

PARTS_AT_ONCE = 4
"""The parts of an object that are sent at the same time, of 5 MiB each."""

ACCESS_KEY_ID, SECRET_ACCESS_KEY = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"
SESSION_TOKEN = "AWS_SESSION_TOKEN"

# Metadata of an object, which S3 keeps with it.
_SHA256 = "sha256"
_CODE = re.compile(r"<Code>([A-Za-z]{1,64})</Code>")
_STATUS = re.compile(r"status code: (\d{3})")
# What the client's error holds if no status came, and what it means.
_WITHOUT_STATUS = (
    ("dns error", "the host name of the endpoint cannot be resolved; check endpoint and region"),
    ("kind: Connect", "the endpoint cannot be reached; check endpoint and region"),
    ("kind: Interrupted", "the answer is cut off, in several tries"),
    ("UnexpectedRange", "the answer has other bytes than were asked for"),
)
# An API whose buckets are all in one region ignores it.
_REGION = "us-east-1"


class ObjectChangedError(InputError):
    """An object is not the one that was read before."""


class NoObjectError(InputError):
    """There is no such object."""


class Object(NamedTuple):
    """An object: its ETag has quotes, or is empty; its time of modification is in ISO 8601."""

    key: str
    size: int
    etag: str
    last_modified: str


@dataclass(frozen=True)
class Bucket:
    """A bucket; may be used from several threads.

    Its methods raise an InputError if there is no such bucket or the keys are refused, and a
    WorkloadError if the server cannot be reached.
    """

    name: str
    store: "S3Store"

    def where(self, key: str) -> str:
        return address_of(self.name, key)

    def read(
        self, key: str, span: tuple[int, int] | None = None, etag: str = ""
    ) -> tuple[Object, bytes]:
        """Read an object, or the bytes of a span: the first, and the one after the last.

        ObjectChangedError if it has another ETag than the given one, NoObjectError if there is
        none.
        """
        import obstore

        options: GetOptions = {}
        if etag:
            options["if_match"] = etag
        if span is not None:
            options["range"] = span
        with _explained(self.where(key)):
            answer = obstore.get(self.store, key, options=options)
            data = bytes(answer.bytes())
        TRAFFIC.add(1, len(data))
        return _object(answer.meta), data

    def size_of(self, key: str) -> int | None:
        import obstore

        try:
            with _explained(self.where(key)):
                size: int = obstore.head(self.store, key)["size"]
        except NoObjectError:
            return None
        return size

    def sha256_of(self, key: str) -> str | None:
        """The hex SHA-256 with which an object was written; None without one, or an object."""
        import obstore

        try:
            with _explained(self.where(key)):
                answer = obstore.get(self.store, key, options={"head": True})
        except NoObjectError:
            return None
        found: str | None = answer.attributes.get(_SHA256)
        return found

    def write(self, key: str, content: bytes | Iterator[bytes], sha256: str | None = None) -> None:
        """Write an object, which appears when it is complete. An iterator is sent in parts.

        `sha256_of` returns the SHA-256 that is given.
        """
        import obstore

        attributes = {} if sha256 is None else {_SHA256: sha256}
        with _explained(self.where(key)):
            obstore.put(
                self.store, key, content, max_concurrency=PARTS_AT_ONCE, attributes=attributes
            )

    def delete(self, key: str) -> None:
        import obstore

        with suppress(NoObjectError), _explained(self.where(key)):
            obstore.delete(self.store, key)

    def folders(self, prefix: str) -> tuple[list[str], list[Object]]:
        """The sorted prefixes directly below a prefix, and the objects there."""
        import obstore

        with _explained(self.where(prefix)):
            found = obstore.list_with_delimiter(self.store, prefix or None)
        TRAFFIC.add(1, 0)
        return sorted(found["common_prefixes"]), sorted(map(_object, found["objects"]))

    def below(self, prefix: str) -> list[Object]:
        import obstore

        found: list[Object] = []
        with _explained(self.where(prefix)):
            for chunk in obstore.list(self.store, prefix or None, chunk_size=1000):
                TRAFFIC.add(1, 0)
                found += map(_object, chunk)
        return sorted(found)


def address_of(bucket: str, key: str) -> str:
    """The address of an object in messages."""
    return f"s3://{bucket}/{key}"


def open_bucket(
    name: str, endpoint: str | None, region: str | None, credentials: Credentials | None = None
) -> Bucket:
    """Open a bucket by the keys of credentials, by default `$IMAGENET_CREDENTIALS`, or without.

    InputError if the client is not installed, the endpoint is no URL, or the Secret lacks a key.
    """
    # The client panics if it is no URL, or has no such port.
    if endpoint is not None and not re.search(ENDPOINT, endpoint):
        raise InputError(
            "endpoint: must be https://HOST or http://HOST, with a port up to 65535 if it has "
            f"one, not {endpoint!r}"
        )
    try:
        from obstore.store import S3Store
    except ImportError:
        raise InputError("the package obstore is missing; type: pip install obstore") from None
    credentials = credentials or Credentials()
    options: dict[str, str] = {"region": region or _REGION}
    if endpoint is not None:
        options["endpoint"] = endpoint
    if credentials.are_given:
        options["access_key_id"] = credentials.read(ACCESS_KEY_ID)
        options["secret_access_key"] = credentials.read(SECRET_ACCESS_KEY)
        if credentials.has(SESSION_TOKEN):
            options["session_token"] = credentials.read(SESSION_TOKEN)
    store = S3Store(
        name,
        skip_signature=not credentials.are_given,
        client_options={"allow_http": bool(endpoint and endpoint.startswith("http://"))},
        **options,  # type: ignore[arg-type]
    )
    return Bucket(name, store)


@contextmanager
def _explained(where: str) -> Iterator[None]:
    from obstore.exceptions import BaseError

    try:
        yield
    except (BaseError, OSError) as error:
        raise _in_words(where, error) from None


def _in_words(where: str, error: Exception) -> Exception:
    from obstore.exceptions import PreconditionError

    text = str(error)
    status = next(iter(_STATUS.findall(text)), "")
    code = next(iter(_CODE.findall(text)), f"status {status}" if status else "")
    if isinstance(error, PreconditionError) or status == "412":
        return ObjectChangedError(f"{where}: is another object than before; start again")
    if code == "NoSuchBucket":
        return InputError(f"{where}: there is no such bucket; check bucket and endpoint")
    if status == "404" or isinstance(error, FileNotFoundError):
        return NoObjectError(f"{where}: there is no such object; check key")
    if status in ("401", "403") or code in ("ExpiredToken", "InvalidToken"):
        return InputError(f"{where}: the server refuses the keys ({code}); check the Secret")
    if status == "301" or code in ("PermanentRedirect", "AuthorizationHeaderMalformed"):
        return InputError(f"{where}: the bucket is in another region ({code}); write region")
    if status.startswith("4") and status not in ("408", "429"):
        return InputError(f"{where}: the server does not answer this request ({code})")
    if not code:
        words = next((words for mark, words in _WITHOUT_STATUS if mark in text), None)
        return WorkloadError(f"{where}: {words or 'the server does not answer'}")
    return WorkloadError(f"{where}: the server cannot answer now ({code})")


def _object(meta: "ObjectMeta") -> Object:
    time = meta["last_modified"].isoformat()
    return Object(meta["path"], meta["size"], meta["e_tag"] or "", time)
