"""The files of a checkpoint and of an exported model, as PyTorch writes them.

    weights.safetensors         the network's state_dict: weights and BatchNorm's statistics
    states.safetensors          the optimizer's arrays, by WEIGHT/ARRAY
    average.safetensors         with a moving average, its state_dict

`checkpoint` chooses the folder and checks that it is complete. Values of another network, optimizer
or framework, and what cannot be read, raise an InputError. An exported model is one file,
PREFIX-NNNN.safetensors, with the state_dict. Its metadata name the network, so that `load_network`
builds it. No file holds a pickle. Imports PyTorch.
"""

import json
import logging
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as serialize
from torch import nn

from imagenet_spec.program.train import Options
from imagenet_workloads import files
from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.pytorch import compilation, networks
from imagenet_workloads.frameworks.pytorch.optimizers import MovingAverage, Updater
from imagenet_workloads.train import moving_statistics
from imagenet_workloads.train.moving_statistics import Rows
from imagenet_workloads.train.networks import NetworkRequest
from imagenet_workloads.train.receipts import State
from imagenet_workloads.train.resume import ResumePoint

WEIGHTS, STATES = "weights.safetensors", "states.safetensors"
AVERAGE = "average.safetensors"
_OPTIMIZER = "optimizer"
# Bytes; a tensor of any type may begin there.
_ALIGNMENT = 64
# Training programs put the state_dict below one of these.
_WRAPPERS = ("state_dict", "model")
# BatchNorm counts from 0 if a file has no number; those of PyTorch before 0.4.1 have none.
_OPTIONAL = ".num_batches_tracked"
# Names in a message.
_NAMED = 3

_log = logging.getLogger(__name__)

Tensors = Mapping[str, torch.Tensor]
Metadata = Mapping[str, str]


class Snapshot:
    """Copied tensors; implements `train.framework.Snapshot`.

    A GPU copies within its memory, between two steps, when what the steps need is free. Another
    stream then brings the copies into page-locked memory beside the steps that follow. Where the
    GPU has no room, it copies into the host's memory at once, and training waits for that.
    """

    def __init__(
        self,
        network: nn.Module,
        updater: Updater,
        statistics: Rows | None = None,
        average: MovingAverage | None = None,
        *,
        compiled: bool | None = None,
    ) -> None:
        """Copy; `compiled` says whether compiled code trains, None where it was not chosen."""
        self._optimizer, self._statistics, self._compiled = updater.name, statistics, compiled
        parts = {"weights": network.state_dict(), "optimizer": updater.states()}
        if average is not None:
            parts["average"] = average.network.state_dict()
        self._device, self._copied = next(network.parameters()).device, None
        if self._device.type != "cuda":
            self._parts = host_copies(parts)
            return
        stream = torch.cuda.current_stream(self._device)
        try:
            # Contiguous, so that the other stream needs no memory of its own.
            self._parts = {
                part: {
                    name: tensor.detach().clone(memory_format=torch.contiguous_format)
                    for name, tensor in tensors.items()
                }
                for part, tensors in parts.items()
            }
            self._copied = stream.record_event()
        except torch.cuda.OutOfMemoryError:
            self._parts = host_copies(parts)
            stream.synchronize()

    def save(self, folder: Path) -> None:
        parts = self._on_host()
        if "average" in parts:
            write(folder / AVERAGE, parts["average"], {})
        write(folder / WEIGHTS, parts["weights"], {})
        write(folder / STATES, parts["optimizer"], {_OPTIMIZER: self._optimizer})
        moving_statistics.save(folder, self._statistics)
        if self._compiled is not None:
            compilation.record(folder, self._compiled)

    def state(self) -> State:
        """Return the arrays that `save` writes, as bytes: NumPy has no bfloat16."""
        arrays = {
            part: {
                name: tensor.flatten().view(torch.uint8).numpy() for name, tensor in tensors.items()
            }
            for part, tensors in self._on_host().items()
        }
        return {**arrays, **moving_statistics.state(self._statistics)}

    def _on_host(self) -> Mapping[str, Tensors]:
        if self._copied is not None:
            stream = _copying_stream(self._device)
            with torch.cuda.stream(stream):
                stream.wait_event(self._copied)
                found = host_copies(self._parts)
            stream.synchronize()
            # The GPU's memory is free again.
            self._parts, self._copied = found, None
        return self._parts


