"""The resource ImageNetJob: its typed models and its validation.

All other packages take an `ImageNetJob` that this package has parsed.
"""

from imagenet_operator.api.base import Manifest, Model
from imagenet_operator.api.job import GROUP, KIND, VERSION, ImageNetJob
from imagenet_operator.api.load import load
from imagenet_operator.api.validation import parse, validate
from imagenet_operator.errors import Problem

__all__ = [
    "GROUP",
    "KIND",
    "VERSION",
    "ImageNetJob",
    "Manifest",
    "Model",
    "Problem",
    "load",
    "parse",
    "validate",
]
