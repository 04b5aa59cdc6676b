"""The part of an object that Kubernetes itself defines: ObjectMeta, as far as jobs need it."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from imagenet_operator.api.base import Model
from imagenet_operator.api.fields import Time


class ObjectMeta(Model):
    """Every field of ``meta/v1`` ObjectMeta, so that an unknown one is still an error."""

    name: str = ""
    generate_name: str | None = None
    namespace: str = "default"
    uid: str = ""
    resource_version: str | None = None
    generation: int = 1
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: int | None = None
    self_link: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    owner_references: tuple[dict[str, Any], ...] = ()
    finalizers: tuple[str, ...] = ()
    managed_fields: tuple[dict[str, Any], ...] = ()

    @property
    def final_name(self) -> str:
        """The name, or one like that which the API server will generate (five characters more)."""
        return self.name or (f"{self.generate_name}xxxxx" if self.generate_name else "")
