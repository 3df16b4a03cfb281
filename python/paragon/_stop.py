"""How all workers of a job stop together before the last epoch: with a checkpoint, or told to end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from . import _process

if TYPE_CHECKING:
    from ._store import Store, Turn


class StoppedExit(SystemExit):
    """All workers of the job stopped together before the last epoch. It ends the program in order.

    It comes out of the loops over turns, so that what follows them is left to the run that goes on.
    ``code`` is 0 if the job was asked to stop with a checkpoint (``launch ctl stop``, SIGUSR1) and
    has one, else 143, as after SIGTERM.
    """

    def __init__(self, text: str, code: int, saved: bool) -> None:
        super().__init__(code)
        self.text = text
        self.saved = saved
        """Whether there is a checkpoint from which a run can go on."""

    def __str__(self) -> str:
        return self.text


def end(store: "Store", turn: "Turn", missing: Optional[str]) -> StoppedExit:
    """Tells the job what came of a stop, and returns what ends this program.

    ``turn`` is of kind "stopped". ``missing`` says why there is no checkpoint; None: there is."""
    store.stopped(missing is None, missing or "")
    if missing is None:
        text = f"the job stops after {turn.steps} steps, with a checkpoint to go on from"
    else:
        text = f"the job stops after {turn.steps} steps, without a checkpoint: {missing}"
    if store.rank == 0:
        _process.say(text)
    code = 0 if missing is None and turn.stop == "checkpoint" else 143
    return StoppedExit(text, code, missing is None)
