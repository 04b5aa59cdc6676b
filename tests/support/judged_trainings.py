"""Trainings whose outcome numpy and plain MXNet know: the judges of a strategy's exactness."""

from pathlib import Path

import cv2
import mxnet as mx
import numpy as np
from numpy.typing import NDArray

from support import plain_mxnet
from support.evaluations import check_evaluation
from support.tiny_dataset import write_dataset
from support.training_cluster import result

MEAN, STD = (78.0, 78.0, 78.0), (96.0, 96.0, 96.0)
SMALL = ["--image-shape", "3,28,28", "--warmup-epochs", "0", "--lr-step-epochs", ""]


class Steps:
    """Three steps of the mlp, each on the same 32 images over all workers, from given weights.

    Attributes:
        arguments: of every worker, without the number of epochs; an epoch is one step.
    """

    def __init__(self, folder: Path, batch_of_worker: int) -> None:
        self._folder = folder
        self._data = write_dataset(folder / "data", train=32, validation=0, shards=1)
        random = np.random.default_rng(1)
        sizes = {"fc1": (128, 3 * 28 * 28), "fc2": (64, 128), "fc3": (10, 64)}
        self._weights = {f"{name}_weight": random.normal(0, 0.05, sizes[name]) for name in sizes}
        self._weights |= {
            f"{name}_bias": random.normal(0, 0.05, size[0]) for name, size in sizes.items()
        }
        start = {f"arg:{name}": mx.nd.array(array) for name, array in self._weights.items()}
        mx.nd.save(str(folder / "given-0000.params"), start)
        self.arguments = [*SMALL, "--dataset", str(self._data.folder)]
        self.arguments += ["--output", str(folder / "out"), "--network", "mlp", "--wd", "0.01"]
        self.arguments += ["--batch-size", str(batch_of_worker)]
        # For the 32 images of an update it is 0.1, after the first of 2 updates of warm-up.
        self.arguments += ["--lr", "0.2", "--lr-scaling", "linear", "--lr-scaling-base", "64"]
        self.arguments += ["--warmup-epochs", "2"]
        self.arguments += ["--model-prefix", str(folder / "given"), "--load-epoch", "0"]

    def check(self) -> None:
        """Compare the weights after each step with those of numpy."""
        images, labels = pixels(self._data.folder / "train-00000-of-00001.rec")
        weights = self._weights
        momenta = {name: np.zeros_like(array) for name, array in weights.items()}
        for epoch, rate in ((1, 0.05), (2, 0.1), (3, 0.1)):
            sgd_by_hand(weights, momenta, images, labels, rate)
            _, trained, _ = mx.model.load_checkpoint(str(self._folder / "given"), epoch)
            for name, array in weights.items():
                found = trained[name].asnumpy()
                np.testing.assert_allclose(found, array, atol=2e-6, err_msg=name)


class OneStepOfResnet:
    """One step of a network with BatchNorm on 2 workers, and an evaluation that both take part in.

    Attributes:
        arguments: of both workers.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # 37 validation images: 19 and 18, neither a multiple of the batch; one step an epoch.
        self._data = write_dataset(folder / "data", train=32, validation=37, shards=1)
        self.arguments = [*SMALL, "--dataset", str(self._data.folder)]
        self.arguments += ["--output", str(folder / "out"), "--network", "resnet"]
        self.arguments += ["--num-layers", "8", "--batch-size", "16", "--num-epochs", "1"]
        # The one step is followed by a checkpoint of its own, before the epoch is over.
        self.arguments += ["--top-k", "5", "--checkpoint-every-seconds", "0.000001"]

    def check(self) -> None:
        """Compare counts with plain MXNet's, and statistics with those of both halves."""
        attempt = self._folder / "out/attempts/r0"
        counted = result(self._folder / "out")["validation"]
        record = self._data.folder / "validation-00000-of-00001.rec"
        judged = plain_mxnet.evaluate(attempt / "model", 1, [record], (3, 28, 28), MEAN, STD)
        assert judged.images == counted["images"] == 37
        assert (judged.top1, judged.top5) == (counted["top1Count"], counted["top5Count"])
        check_evaluation(attempt, self._data.folder)

        images, _ = pixels(self._data.folder / "train-00000-of-00001.rec")
        halves = images[:16], images[16:]
        means = np.mean([half.mean(axis=(0, 2, 3)) for half in halves], axis=0)
        variances = np.mean([half.var(axis=(0, 2, 3)) for half in halves], axis=0)
        checkpoint = attempt / "checkpoints/epoch-0001-batch-00000000/params"
        for saved in (attempt / "model-0001.params", checkpoint):
            found = mx.nd.load(str(saved))
            mean = found["aux:bn_data_moving_mean"].asnumpy()
            variance = found["aux:bn_data_moving_var"].asnumpy()
            np.testing.assert_allclose(mean, 0.1 * means, atol=1e-4)
            np.testing.assert_allclose(variance, 0.9 + 0.1 * variances, atol=1e-3)


def pixels(record: Path) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """A record file's images as the network sees them, (images, 3, 28, 28), and their labels."""
    reader = mx.recordio.MXIndexedRecordIO(str(record.with_suffix(".idx")), str(record), "r")
    images, labels = [], []
    for key in reader.keys:
        header, encoded = mx.recordio.unpack(reader.read_idx(key))
        bgr = cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR)
        assert bgr is not None
        images.append((bgr[:, :, ::-1].astype(np.float64) - MEAN) / STD)
        labels.append(int(header.label))
    return np.stack(images).transpose(0, 3, 1, 2), np.array(labels)


def sgd_by_hand(
    weights: dict[str, NDArray[np.float64]],
    momenta: dict[str, NDArray[np.float64]],
    images: NDArray[np.float64],
    labels: NDArray[np.int64],
    rate: float,
) -> None:
    """One step of the mlp on all images at once: momentum 0.9, decay 1e-2 of weights."""
    flat = images.reshape(len(images), -1)
    first = np.maximum(flat @ weights["fc1_weight"].T + weights["fc1_bias"], 0)
    second = np.maximum(first @ weights["fc2_weight"].T + weights["fc2_bias"], 0)
    scores = second @ weights["fc3_weight"].T + weights["fc3_bias"]
    exponents = np.exp(scores - scores.max(axis=1, keepdims=True))
    error = exponents / exponents.sum(axis=1, keepdims=True)
    error[np.arange(len(labels)), labels] -= 1
    gradients = {}
    for layer, below in (("fc3", second), ("fc2", first), ("fc1", flat)):
        gradients[f"{layer}_weight"] = error.T @ below / len(images)
        gradients[f"{layer}_bias"] = error.sum(axis=0) / len(images)
        error = (error @ weights[f"{layer}_weight"]) * (below > 0)
    for name, gradient in gradients.items():
        decay = 1e-2 * weights[name] if name.endswith("_weight") else 0
        momenta[name] = 0.9 * momenta[name] - rate * (gradient + decay)
        weights[name] += momenta[name]
