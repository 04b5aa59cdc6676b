"""Strategic merge patch, as in `kubectl patch --type=strategic`.

`manifests.template` merges a user's pod template over a built one by it. It takes two documents and
a table of merge keys, and returns a new document. It does not depend on jobs.

The rules are those of apimachinery's `strategicpatch.StrategicMergeMapPatch` (Kubernetes 1.32):

- maps merge key by key, null deletes, scalars and lists without a merge strategy are replaced;
- a list with a merge key merges item by item; items that only the patch has come first in most
  cases;
- `$patch: replace | delete` in a map or a list item, `$retainKeys`, `$setElementOrder/FIELD` and
  `$deleteFromPrimitiveList/FIELD`.

Tests compare it with a corpus that was recorded from kubectl
(tests/imagenet_spec/resource/templates/merge_corpus.yaml).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from imagenet_spec.errors import InvalidTemplate
from imagenet_spec.resource.base import copied
from imagenet_spec.resource.templates.own_program import MAIN_CONTAINER

_PATCH = "$patch"
_RETAIN_KEYS = "$retainKeys"
_SET_ORDER = "$setElementOrder"
_DELETE_SCALARS = "$deleteFromPrimitiveList"


@dataclass(frozen=True)
class Merge:
    """How one field merges.

    Attributes:
        key: The merge key of a list of maps; None replaces the whole list.
        scalars: Whether the list holds scalars and merges as a set.
        fields: The same for nested fields; other fields have no lists that merge.
    """

    key: str | None = None
    scalars: bool = False
    fields: Mapping[str, Merge] = field(default_factory=dict)

    def of(self, name: str) -> Merge:
        return self.fields.get(name, _REPLACE)


_REPLACE = Merge()

# From the `patchStrategy` and `patchMergeKey` tags of k8s.io/api/core/v1 and apimachinery's
# ObjectMeta. They differ from the keys of server-side apply: here ports merge by containerPort
# alone and topologySpreadConstraints by topologyKey alone; tolerations are replaced.
_OBJECT_META = Merge(
    fields={"ownerReferences": Merge(key="uid"), "finalizers": Merge(scalars=True)}
)
_CONTAINERS = Merge(
    key="name",
    fields={
        "env": Merge(key="name"),
        "ports": Merge(key="containerPort"),
        "volumeDevices": Merge(key="devicePath"),
        "volumeMounts": Merge(key="mountPath"),
    },
)
_CLAIM_TEMPLATE = Merge(fields={"volumeClaimTemplate": Merge(fields={"metadata": _OBJECT_META})})
POD_TEMPLATE = Merge(
    fields={
        "metadata": _OBJECT_META,
        "spec": Merge(
            fields={
                "containers": _CONTAINERS,
                "ephemeralContainers": _CONTAINERS,
                "hostAliases": Merge(key="ip"),
                "imagePullSecrets": Merge(key="name"),
                "initContainers": _CONTAINERS,
                "resourceClaims": Merge(key="name"),
                "schedulingGates": Merge(key="name"),
                "topologySpreadConstraints": Merge(key="topologyKey"),
                "volumes": Merge(key="name", fields={"ephemeral": _CLAIM_TEMPLATE}),
            }
        ),
    }
)
"""How the lists of a PodTemplateSpec merge."""


def strategic_merge(
    original: Mapping[str, Any], patch: Mapping[str, Any], merge: Merge, path: str
) -> dict[str, Any]:
    """Return `original` with `patch` merged over it; neither is changed.

    `path` is the field of the patch, for messages.

    Raises:
        InvalidTemplate: The patch is invalid, such as a list item without its merge key.
    """
    return _merge_map(copied(dict(original)), copied(dict(patch)), merge, path)


def _merge_map(
    original: dict[str, Any], patch: dict[str, Any], merge: Merge, path: str
) -> dict[str, Any]:
    if _PATCH in patch:
        directive = patch[_PATCH]
        _check_directive(directive, path)
        replaced = {name: value for name, value in patch.items() if name != _PATCH}
        return replaced if directive == "replace" else {}
    merged = _retain_keys(original, patch, path)
    remaining = {name: value for name, value in patch.items() if name != _RETAIN_KEYS}
    for directive in [name for name in remaining if name.startswith(_SET_ORDER)]:
        name = _named_field(directive, _SET_ORDER, path)
        order = _as_list(remaining.pop(directive), f"{path}.{directive}")
        ordered = _merge_in_order(merged, remaining, name, order, merge.of(name), path)
        if ordered is not None:
            merged[name] = ordered
        remaining.pop(name, None)
    for name, value in remaining.items():
        if name.startswith(_DELETE_SCALARS):
            target = _named_field(name, _DELETE_SCALARS, path)
            if isinstance(merged.get(target), list):
                unwanted = _as_list(value, f"{path}.{name}")
                merged[target] = [item for item in merged[target] if item not in unwanted]
        else:
            _merge_field(merged, name, value, merge.of(name), f"{path}.{name}")
    return merged


def _merge_field(merged: dict[str, Any], name: str, value: Any, merge: Merge, path: str) -> None:
    current = merged.get(name)
    if value is None:
        merged.pop(name, None)
    elif isinstance(current, dict) and isinstance(value, dict):
        merged[name] = _merge_map(current, value, merge, path)
    elif isinstance(current, list) and isinstance(value, list):
        merged[name] = _merge_list(current, value, merge, path)
    elif _is_directive(value):
        merged.pop(name, None)
    else:
        merged[name] = _without_directives(_without_nulls(value))


def _retain_keys(original: dict[str, Any], patch: dict[str, Any], path: str) -> dict[str, Any]:
    """Return the part of a map that the patch's `$retainKeys`, if any, retains."""
    if _RETAIN_KEYS not in patch:
        return dict(original)
    retained = _as_list(patch[_RETAIN_KEYS], f"{path}.{_RETAIN_KEYS}")
    for name, value in patch.items():
        if value is not None and not name.startswith("$") and name not in retained:
            raise InvalidTemplate(
                f"{path}.{_RETAIN_KEYS}", f"does not list {name}, which the same map sets; add it"
            )
    return {name: value for name, value in original.items() if name in retained}


