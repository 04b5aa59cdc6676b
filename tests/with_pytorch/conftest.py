"""What holds for every test with PyTorch: one thread a process, and benchmarks can be imported."""

import sys

import torch

from support.pod_subset import REPOSITORY

torch.set_num_threads(1)
sys.path.append(str(REPOSITORY))
