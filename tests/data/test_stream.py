"""Streams: every pass is a permutation, for any order and batch size; a restored stream goes on bit for bit."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from refprior.data._stream import Stream


def stream(size: int, seed: int = 0, copies: int = 1) -> Stream:
    return Stream(size, torch.Generator().manual_seed(seed), copies)


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


@pytest.mark.parametrize("copies", [1, 3, 1311])
def test_copies_are_shuffled_together(copies: int) -> None:
    drawn = stream(50, copies=copies)
    one_pass = drawn.take(50 * copies)
    assert torch.bincount(one_pass, minlength=50).tolist() == [copies] * 50
    other = stream(50, seed=1, copies=copies)
    other.take(7)
    other.load_state_dict(drawn.state_dict())
    assert torch.equal(other.take(64), drawn.take(64))


def test_many_copies_repeat_within_a_batch_as_draws_with_replacement_do() -> None:
    """64 of 50 labels: the authors' batches hold 36.3 different ones, 50 (1 - (49/50)^64)."""

    def different(copies: int) -> float:
        drawn = stream(50, copies=copies)
        return sum(len(drawn.take(64).unique()) for _ in range(1000)) / 1000

    assert different(1311) == pytest.approx(50 * (1 - 0.98**64), abs=0.3)
    assert different(1) > 45
