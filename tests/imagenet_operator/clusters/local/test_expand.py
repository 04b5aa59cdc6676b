import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_operator.clusters.local.expand import expand

VARIABLES = {"VAR_A": "A", "VAR_B": "B", "VAR_REF": "$(VAR_A)", "VAR_EMPTY": ""}


# The table is that of Kubernetes' own expand_test.go, where it says the same of one mapping.
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(VAR_A)", "A"),
        ("___$(VAR_B)___", "___B___"),
        ("$(VAR_A)$(VAR_B)", "AB"),
        ("$(VAR_REF)", "$(VAR_A)"),
        ("$$(VAR_A)", "$(VAR_A)"),
        ("$$$(VAR_A)", "$A"),
        ("$$$$(VAR_A)", "$$(VAR_A)"),
        ("$$$$$(VAR_A)", "$$A"),
        ("f000-$(VAR_A)", "f000-A"),
        ("foo$(VAR_EMPTY)bar", "foobar"),
        ("$(UNKNOWN)", "$(UNKNOWN)"),
        ("$(VAR_A", "$(VAR_A"),
        ("$VAR_A", "$VAR_A"),
        ("$", "$"),
        ("$(", "$("),
        ("$$", "$"),
        ("$()", "$()"),
        ("$(VAR_A))", "A)"),
        ("$((VAR_A))", "$((VAR_A))"),
        ("$(VAR-A)", "$(VAR-A)"),
        ("{$(VAR_A)}", "{A}"),
        ("", ""),
    ],
)
def test_expands_as_kubernetes_does(text: str, expected: str) -> None:
    assert expand(text, VARIABLES) == expected


@given(st.text(st.characters(exclude_characters="$")))
def test_leaves_text_without_references_alone(text: str) -> None:
    assert expand(text, VARIABLES) == text


@given(st.text(alphabet="$()AB_ VR", max_size=30))
def test_doubled_dollars_protect_any_text(text: str) -> None:
    assert expand(text.replace("$", "$$"), VARIABLES) == text
