"""MXNet's optimizers for Keras: the same formulas, the same weight decay. Imports TensorFlow.

    sgd     m = mom * m - lr * (g + wd * w);  w += m
    nag     the same with Nesterov's lookahead
    adam    with the bias corrections in the learning rate, and wd * w in the gradient
    rmsprop the same, not centred, over the root of a moving mean of squares
    adamw   adam with wd * w in the update
    lamb    adamw, scaled for each weight by |w| / |update|

MXNet's other optimizers are not available. g is the mean over the images of all workers. Biases
and betas do not decay.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from imagenet_spec.program.train import OptimizerOptions
from imagenet_workloads.frameworks.tensorflow.weights import Array, Named, local
from imagenet_workloads.train.networks import require_optimizer


class Optimizer(tf.keras.optimizers.Optimizer):  # type: ignore[misc]
    """The base of the optimizers; `kept` names its arrays for each weight."""

    kept: ClassVar[tuple[str, ...]] = ()

    def __init__(self, options: OptimizerOptions, weights: list[Named]) -> None:
        super().__init__(name=options.optimizer, jit_compile=False)
        self._learning_rate = self._build_learning_rate(options.lr)
        self._momentum, self._clip = options.mom, options.clip_gradient
        self._weights = weights
        self.decays = [options.wd if one.decays else 0.0 for one in weights]
        self.build([one.variable for one in weights])

    def build(self, variables: list[Any]) -> None:
        super().build(variables)
        if getattr(self, "_kept", None) is None:
            self._kept = {
                name: [self.add_variable_from_reference(one, name) for one in variables]
                for name in self.kept
            }

    def update_step(self, gradient: Any, variable: Any) -> None:
        place = self._index_dict[self._var_key(variable)]
        kept = [self._kept[name][place] for name in self.kept]
        self.move(variable, gradient, self.decays[place], *kept)

    def move(self, variable: Any, gradient: Any, decay: float, *kept: Any) -> None:
        raise NotImplementedError

    def clipped(self, gradient: Any) -> Any:
        """Clip as the options say; some formulas clip before weight decay, some after."""
        if self._clip is None:
            return gradient
        return tf.clip_by_value(gradient, -self._clip, self._clip)

    def states(self) -> dict[str, Array]:
        """Return the state arrays by WEIGHT/ARRAY, in MXNet's layouts."""
        return {
            f"{one.name}/{name}": one.to_mxnet(local(arrays[place]).numpy())
            for name, arrays in self._kept.items()
            for place, one in enumerate(self._weights)
        } | {":updates": np.asarray(local(self.iterations).numpy(), np.int64)}

    def load_states(self, states: Mapping[str, Array]) -> None:
        """Load saved states; KeyError if they belong to another optimizer."""
        for name, arrays in self._kept.items():
            for place, one in enumerate(self._weights):
                arrays[place].assign(one.from_mxnet(states[f"{one.name}/{name}"]))
        self.iterations.assign(int(states[":updates"]))

    def get_config(self) -> dict[str, Any]:
        """Refuse: checkpoints hold `states`, and no Keras file restores an optimizer."""
        raise NotImplementedError


class SGD(Optimizer):
    """Stochastic gradient descent with momentum."""

    kept = ("momentum",)

    def move(self, variable: Any, gradient: Any, decay: float, *kept: Any) -> None:
        (momentum,) = kept
        step = self.learning_rate * (self.clipped(gradient) + decay * variable)
        momentum.assign(self._momentum * momentum - step)
        variable.assign_add(momentum)


class NAG(Optimizer):
    """Nesterov's accelerated gradient, as MXNet computes it.

    Its momentum uses the decay of the updated weight.
    """

    kept = ("momentum",)

    def move(self, variable: Any, gradient: Any, decay: float, *kept: Any) -> None:
        (momentum,) = kept
        rate, gradient = self.learning_rate, self.clipped(gradient)
        before = self._momentum * momentum
        ahead = before - rate * (gradient + decay * variable)
        variable.assign_add((1 + self._momentum) * ahead - before)
        momentum.assign(before - rate * (gradient + decay * variable))


class Adam(Optimizer):
    """Adam (Kingma and Ba 2014) with MXNet's defaults."""

    kept = ("mean", "variance")
    beta1, beta2, epsilon = 0.9, 0.999, 1e-8

    def move(self, variable: Any, gradient: Any, decay: float, *kept: Any) -> None:
        mean, variance = kept
        gradient = self.clipped(gradient + decay * variable)
        update = tf.cast(self.iterations + 1, variable.dtype)
        corrected = tf.sqrt(1 - self.beta2**update) / (1 - self.beta1**update)
        mean.assign(self.beta1 * mean + (1 - self.beta1) * gradient)
        variance.assign(self.beta2 * variance + (1 - self.beta2) * tf.square(gradient))
        step = self.learning_rate * corrected
        variable.assign_sub(step * mean / (tf.sqrt(variance) + self.epsilon))


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019)."""

    def move(self, variable: Any, gradient: Any, decay: float, *kept: Any) -> None:
        variable.assign_sub(self.learning_rate * decay * variable)
        super().move(variable, gradient, 0.0, *kept)


class LAMB(Optimizer):
    """Adam with a scale for each layer (You et al. 2020), with MXNet's defaults."""

    kept = ("mean", "variance")
    beta1, beta2, epsilon = 0.9, 0.999, 1e-6

    def move(self, variable: Any, gradient: Any, decay: float, *kept: Any) -> None:
        mean, variance = kept
        gradient = self.clipped(gradient)
        update = tf.cast(self.iterations + 1, variable.dtype)
        mean.assign(self.beta1 * mean + (1 - self.beta1) * gradient)
        variance.assign(self.beta2 * variance + (1 - self.beta2) * tf.square(gradient))
        root = tf.sqrt(variance / (1 - self.beta2**update)) + self.epsilon
        direction = mean / (1 - self.beta1**update) / root + decay * variable
        sizes = tf.norm(variable), tf.norm(direction)
        trust = tf.where(sizes[0] * sizes[1] > 0, tf.math.divide_no_nan(*sizes), 1.0)
        variable.assign_sub(self.learning_rate * trust * direction)


class RMSProp(Optimizer):
    """RMSProp (Tieleman and Hinton 2012) with MXNet's defaults."""

    kept = ("variance",)
    decay, epsilon = 0.9, 1e-8

    def move(self, variable: Any, gradient: Any, decay: float, *kept: Any) -> None:
        (variance,) = kept
        gradient = self.clipped(gradient + decay * variable)
        variance.assign(self.decay * variance + (1 - self.decay) * tf.square(gradient))
        variable.assign_sub(self.learning_rate * gradient / tf.sqrt(variance + self.epsilon))


OPTIMIZERS: Mapping[str, type[Optimizer]] = {
    "adam": Adam,
    "adamw": AdamW,
    "lamb": LAMB,
    "nag": NAG,
    "rmsprop": RMSProp,
    "sgd": SGD,
}


def check(options: OptimizerOptions) -> None:
    """Check the name."""
    require_optimizer("TensorFlow", options.optimizer, OPTIMIZERS)


def create(options: OptimizerOptions, weights: list[Named]) -> Optimizer:
    """Make the optimizer; call it in the strategy's scope."""
    return OPTIMIZERS[options.optimizer.lower()](options, weights)
