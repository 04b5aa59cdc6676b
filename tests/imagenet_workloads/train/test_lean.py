"""MXNet without the packages that training does not use."""

import subprocess
import sys

PROGRAM = """
import sys
from imagenet_workloads.train.lean import UNUSED, hide_unused_packages
hide_unused_packages()
import mxnet as mx
assert not [name for name in UNUSED if sys.modules[name] is not None]
mx.nd.save(sys.argv[1], {"arg:w": mx.nd.ones(2)})
assert mx.nd.load(sys.argv[1])["arg:w"].asnumpy().sum() == 2
import json
hide_unused_packages()
assert sys.modules["json"] is json
"""


def test_mxnet_does_without(tmp_path: object) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, f"{tmp_path}/p"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
