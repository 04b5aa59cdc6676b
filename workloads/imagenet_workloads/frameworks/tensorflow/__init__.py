"""Training with TensorFlow. `description` and `networks` import no TensorFlow; the others may."""
