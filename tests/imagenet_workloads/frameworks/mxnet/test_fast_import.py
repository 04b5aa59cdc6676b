"""MXNet without the modules that training does not use: the rest works as usual."""

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import builtins
import json
import sys
import scipy
from imagenet_workloads.frameworks.mxnet.fast_import import UNUSED, lighten_mxnet

made = []
execute = builtins.exec

def noted(code, names=None, *local):
    caller = sys._getframe(1).f_globals
    if isinstance(code, str) and caller["__name__"].startswith("mxnet."):
        made.append(code.split("(")[0].split()[1])
    execute(code, caller if names is None else names, *local)

builtins.exec = noted
lighten_mxnet()
finders = len(sys.meta_path)
import mxnet as mx
two = mx.nd.concat(mx.nd.ones((1, 2)), mx.nd.zeros((1, 2)), dim=0)
for _ in range(2):
    mx.nd.relu(two - 1)
made_by_then = list(made)
mx.nd.save(sys.argv[1], {"arg:w": two})
drawn = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="last")
lighten_mxnet()
print(json.dumps({
    "unused": [name for name in UNUSED if sys.modules[name] is not None],
    "more finders": len(sys.meta_path) - finders,
    "made": made_by_then,
    "saved": mx.nd.load(sys.argv[1])["arg:w"].asnumpy().tolist(),
    "numpy": float(mx.np.sum(mx.np.ones(3))),
    "name": mx.nd.FullyConnected.__name__,
    "arguments": drawn.list_arguments(),
}))
"""


def test_mxnet_does_without_and_makes_an_operator_once_it_is_called(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "p")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == {
        # What was there before stays.
        "unused": ["scipy"],
        "more finders": 0,
        "made": ["_ones", "_zeros", "concat", "_minus_scalar", "relu"],
        "saved": [[1.0, 1.0], [0.0, 0.0]],
        "numpy": 3.0,
        "name": "FullyConnected",
        "arguments": ["data", "last_weight", "last_bias"],
    }
