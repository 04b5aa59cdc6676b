"""The error of one image, which is then skipped and counted."""


class DamagedImageError(Exception):
    """An image cannot be read without loss; the message says why."""
