"""Bytes that come in blocks of any length, read in chunks of any other."""

import hashlib
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_workloads.records.format import HashedFile, Stream

blocks = st.lists(st.binary(max_size=7), max_size=8)


@given(blocks=blocks, lengths=st.lists(st.integers(0, 9), max_size=12), skips=st.booleans())
def test_any_pieces_together_are_the_bytes(
    blocks: list[bytes], lengths: list[int], skips: bool
) -> None:
    whole, stream, position = b"".join(blocks), Stream(iter(blocks)), 0
    for number, length in enumerate(lengths):
        if position + length > len(whole):
            with pytest.raises(ValueError, match="the file ends inside a record"):
                stream.read(length)
            return
        if skips and number % 2:
            stream.skip(length)
        else:
            assert stream.read(length) == whole[position : position + length]
        position += length
        assert stream.at_end() == (position == len(whole))


@given(blocks=blocks, beyond=st.integers(1, 5))
def test_skipping_beyond_the_end_is_noticed(blocks: list[bytes], beyond: int) -> None:
    with pytest.raises(ValueError, match="the file ends inside a record"):
        Stream(iter(blocks)).skip(sum(map(len, blocks)) + beyond)


@given(blocks=blocks)
def test_pieces_are_parts_of_blocks(blocks: list[bytes]) -> None:
    length = sum(map(len, blocks))
    chunks = list(Stream(iter(blocks)).chunks(length))
    assert chunks == [block for block in blocks if block]


def test_no_more_is_taken_than_is_asked_for() -> None:
    stream = Stream(iter([b"abcdef"]))
    chunks = stream.chunks(4)
    assert next(chunks) == b"abcd"
    assert stream.read(2) == b"ef"


@given(contents=st.lists(st.binary(max_size=9), max_size=6))
def test_a_hashed_file_tells_what_it_holds(contents: list[bytes]) -> None:
    under = io.BytesIO()
    file = HashedFile(under)
    for content in contents:
        file.write(content)
    assert file.bytes == len(under.getvalue())
    assert file.sha256() == hashlib.sha256(under.getvalue()).hexdigest()
