"""What holds for every test with PyTorch: one thread a process."""

import torch

torch.set_num_threads(1)
