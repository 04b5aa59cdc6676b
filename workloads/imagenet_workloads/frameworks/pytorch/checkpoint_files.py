"""The files of a checkpoint and of an exported model, as PyTorch writes them.

    weights.safetensors         the network's state_dict: weights and BatchNorm's statistics
    states.safetensors          the optimizer's arrays, by WEIGHT/ARRAY
    average.safetensors         with a moving average, its state_dict

`checkpoint` chooses the folder and checks that it is complete. An exported model is one file,
PREFIX-NNNN.safetensors, with the state_dict. Its metadata name the network, so that `load_network`
builds it. No file holds a pickle. Imports PyTorch.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as serialize
from torch import nn

from imagenet_spec.program.train import Options
from imagenet_workloads import files
from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.pytorch import compilation, networks
from imagenet_workloads.frameworks.pytorch.averaging import MovingAverage
from imagenet_workloads.frameworks.pytorch.optimizers import Updater
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
        """Copy.

        Args:
            network: that is trained.
            updater: of its weights.
            statistics: of all devices.
            average: of the network's values; None without one.
            compiled: whether compiled code trains; None where it was not chosen.
        """
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
        """Fill a checkpoint's folder."""
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
    """Load the start's checkpoint into network and optimizer, if there is one.

    Raises:
        InputError: the saved values belong to another network, optimizer or framework.
    """
    if resume_point.folder is not None:
        origin = resume_point.folder / WEIGHTS
    elif options.output.load_epoch is not None:
        origin = _model(Path(str(options.output.model_prefix)), options.output.load_epoch)
    else:
        return
    weights, _ = read(origin)
    _load_weights(origin, network, weights, options.model.network)
    if resume_point.continues:
        _restore_optimizer(updater, resume_point)


def restore_average(average: MovingAverage, resume_point: ResumePoint) -> None:
    """Load the average of a checkpoint of this training.

    Raises:
        InputError: the file is missing or damaged.
    """
    if resume_point.folder is not None and resume_point.continues:
        averages, _ = read(resume_point.folder / AVERAGE)
        average.load(averages)


def _restore_optimizer(updater: Updater, resume_point: ResumePoint) -> None:
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


def export(prefix: Path, network: nn.Module, epoch: int, request: NetworkRequest) -> Metadata:
    """Write PREFIX-NNNN.safetensors, renamed into place when complete.

    Returns:
        its name.

    Raises:
        StorageError: the folder cannot be written.
    """
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

    Raises:
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
    """Read tensors by name, and the metadata.

    Raises:
        InputError: the file is missing or damaged.
    """
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return tensors, dict(file.metadata() or {})
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: not a file of safetensors: {reason}") from None
