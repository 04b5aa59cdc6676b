import copy

from hypothesis import given
from hypothesis import strategies as st

from imagenet_spec.resource.base import copied
from support.job_table import TABLE

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
def test_a_copy_is_equal(value: object) -> None:
    assert copied(value) == value


def test_a_copy_shares_nothing() -> None:
    original = copy.deepcopy(TABLE["all of preprocessing"])

    made = copied(original)
    made["spec"]["dataset"]["preprocessing"]["template"]["spec"].clear()
    made["spec"]["training"].clear()

    assert original == TABLE["all of preprocessing"]
