"""The limit on the requests that a source may take (`maxRequests`)."""

from typing import NamedTuple

from imagenet_workloads.errors import InputError

MOST_REQUESTS = 4_000_000
"""The default limit: ILSVRC2012 takes 2.6 million requests, two for each image."""


class Limit(NamedTuple):
    """How many requests a source may take.

    Attributes:
        most: of index and pack together.
        cache_field: the field of the manifest that has the files stored first.
        is_loose: whether each image is an object, which no cache stores.
    """

    most: int
    cache_field: str
    is_loose: bool = False

    def require_plan(self, where: str, listing: int, packing: int) -> None:
        """Checks the requests that index has sent and those of its plan.

        Args:
            where: the source's name in messages.
            listing: what index has sent.
            packing: what pack will send.

        Raises:
            InputError: they are more than allowed.
        """
        if listing + packing <= self.most:
            return
        remedy = f"write {self.cache_field}, which stores the files first"
        if self.is_loose:
            remedy = f"write a prefix with archives in place of images, and {self.cache_field}"
        raise InputError(
            f"{where}: listing took {listing} requests and packing takes {packing}, and "
            f"{self.most} are allowed; raise maxRequests, or {remedy}"
        )


def limit(most: int | None, cache_field: str, *, is_loose: bool = False) -> Limit:
    """The limit of an option, or the default."""
    return Limit(most or MOST_REQUESTS, cache_field, is_loose)
