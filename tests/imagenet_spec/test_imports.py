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
DECLARATIONS = ("program.programs", "program.train", "metrics", "names", "frameworks", "strategies")
LOADED = """
import json, sys
before = set(sys.modules)
for name in sys.argv[1:]:
    __import__(name)
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def loaded_by(*modules: str) -> set[str]:
    command = [sys.executable, "-c", LOADED, *modules]
    ended = subprocess.run(command, capture_output=True, check=True, text=True)
    return {name.partition(".")[0] for name in json.loads(ended.stdout)}


def test_the_standard_library_is_enough() -> None:
    assert len(MODULES) > 8
    assert loaded_by(*MODULES) - sys.stdlib_module_names == {"imagenet_spec"}


def test_declarations_are_no_dataclasses() -> None:
    loaded = loaded_by(*(f"imagenet_spec.{name}" for name in DECLARATIONS))
    assert "dataclasses" not in loaded


def test_a_pods_program_does_without_what_only_the_operator_has() -> None:
    code = "import sys; sys.modules['pydantic'] = sys.modules['kopf'] = None\n" + (
        "from imagenet_workloads.commands.train import main; main(['--help'])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "--network" in ended.stdout


def test_a_rule_needs_the_compiled_module_of_its_library_alone() -> None:
    code = (
        "import sys; from imagenet_spec.rules import Rule, broken; "
        "print(len([*broken([Rule('self == 1.0', '')], 2.0)]), *sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    broken, *loaded = ended.stdout.split()
    assert broken == "1"
    assert not {"typer", "rich", "prompt_toolkit", "pygments"}.intersection(loaded)
