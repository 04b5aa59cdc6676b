"""Names that are meant by others."""

import pytest

from imagenet_spec.names import HINT, nearest

COMMANDS = ("demo", "run", "status", "tracking")


@pytest.mark.parametrize(
    ("name", "known", "likeness", "expected"),
    [
        ("batchSise", ("batches", "batchSize"), 0.7, "batchSize"),
        ("Batchsize", ("batchSize",), 0.7, "batchSize"),
        # A field of Kubernetes is not another one's misspelling.
        ("azureDisk", ("azureFile",), 0.7, None),
        ("hostnameOverride", ("hostname", "hostPID"), 0.7, None),
        ("rnu", COMMANDS, 0.65, "run"),
        ("trian", COMMANDS, 0.65, None),
        ("rms", ("adam", "rmsprop"), HINT, "rmsprop"),
        ("x", (), HINT, None),
    ],
)
def test_a_name_that_is_alike_is_meant(
    name: str, known: tuple[str, ...], likeness: float, expected: str | None
) -> None:
    assert nearest(name, known, likeness) == expected
