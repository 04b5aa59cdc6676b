"""Training with MXNet. `description` imports no MXNet; the other modules may."""
