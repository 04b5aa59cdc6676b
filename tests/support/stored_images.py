"""What pack hands to the writers of records, made by hand."""

from imagenet_workloads.records.format import StoredImage


def stored_image(
    jpeg: bytes,
    key: int = 0,
    label: int = 0,
    class_name: str = "n01440764",
    name: bytes = b"n01440764_10026.JPEG",
    height: int = 375,
    width: int = 500,
    class_words: str = "tench",
) -> StoredImage:
    """An image whose JPEG may be any bytes: no writer looks into it."""
    return StoredImage(key, label, class_name, class_words, name, height, width, jpeg)
