"""`imagenetctl networks`: lists the networks, their depths and frameworks.

The table is `resource.networks`, by which manifests are checked.
"""

from __future__ import annotations

import argparse
import json

from imagenet_operator.cli import exit_codes
from imagenet_operator.cli.arguments import Command, add_output
from imagenet_spec.frameworks import FRAMEWORKS
from imagenet_spec.program.train import SMALL_IMAGE
from imagenet_spec.resource.frameworks import NETWORKS

_SMALL_RESNET = f"up to {SMALL_IMAGE} px: 6n+2 (8, 20, 56, 110…), from 164 on 9n+2"


def add_parser(command: Command) -> None:
    """Declare the command."""
    parser = command.declare(
        run,
        summary="list the networks, their depths and frameworks",
        description="List the networks that spec.training.model takes.",
        epilog=(
            f"exit codes: {exit_codes.SUCCESS} listed, "
            f"{exit_codes.ENVIRONMENT} the output cannot be written"
        ),
    )
    add_output(parser, "a JSON list")


def run(arguments: argparse.Namespace) -> int:
    """Print the networks; return the exit code."""
    having = {
        network: [name for name, framework in FRAMEWORKS.items() if network in framework.networks]
        for network in NETWORKS
    }
    if arguments.output == "json":
        documents = [
            {
                "network": name,
                "numLayers": list(family.depths),
                "smallestImage": family.smallest,
                "frameworks": having[name],
            }
            for name, family in NETWORKS.items()
        ]
        print(json.dumps(documents, indent=2))
        return exit_codes.SUCCESS
    rows = [("NETWORK", "DEPTHS (numLayers)", "SMALLEST IMAGE", *FRAMEWORKS)]
    rows += [
        (
            name,
            ", ".join(map(str, family.depths)) or "-",
            f"{family.smallest} px" if family.smallest > 1 else "any",
            *("yes" if framework in having[name] else "-" for framework in FRAMEWORKS),
        )
        for name, family in NETWORKS.items()
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells).rstrip())
    for name, framework in FRAMEWORKS.items():
        if framework.network_prefix:
            print(f"\n{framework.network_prefix}NAME, {name}: the network NAME of that library")
    print(f"\nresnet, {_SMALL_RESNET}")
    return exit_codes.SUCCESS
