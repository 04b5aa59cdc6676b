"""The strategy `single`: one worker without peers."""

from __future__ import annotations

from imagenet_operator.manifests import worker
from imagenet_operator.manifests.settings import Settings
from imagenet_operator.manifests.strategies import Replicas
from imagenet_spec.frameworks import FRAMEWORKS
from imagenet_spec.resource import ImageNetJob


def members(job: ImageNetJob, attempt: int, settings: Settings) -> list[Replicas]:
    """Return the only member of an attempt."""
    training = job.spec.training
    single = training.strategy.single
    assert single is not None, "this module serves no other strategy"
    support = FRAMEWORKS[training.framework].strategies[training.strategy.kind]
    # The options of a framework without kvstores name the strategy already.
    options = {} if support.options else {"kv_store": single.kv_store}
    return [Replicas.alike(worker.program(job, settings, options), 1)]
