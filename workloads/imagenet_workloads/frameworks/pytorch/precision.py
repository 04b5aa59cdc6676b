"""The precision of PyTorch's operations: autocast, and with float16 a scaled loss.

Weights, their gradients and the optimizer's arrays stay in float32, and so do validation and the
exported model. In float16 small gradients would round to 0. So the loss is multiplied by a scale,
and the gradients are divided by it before an update. If a gradient overflows, the weights stay, and
the scale is halved (Micikevicius et al. 2018). Imports PyTorch.
"""

from collections.abc import Mapping

import torch

_TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_SCALE, _TRACKER = ":scale", ":growth_tracker"


class Precision:
    """A precision on a device."""

    def __init__(self, name: str = "float32", device: torch.device | None = None) -> None:
        """Take a value of --dtype, and the network's device; None is the CPU."""
        kind = "cpu" if device is None else device.type
        self._kind, self._type = kind, _TYPES[name]
        self.scaler = torch.amp.GradScaler(kind, enabled=self._type == torch.float16)

    def autocast(self) -> torch.autocast:
        """Compute a block's forward pass in the precision, where PyTorch knows that it suffices."""
        return torch.autocast(self._kind, self._type, enabled=self._type != torch.float32)

    def states(self) -> dict[str, torch.Tensor]:
        """Return the scale, and the updates since it changed; nothing without a scale."""
        if not self.scaler.is_enabled():
            return {}
        found = self.scaler.state_dict()
        scale, tracker = found["scale"], found["_growth_tracker"]
        return {_SCALE: torch.tensor(scale), _TRACKER: torch.tensor(tracker)}

    def load_states(self, states: Mapping[str, torch.Tensor]) -> None:
        """Go on with saved states.

        Raises:
            ValueError: they have no scale, and the precision needs one.
        """
        if not self.scaler.is_enabled():
            return
        if not {_SCALE, _TRACKER} <= states.keys():
            raise ValueError("it has no scale of float16")
        saved = {"scale": states[_SCALE].item(), "_growth_tracker": states[_TRACKER].item()}
        self.scaler.load_state_dict({**self.scaler.state_dict(), **saved})
