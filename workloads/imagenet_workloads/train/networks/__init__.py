"""The networks that can be trained, as symbols that plain MXNet loads.

`catalogue.build` is the only way in; each other module is one family and knows nothing of the
others. Symbols end in SoftmaxOutput `softmax`, and take `data` and `softmax_label`, as MXNet's
Module expects. These modules import MXNet.
"""

from imagenet_workloads.train.networks.catalogue import build

__all__ = ["build"]
