"""What the gradients of a turn of ElasticSampler stand for in the mean."""

from __future__ import annotations

from typing import Optional, Tuple


class TurnOfModel:
    """How many examples one model's gradients are of, and whether the turn had its exchange.

    A turn has one exchange. Examples of a turn whose gradients were only accumulated are carried
    over to the next exchange, which sends these gradients, too."""

    def __init__(self) -> None:
        # The examples of the turn's batch; None: no sampler of ours hands out turns.
        self.examples: Optional[int] = None
        # Whether the turn's exchange has been made, also one of nothing.
        self.exchanged = False
        # Whether an exchange has sent the examples: one of nothing has not.
        self._sent = False
        # The examples of turns before that no exchange has sent.
        self._carried = 0

    def begin(self, examples: Optional[int], accumulated: bool) -> None:
        """Begins a turn. ``accumulated``: gradients of the turn before were not exchanged."""
        if accumulated and self.examples and not self._sent:
            self._carried += self.examples
        self.examples, self.exchanged, self._sent = examples, False, False

    def weight(self) -> Tuple[float, int]:
        """The weight of an exchange in the mean, and the examples that it uses up."""
        if self.examples is None:
            return 1.0, 0
        examples = self.examples + self._carried
        return float(examples), examples

    def was_exchanged(self) -> None:
        """The gradients of the turn, and those carried over, have been exchanged."""
        self.exchanged, self._sent, self._carried = True, True, 0

    def contributed_nothing(self) -> None:
        """The turn ended without gradients, and took part in the round with weight 0."""
        self.exchanged = True

    @property
    def is_over(self) -> bool:
        """Whether a further exchange would be the turn's second."""
        return self.examples is not None and self.exchanged
