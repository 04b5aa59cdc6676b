"""What holds for every test."""

from hypothesis import HealthCheck, settings

# How long a machine that does other things takes over an example says nothing about the code.
settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("untimed")
