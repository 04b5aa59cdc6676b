"""The file `SHARD.sums` beside a published shard: the length and the checksum of each record.

A worker that reads parts of a shard finds and verifies each record by it. It needs neither an index
nor the rest of the shard. `prepare.publish` writes the file:

    for each record: length u32 | CRC-32C of its bytes u32
    SHA-256 of these entries, and of the shard's own SHA-256 (32 bytes each) | 32 bytes

All numbers are little endian. The last line ties the file to one shard of dataset.json.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from imagenet_workloads.dataset import Shard

SUFFIX = ".sums"

_ENTRY = np.dtype([("length", "<u4"), ("checksum", "<u4")])
_DIGEST = hashlib.sha256().digest_size


@dataclass(frozen=True)
class RecordSums:
    """The records of a shard.

    Attributes:
        edges: (records + 1,), where each record begins, and the end of the last one.
        checksums: (records,), the CRC-32C of each record.
    """

    edges: NDArray[np.int64]
    checksums: NDArray[np.uint32]


def checksum(record: bytes) -> int:
    """Return the CRC-32C of a record."""
    value: int = google_crc32c.value(record)
    return value


def encode(lengths: Sequence[int], checksums: Sequence[int], shard: Shard) -> bytes:
    """Return the content of the file."""
    entries = np.empty(len(lengths), _ENTRY)
    entries["length"], entries["checksum"] = lengths, checksums
    content = entries.tobytes()
    return content + _digest(content, shard)


def decode(content: bytes, shard: Shard) -> RecordSums:
    """Return what `encode` was given; ValueError if it is damaged, or of another shard."""
    entries, digest = content[:-_DIGEST], content[-_DIGEST:]
    if digest != _digest(entries, shard):
        raise ValueError("it is damaged, or of another shard")
    table = np.frombuffer(entries, _ENTRY)
    edges = np.zeros(len(table) + 1, np.int64)
    np.cumsum(table["length"], out=edges[1:])
    if len(table) != shard.records or edges[-1] != shard.bytes:
        raise ValueError(f"it has {len(table)} records of {edges[-1]} bytes together")
    return RecordSums(edges, table["checksum"])


def _digest(entries: bytes, shard: Shard) -> bytes:
    digest = hashlib.sha256(entries)
    digest.update(bytes.fromhex(shard.sha256))
    return digest.digest()
