"""The objects of one job, as a part of all that the API server stores."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

from support.api_storage import Storage
from support.simulated_objects import owner_of

Manifest = dict[str, Any]


class ObjectsOfJob(MutableMapping[tuple[str, str], Manifest]):
    """The objects of one job among all that are stored: by kind and name."""

    def __init__(self, storage: Storage, namespace: str, uid: str) -> None:
        self._storage = storage
        self._namespace = namespace
        self.uids = {uid}

    def __getitem__(self, key: tuple[str, str]) -> Manifest:
        found = self._storage.objects[key[0], self._namespace, key[1]]
        if owner_of(found) not in self.uids:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for (kind, namespace, name), item in self._storage.objects.items():
            if namespace == self._namespace and owner_of(item) in self.uids and kind != "Event":
                yield kind, name

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __setitem__(self, key: tuple[str, str], item: Manifest) -> None:
        raise NotImplementedError("objects are created by the storage")

    def __delitem__(self, key: tuple[str, str]) -> None:
        raise NotImplementedError("objects are removed by the storage")
