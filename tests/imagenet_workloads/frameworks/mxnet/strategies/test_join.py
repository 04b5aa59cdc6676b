"""The strategy of each --kv-store."""

import importlib.util
import sys

import pytest

from imagenet_workloads import rendezvous
from imagenet_workloads.commands.train import parse
from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.mxnet import strategies
from imagenet_workloads.frameworks.mxnet.description import DESCRIPTION, STRATEGIES
from imagenet_workloads.frameworks.mxnet.strategies import join
from imagenet_workloads.frameworks.mxnet.strategies.single import Single
from support.sentences import says


@pytest.mark.parametrize("kv_store", ["local", "device"])
def test_alone_it_is_the_single_one(kv_store: str) -> None:
    assert isinstance(join(parse(["--kv-store", kv_store]).cluster), Single)


@pytest.mark.parametrize("kv_store", STRATEGIES)
def test_every_name_has_its_modules(kv_store: str) -> None:
    names = {strategies: STRATEGIES, rendezvous: DESCRIPTION.rendezvous}
    for package, module in ((package, found[kv_store]) for package, found in names.items()):
        assert importlib.util.find_spec(f"{package.__name__}.{module}") is not None


def test_without_horovod_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(
        sys.modules, "imagenet_workloads.frameworks.mxnet.strategies.horovod", raising=False
    )
    monkeypatch.setitem(sys.modules, "horovod", None)
    facts = says("--kv-store horovod", "strategy: horovod", "make install-horovod")
    with pytest.raises(InputError, match=facts):
        join(parse(["--kv-store", "horovod"]).cluster)


@pytest.mark.parametrize("kv_store", ["local", "nccl", "horovod"])
def test_some_kvstores_cannot_compress(kv_store: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--kv-store", kv_store, "--gpus", "0", "--gc-type", "2bit"])
    assert f"--kv-store {kv_store} cannot compress" in capsys.readouterr().err


@pytest.mark.parametrize("kv_store", ["device", "dist_sync", "dist_device_sync", "dist_async"])
def test_the_others_can(kv_store: str) -> None:
    assert parse(["--kv-store", kv_store, "--gc-type", "2bit"]).cluster.gc_type == "2bit"
