"""What the gradients of a turn stand for."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from paragon.torch._turn import TurnOfModel  # noqa: E402


def test_without_a_sampler_every_exchange_has_weight_1():
    turn = TurnOfModel()
    for _ in range(2):
        assert turn.weight() == (1.0, 0)
        turn.was_exchanged()
        assert not turn.is_over


def test_a_turn_has_one_exchange_of_its_examples():
    turn = TurnOfModel()
    turn.begin(8, accumulated=False)
    assert turn.weight() == (8.0, 8) and not turn.is_over
    turn.was_exchanged()
    assert turn.is_over
    turn.begin(5, accumulated=False)
    assert turn.weight() == (5.0, 5) and not turn.is_over


@pytest.mark.parametrize("flushed", [False, True])
def test_examples_that_were_only_accumulated_count_with_the_next_exchange(flushed):
    turn = TurnOfModel()
    turn.begin(8, accumulated=False)
    if flushed:
        turn.contributed_nothing()
    turn.begin(4, accumulated=True)
    assert turn.weight() == (12.0, 12)
    turn.was_exchanged()
    turn.begin(2, accumulated=False)
    assert turn.weight() == (2.0, 2)


def test_what_was_accumulated_after_the_exchange_is_not_counted_again():
    turn = TurnOfModel()
    turn.begin(8, accumulated=False)
    turn.was_exchanged()
    turn.begin(4, accumulated=True)
    assert turn.weight() == (4.0, 4)


def test_between_epochs_all_workers_have_weight_1():
    turn = TurnOfModel()
    turn.begin(8, accumulated=False)
    turn.was_exchanged()
    turn.begin(None, accumulated=False)
    assert turn.weight() == (1.0, 0) and not turn.is_over
