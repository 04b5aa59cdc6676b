"""Checkpoints of a training: complete or absent, named by position, of one job."""
