"""Streams: every pass is a permutation, for any order and batch size; a restored stream goes on bit for bit."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from refprior.data._stream import Stream


def stream(size: int, seed: int = 0) -> Stream:
    return Stream(size, torch.Generator().manual_seed(seed))


@given(size=st.integers(1, 50), tuples=st.integers(1, 40), order=st.integers(1, 7), steps=st.integers(1, 6))
@settings(max_examples=100, deadline=None)
def test_every_pass_is_a_permutation(size: int, tuples: int, order: int, steps: int) -> None:
    drawn = stream(size)
    batches = [drawn.take(tuples, order) for _ in range(steps)]
    assert all(b.shape == (tuples, order) for b in batches)
    everything = torch.cat([b.flatten() for b in batches])
    for one_pass in everything.split(size):
        assert len(one_pass.unique()) == len(one_pass)
        assert 0 <= int(one_pass.min()) <= int(one_pass.max()) < size


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_the_orders_of_the_paper_with_a_batch_that_they_do_not_divide(order: int) -> None:
    assert stream(1000).take(448, order).shape == (448, order)


def test_the_indices_do_not_depend_on_how_they_are_taken() -> None:
    first, second = stream(10), stream(10)
    one = torch.cat([first.take(3).flatten() for _ in range(8)])
    assert torch.equal(one, second.take(12, 2).flatten())


def test_a_restored_stream_goes_on_where_it_was() -> None:
    drawn = stream(11)
    drawn.take(4, 3)
    state = drawn.state_dict()
    expected = [drawn.take(5, 2) for _ in range(4)]
    other = stream(11, seed=9)
    other.take(7)
    other.load_state_dict(state)
    assert all(torch.equal(other.take(5, 2), e) for e in expected)


def test_a_saved_state_is_a_copy() -> None:
    drawn = stream(11)
    drawn.take(4)
    state = drawn.state_dict()
    before = state["waiting"].clone()
    drawn.take(40)
    assert torch.equal(state["waiting"], before)


def test_a_state_of_another_pool_is_refused() -> None:
    drawn = stream(100)
    drawn.take(1)
    with pytest.raises(ValueError, match="this pool has 50"):
        stream(50).load_state_dict(drawn.state_dict())


def test_an_empty_pool_is_refused() -> None:
    with pytest.raises(ValueError, match="empty pool"):
        stream(0)