def _merge_in_order(
    original: dict[str, Any],
    patch: dict[str, Any],
    name: str,
    order: list[Any],
    merge: Merge,
    path: str,
) -> list[Any] | None:
    """Merge the list `name`, in the order of `$setElementOrder/name`."""
    here = f"{path}.{name}"
    current = _as_list(original[name], here) if name in original else None
    change = _as_list(patch[name], here) if name in patch else None
    if current is None and change is None:
        return None
    _check_order(change or [], order, merge, here)
    if change is None:
        merged = current or []
    elif current is None:
        merged = _without_directives(change)
    else:
        merged = _merge_list(current, change, merge, here)
    return _interleave(merged, order, current or [], _identity(merge))


def _check_order(change: list[Any], order: list[Any], merge: Merge, path: str) -> None:
    """Reject a patch list that is not a subsequence of its `$setElementOrder` list."""
    if not order or not change:
        return
    identity = _identity(merge)
    wanted = iter([identity(item) for item in order])
    for item in change:
        if _is_directive(item):
            continue
        if identity(item) not in wanted:
            raise InvalidTemplate(
                path, f"its items are not in the order of {_SET_ORDER}/{path.split('.')[-1]}"
            )


def _merge_list(original: list[Any], patch: list[Any], merge: Merge, path: str) -> list[Any]:
    if merge.scalars:
        for index, item in enumerate(patch):
            if isinstance(item, dict | list):
                raise InvalidTemplate(f"{path}[{index}]", "write a text or a number")
        both = list(dict.fromkeys([*original, *patch]))
        return _interleave(both, patch, original, _identity(merge))
    if merge.key is None:
        return patch
    items = _items(patch, merge.key, path)
    plain = [(index, item) for index, item in items if _PATCH not in item]
    directives = {index: item[_PATCH] for index, item in items if _PATCH in item}
    for index, directive in directives.items():
        _check_directive(directive, f"{path}[{index}]")
    if "replace" in directives.values():
        return [item for _, item in plain]
    deleted = [item[merge.key] for _, item in items if _PATCH in item]
    kept = [item for item in original if item.get(merge.key) not in deleted]
    merged = list(kept)
    for index, item in plain:
        for position, current in enumerate(merged):
            if current.get(merge.key) == item[merge.key]:
                merged[position] = _merge_map(current, item, merge, f"{path}[{index}]")
                break
        else:
            merged.append(item)
    return _interleave(merged, [item for _, item in plain], kept, _identity(merge))


