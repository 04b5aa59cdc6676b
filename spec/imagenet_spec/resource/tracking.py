"""`spec.training.tracking`: where a training is followed, beside the status and the metrics."""

from __future__ import annotations

from typing import Annotated

from imagenet_spec.names import MLFLOW_TRACKING_URI
from imagenet_spec.resource.base import DefaultWhenRead, Model
from imagenet_spec.resource.fields import SecretKey, SecretName, Text
from imagenet_spec.rules import Rule


class TensorBoard(Model):
    """Event files in the folder ``tensorboard`` of the job's results."""


class SecretKeyReference(Model):
    """A key of a Secret in the job's namespace."""

    name: SecretName
    """The Secret's name."""

    key: Annotated[SecretKey, DefaultWhenRead()] = MLFLOW_TRACKING_URI
    """The key."""


class UriSource(Model):
    """Where the address of a server is."""

    secret_key_ref: SecretKeyReference
    """A Secret's key with the address. The Secret may also have ``MLFLOW_TRACKING_TOKEN``, or
    ``MLFLOW_TRACKING_USERNAME`` and ``MLFLOW_TRACKING_PASSWORD``, and the certificates of the
    server's authority as ``ca.crt``."""


class Mlflow(Model):
    """A run of an MLflow server, which all attempts of the job share."""

    uri_from: UriSource
    """The address of the server, such as ``https://mlflow.example.com``."""

    experiment: Annotated[Text, DefaultWhenRead()] = "Default"
    """The name of the experiment, which is created if it is missing."""


class Tracking(Model):
    """Where loss, accuracy, speed and parameters of the training are sent beside it."""

    tensor_board: TensorBoard | None = None
    """Write the files that TensorBoard reads. Absent: no files."""

    mlflow: Mlflow | None = None
    """Send them to an MLflow server. Absent: none."""

    rules = (
        Rule(
            cel="has(self.tensorBoard) || has(self.mlflow)",
            message="must have tensorBoard or mlflow",
            hint="write tensorBoard: {}, or remove tracking",
        ),
    )

    @property
    def secret(self) -> str | None:
        """The Secret that the side process reads. None: none."""
        return None if self.mlflow is None else self.mlflow.uri_from.secret_key_ref.name
