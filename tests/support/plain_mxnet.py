"""What MXNet says by itself, without this project's networks or loops: the judge of models."""

from dataclasses import dataclass
from pathlib import Path

import mxnet as mx


@dataclass(frozen=True)
class Evaluation:
    """Counts over all images.

    Attributes:
        images: how many.
        top1: right ones.
        top5: right among the first five.
    """

    images: int
    top1: int
    top5: int


def evaluate(
    prefix: Path,
    epoch: int,
    records: list[Path],
    image_shape: tuple[int, int, int],
    mean: tuple[float, float, float],
    std: tuple[float, float, float],
) -> Evaluation:
    """Load PREFIX-symbol.json and PREFIX-NNNN.params with Module, and score each record once."""
    symbol, arguments, auxiliary = mx.model.load_checkpoint(str(prefix), epoch)
    module = mx.mod.Module(symbol, context=mx.cpu())
    module.bind([("data", (1, *image_shape))], [("softmax_label", (1,))], for_training=False)
    module.set_params(arguments, auxiliary)
    top1, top5 = mx.metric.Accuracy(), mx.metric.TopKAccuracy(5)
    for record in records:
        # Batches of one: no padding, and nothing to get wrong.
        images = mx.io.ImageRecordIter(
            path_imgrec=str(record),
            data_shape=image_shape,
            batch_size=1,
            shuffle=False,
            verbose=False,
            **dict(zip(("mean_r", "mean_g", "mean_b"), mean, strict=True)),
            **dict(zip(("std_r", "std_g", "std_b"), std, strict=True)),
        )
        for batch in images:
            module.forward(batch, is_train=False)
            module.update_metric(top1, batch.label)
            module.update_metric(top5, batch.label)
    return Evaluation(int(top1.num_inst), round(top1.sum_metric), round(top5.sum_metric))
