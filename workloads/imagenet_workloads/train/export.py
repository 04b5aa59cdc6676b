"""Writes a model as plain MXNet loads it: mx.model.load_checkpoint(PREFIX, NNNN). Imports MXNet."""

from collections.abc import Mapping
from pathlib import Path

from imagenet_workloads.train.replicas import Replicas
from imagenet_workloads.train.result import put
from imagenet_workloads.train.saved import save_parameters


def export_model(prefix: Path, replicas: Replicas, epoch: int) -> Mapping[str, str]:
    """Write PREFIX-symbol.json and PREFIX-NNNN.params, as MXNet's own checkpoints are called.

    Returns:
        the files' names.

    Raises:
        PlaceError: the folder cannot be written.
    """
    symbol = prefix.with_name(f"{prefix.name}-symbol.json")
    put(symbol, lambda path: path.write_text(replicas.symbol.tojson()))
    params = prefix.with_name(f"{prefix.name}-{epoch:04}.params")
    put(params, lambda path: save_parameters(path, replicas.parameters()))
    return {"symbol": symbol.name, "params": params.name}
