"""The resource ImageNetJob: its typed models.

`imagenet_spec.load` reads a manifest, `imagenet_spec.validate` judges it and returns the job. It
needs the libraries of the extra ``resource``, which only the operator installs.
"""

from imagenet_spec.resource.base import Manifest, Model
from imagenet_spec.resource.job import GROUP, KIND, VERSION, ImageNetJob

__all__ = ["GROUP", "KIND", "VERSION", "ImageNetJob", "Manifest", "Model"]