def _items(patch: list[Any], key: str, path: str) -> list[tuple[int, dict[str, Any]]]:
    """Return the items of a patch list with their positions, each a map that has its merge key."""
    for index, item in enumerate(patch):
        if not isinstance(item, dict):
            raise InvalidTemplate(f"{path}[{index}]", f"write a map with a {key}")
        if key not in item and item.get(_PATCH) != "replace":
            raise InvalidTemplate(
                f"{path}[{index}]",
                f"has no {key}, by which the items of this list are merged; write its {key}"
                + (
                    f" (that of the program is {MAIN_CONTAINER})"
                    if path.endswith(".containers")
                    else ""
                ),
            )
    return list(enumerate(patch))


def _check_directive(directive: Any, path: str) -> None:
    if directive not in ("replace", "delete"):
        raise InvalidTemplate(
            f"{path}.{_PATCH}", f"{directive!r} is not a directive; write replace or delete"
        )


def _interleave(
    merged: list[Any], first: list[Any], original: list[Any], identity: Callable[[Any], Any]
) -> list[Any]:
    """Order a merged list: as in `first`, the others between them as in the original.

    An item that is not in `first` precedes the next one of `first` only if it precedes it in the
    original too.
    """
    first_order = [identity(item) for item in first]
    original_order = [identity(item) for item in original]

    def place(item: Any) -> int:
        """Return the index of an item in the original; an item that it lacks precedes all."""
        key = identity(item)
        return original_order.index(key) if key in original_order else -1

    named = [item for item in merged if identity(item) in first_order]
    named.sort(key=lambda item: first_order.index(identity(item)))
    others = [item for item in merged if identity(item) not in first_order]
    others.sort(key=place)

    result: list[Any] = []
    while named and others:
        result.append((others if place(others[0]) < place(named[0]) else named).pop(0))
    return result + others + named


def _identity(merge: Merge) -> Callable[[Any], Any]:
    """Return the identity of a list's item: its merge key, or itself."""
    key = merge.key
    if key is None:
        return lambda item: item
    return lambda item: item.get(key) if isinstance(item, dict) else None


def _is_directive(value: Any) -> bool:
    return isinstance(value, dict) and _PATCH in value


def _without_directives(value: Any) -> Any:
    """Return a patch value without a counterpart in the original, without directives."""
    if isinstance(value, dict):
        return {
            name: _without_directives(item)
            for name, item in value.items()
            if not _is_directive(item)
        }
    if isinstance(value, list):
        return [_without_directives(item) for item in value if not _is_directive(item)]
    return value


def _without_nulls(value: Any) -> Any:
    """Return a patch value without a counterpart in the original, without null fields."""
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _named_field(directive: str, prefix: str, path: str) -> str:
    name = directive.removeprefix(prefix + "/")
    if name == directive or not name:
        raise InvalidTemplate(f"{path}.{directive}", f"write {prefix}/FIELD")
    return name


def _as_list(value: Any, path: str) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidTemplate(path, "write a list")
    return value
