"""Every program of a pod imports the specification, so it costs no more than it must."""

import json
import pkgutil
import subprocess
import sys

import imagenet_spec

# The operator's: what the extra `resource` installs.
RESOURCE = ("load", "resource", "rules", "stored", "validate")
MODULES = [
    module.name
    for module in pkgutil.walk_packages(imagenet_spec.__path__, "imagenet_spec.")
    if module.name.split(".")[1] not in RESOURCE
]
LOADED = """
import json, sys
before = set(sys.modules)
for name in sys.argv[1:]:
    __import__(name)
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def test_the_standard_library_is_enough() -> None:
    command = [sys.executable, "-c", LOADED, *MODULES]
    ended = subprocess.run(command, capture_output=True, check=True, text=True)
    loaded = {name.partition(".")[0] for name in json.loads(ended.stdout)}
    assert len(MODULES) > 8
    assert loaded - sys.stdlib_module_names == {"imagenet_spec"}


def test_a_pods_program_does_without_what_only_the_operator_has() -> None:
    code = "import sys; sys.modules['pydantic'] = sys.modules['kopf'] = None\n" + (
        "from imagenet_workloads.commands.train import main; main(['--help'])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "--network" in ended.stdout
