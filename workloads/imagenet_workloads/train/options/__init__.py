"""The command line of `imagenet-train`: from declared groups of options to one typed value.

The options are declared in `imagenet_spec.program`. `description` is what a framework adds.
`command_line` puts them together. Import-light: no MXNet, no numpy.
"""

from imagenet_spec.program.train import Options
from imagenet_workloads.train.options.command_line import build_parser, parse
from imagenet_workloads.train.options.description import FrameworkDescription

__all__ = ["FrameworkDescription", "Options", "build_parser", "parse"]
