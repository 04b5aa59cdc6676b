"""Training with PyTorch. `description` and `networks` import no PyTorch; the others may."""
