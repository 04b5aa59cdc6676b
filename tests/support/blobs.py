"""Blobs that are no files."""


class BytesBlob:
    """Bytes in memory as a `Blob`."""

    where = "x.tar"

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.size = len(content)

    def read(self, offset: int, size: int) -> bytes:
        """The bytes of a range."""
        return self._content[offset : offset + size]

    def close(self) -> None:
        """Nothing is held open."""
