"""The GPU code of the installed build is the documented one."""

import re

import torch

from support.pod_subset import REPOSITORY


def test_the_page_of_images_lists_the_code() -> None:
    page = (REPOSITORY / "docs" / "images.md").read_text()
    (listed,) = re.findall(r"`torch\.cuda\.get_arch_list\(\)`: ([^)]*)\)", page)
    assert re.findall(r"`(\w+)`", listed) == torch.cuda.get_arch_list()