@cache
def _copying_stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


def host_copies(parts: Mapping[str, Tensors]) -> dict[str, dict[str, torch.Tensor]]:
    """Copy tensors into one piece of the host's memory, contiguous each.

    It is page-locked for a GPU, whose current stream may still have to write it.
    """
    sizes = {
        (part, name): -(-tensor.nbytes // _ALIGNMENT) * _ALIGNMENT
        for part, tensors in parts.items()
        for name, tensor in tensors.items()
    }
    on_gpu = any(tensor.is_cuda for tensors in parts.values() for tensor in tensors.values())
    pieces = torch.empty(sum(sizes.values()), dtype=torch.uint8, pin_memory=on_gpu)
    found: dict[str, dict[str, torch.Tensor]] = {part: {} for part in parts}
    begin = 0
    for (part, name), size in sizes.items():
        tensor = parts[part][name].detach()
        piece = pieces[begin : begin + tensor.nbytes].view(tensor.dtype).view(tensor.shape)
        found[part][name] = piece.copy_(tensor, non_blocking=True)
        begin += size
    return found


def restore(
    options: Options, network: nn.Module, updater: Updater, resume_point: ResumePoint
) -> None:
    """Load the start's checkpoint into network and optimizer, if there is one."""
    if resume_point.folder is not None:
        origin = resume_point.folder / WEIGHTS
    elif options.output.load_epoch is not None:
        origin = _model(Path(str(options.output.model_prefix)), options.output.load_epoch)
    else:
        return
    weights, _ = read(origin)
    _load_weights(origin, network, weights, options.model.network)
    if not resume_point.continues:
        return
    states, metadata = read(Path(f"{resume_point.folder}/{STATES}"))
    saved = metadata.get(_OPTIMIZER)
    try:
        if saved != updater.name:
            raise ValueError(f"it has states of {saved}, not of {updater.name}")
        updater.load_states(states)
    except ValueError as error:
        raise InputError(
            f"{resume_point.resumed_from}: {error}; use it with --init-from (checkpoint.initFrom) "
            "and another --output (training.output)"
        ) from error


def restore_average(average: MovingAverage, resume_point: ResumePoint) -> None:
    """Load the average of a checkpoint of this training."""
    if resume_point.folder is not None and resume_point.continues:
        averages, _ = read(resume_point.folder / AVERAGE)
        average.load(averages)


def export(prefix: Path, network: nn.Module, epoch: int, request: NetworkRequest) -> Metadata:
    """Write PREFIX-NNNN.safetensors, renamed into place when complete; return its name."""
    path = _model(prefix, epoch)
    layers = {} if request.num_layers is None else {"num_layers": str(request.num_layers)}
    metadata = {
        "network": request.network,
        **layers,
        "classes": str(request.classes),
        "image_shape": ",".join(map(str, request.image_shape)),
    }
    files.write_output(path, lambda temporary: write(temporary, network.state_dict(), metadata))
    return {"weights": path.name}


def load_network(path: Path) -> tuple[nn.Module, NetworkRequest]:
    """Build the network of an exported model, with its values, for prediction.

    InputError: the file is missing, damaged, or names no network.
    """
    values, metadata = read(path)
    try:
        channels, height, width = map(int, metadata["image_shape"].split(","))
        layers = metadata.get("num_layers")
        request = NetworkRequest(
            metadata["network"],
            None if layers is None else int(layers),
            int(metadata["classes"]),
            (channels, height, width),
        )
    except (KeyError, ValueError) as error:
        raise InputError(f"{path}: its metadata name no network ({error})") from None
    network = networks.build(request)
    _load_weights(path, network, values, request.network)
    network.eval()
    return network, request


def _model(prefix: Path, epoch: int) -> Path:
    return prefix.with_name(f"{prefix.name}-{epoch:04}.safetensors")


def _load_weights(origin: Path, network: nn.Module, values: Tensors, name: str) -> None:
    try:
        network.load_state_dict(values)
    except RuntimeError as error:
        # The first line names the class; each of the others is one difference.
        first = str(error).splitlines()[1].strip()
        raise InputError(f"{origin}: does not fit {name}: {first}") from None


def write(path: Path, tensors: Tensors, metadata: Metadata) -> None:
    """Write a file of safetensors, one tensor after the other; the library first copies all."""
    # One number of each, by which the library says type names and the order of the tensors.
    numbers = {name: torch.zeros(1, dtype=one.dtype) for name, one in tensors.items()}
    described = serialize(numbers, {"format": "pt", **metadata})
    size = int.from_bytes(described[:8], "little")
    fields = json.loads(described[8 : 8 + size])
    order = sorted(tensors, key=lambda name: fields[name]["data_offsets"])
    end = 0
    for name in order:
        begin, end = end, end + tensors[name].nbytes
        fields[name] |= {"shape": list(tensors[name].shape), "data_offsets": [begin, end]}
    # The library writes metadata in any order; equal values are to have equal bytes.
    head = json.dumps(fields, sort_keys=True).encode()
    head += b" " * (-len(head) % 8)
    # Python's own write has an OSError with a number, which says whether the volume is full.
    with path.open("wb") as file:
        file.write(len(head).to_bytes(8, "little") + head)
        for name in order:
            whole = tensors[name].detach().cpu().contiguous()
            file.write(whole.flatten().view(torch.uint8).numpy().data)


def read(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Read tensors by name, and the metadata; InputError if the file is missing or damaged."""
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return tensors, dict(file.metadata() or {})
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: not a file of safetensors: {reason}") from None


def load_pretrained(path: Path, network: nn.Module, request: NetworkRequest) -> None:
    """Load the weights of --pretrained, but for a head of another number of classes.

    A file of safetensors or of `torch.save` has the values of a state_dict by their names: one of
    torchvision's or timm's, or a model that this program exported. The layer that scores the
    classes may have another number of them; it then keeps its random values. Nothing but tensors
    is unpickled. InputError: the file is missing or damaged, or does not fit the network.
    """
    values, own = _read_pretrained(path), network.state_dict()
    # The network's own values of a head that scores other classes in the file.
    head = {
        name: value
        for name, value in own.items()
        if name in values
        and values[name].dim() == value.dim() > 0
        and values[name].shape[1:] == value.shape[1:]
        and len(value) == request.classes != len(values[name])
    }
    if len({name.rpartition(".")[0] for name in head}) != 1:
        head = {}
    if problem := _misfit({**values, **head}, own):
        raise InputError(
            f"--pretrained (model.pretrained): {path} does not fit {request.network}: {problem}"
        )
    network.load_state_dict({**values, **head})
    if head:
        layer = next(iter(head)).rpartition(".")[0]
        classes = len(values[next(iter(head))])
        _log.info(
            "%s is new, for %d classes: %s has %d", layer, request.classes, path.name, classes
        )
    _log.info("weights are those of %s", path)


def _read_pretrained(path: Path) -> dict[str, torch.Tensor]:
    if path.suffix == ".safetensors":
        return read(path)[0]
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise InputError(
            f"--pretrained (model.pretrained): {path} cannot be read: {error.strerror}"
        ) from None
    except (UnpicklingError, RuntimeError, EOFError, ValueError, KeyError):
        raise InputError(
            f"--pretrained (model.pretrained): {path} is no file of tensors alone; write "
            "torch.save(network.state_dict(), …), or safetensors"
        ) from None
    wrapped = [found[name] for name in _WRAPPERS if _is_mapping(found) and name in found]
    values = next(filter(_is_mapping, wrapped), found)
    if not _is_mapping(values) or not all(map(torch.is_tensor, values.values())):
        raise InputError(
            f"--pretrained (model.pretrained): {path} has no state_dict: tensors by their names"
        )
    return dict(values)


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def _misfit(values: Tensors, own: Tensors) -> str | None:
    missing = [name for name in own if name not in values and not name.endswith(_OPTIONAL)]
    surplus = [name for name in values if name not in own]
    shaped = [
        f"{name} as {_shape(values[name])} instead of {_shape(value)}"
        for name, value in own.items()
        if name in values and values[name].shape != value.shape
    ]
    parts = [
        f"{verb} {', '.join(found[:_NAMED])}"
        + (f" and {len(found) - _NAMED} more" if len(found) > _NAMED else "")
        for verb, found in (
            ("it lacks", missing),
            ("it has also", surplus),
            ("it has", shaped),
        )
        if found
    ]
    return "; ".join(parts) or None


def _shape(value: torch.Tensor) -> str:
    return "x".join(map(str, value.shape)) or "a number"
