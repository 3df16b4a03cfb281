"""Facts about this process: forks, spawned children, sub-interpreters, its standard error."""

from __future__ import annotations

import hashlib
import os
import sys
from typing import Any, Optional

from .errors import ForkError

MEMBER = "PARAGON_MEMBER_PROCESS"
"""The environment variable by which a started child knows that its parent is the member."""

_UNGUARDED = """\
paragon: init() was called while a multiprocessing child (process {pid}) imported the main module. \
Children started by spawn or forkserver run the script's top level again, so put it into

    if __name__ == "__main__":
        main()"""


def refuse_subinterpreter() -> None:
    """Raises ImportError in a sub-interpreter, where neither numpy nor torch works."""
    try:
        if sys.version_info >= (3, 13):
            import _interpreters as interpreters  # type: ignore[import-not-found]
        else:
            import _xxsubinterpreters as interpreters  # type: ignore[import-not-found]
        current, main = interpreters.get_current(), interpreters.get_main()
    except (ImportError, AttributeError):
        # Another implementation of Python, or one built without them: there is nothing to tell.
        return
    if current != main:
        raise ImportError(
            "paragon: imported in a sub-interpreter, where numpy and torch do not work either; "
            "import it in the main interpreter of a process of its own"
        )


def refuse_child() -> None:
    """Raises ForkError in a child process of the one that is the member of the job."""
    multiprocessing: Any = sys.modules.get("multiprocessing.process")
    if multiprocessing is not None:
        # This is what multiprocessing itself asks when a child starts children at import.
        if getattr(multiprocessing.current_process(), "_inheriting", False):
            raise ForkError(_UNGUARDED.format(pid=os.getpid()))
    member, _, job = os.environ.get(MEMBER, "").partition(" ")
    # A child with another job in its environment was started as a worker of that job.
    if member in ("", str(os.getpid())) or job != _job() or not _is_ancestor(int(member)):
        return
    raise ForkError(
        f"paragon: process {member}, which started this one (process {os.getpid()}), is the "
        "worker of the job; call init() in that process alone, and hand its children numbers "
        f"and arrays. A program of its own is started without {MEMBER} in its environment"
    )


def become_member() -> None:
    """Tells children that are started from now on that this process is the member of its job."""
    os.environ[MEMBER] = f"{os.getpid()} {_job()}"


def leave_member() -> None:
    """Ends what become_member began."""
    if os.environ.get(MEMBER, "").partition(" ")[0] == str(os.getpid()):
        del os.environ[MEMBER]


def _job() -> str:
    """Returns a hash of the environment variables that describe the job."""
    names = sorted(n for n in os.environ if n.startswith(("DMLC_", "PARAGON_")) and n != MEMBER)
    text = "\n".join(f"{n}={os.environ[n]}" for n in names)
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:16]


def _is_ancestor(pid: int) -> bool:
    """Whether process pid is alive and an ancestor of this one."""
    at: Optional[int] = os.getpid()
    while at is not None and at > 1:
        at = _parent(at)
        if at == pid:
            return True
    return False


def _parent(pid: int) -> Optional[int]:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
            # The name, in parentheses, may hold spaces.
            return int(f.read().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return None


def say(text: str) -> None:
    """Prints a line for people on standard error, if there is one."""
    if sys.stderr is not None:
        try:
            # One write: print makes two where nothing is buffered, and the bridge writes there as
            # well.
            sys.stderr.write(f"paragon: {text}\n")
            sys.stderr.flush()
        except (OSError, ValueError):
            # A closed standard error is no reason to end the training.
            pass


def say_again(text: str) -> None:
    """Prints a line that the bridge has printed on descriptor 2, if sys.stderr is another one.

    In a notebook people see what sys.stderr gets alone."""
    try:
        same = sys.stderr.fileno() == 2
    except (AttributeError, OSError, ValueError):
        same = False
    if not same:
        say(text)


def is_interactive() -> bool:
    """Whether an exception ends nothing here: a notebook, or Python's own prompt."""
    return hasattr(sys, "ps1") or bool(sys.flags.interactive) or "ipykernel" in sys.modules
