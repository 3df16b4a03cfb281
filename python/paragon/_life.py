"""How the store follows the life of the process: its start, its end, signals.

There is one store in a process. At the end of the program it is closed, and an exception that
nobody caught aborts it with its text. In a forked child nothing of this does anything."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any, Optional

from . import _process
from .errors import ConflictError, FinishedError, NeededError, ParagonError, RemovedError

if TYPE_CHECKING:
    from ._store import Store

_current: Optional["Store"] = None
_lock = threading.Lock()
_hooked = False
# _sigterm is the process whose SIGTERM handler is ours; 0: none.
_sigterm = 0
# _told_to_end says that SIGTERM has asked for leave.
_told_to_end = False
# _apart says that children that are forked get a process group of their own: launch sends SIGTERM
# to the whole group of a worker, which takes its step to the end and needs its data loader for that.
_apart = False
# _OTHER_LAUNCHERS set a variable to how many processes they have started.
_OTHER_LAUNCHERS = {
    "WORLD_SIZE": "torchrun",
    "HOROVOD_SIZE": "horovodrun",
    "OMPI_COMM_WORLD_SIZE": "mpirun",
}


def init(store: str = "dist_sync", timeout: float = 300.0) -> "Store":
    """Joins the job of ``launch``, and returns the store; a second call returns the same one.

    Without a job in the environment this process is a job of one worker. ``store`` is "dist_sync"
    or "dist_async" (also "local" and "device", which are of one process). ``timeout`` is in
    seconds: a call that waits longer for others is an UnavailableError; ``math.inf`` waits for
    ever. The store is closed at the end of the program; an exception that ends the program fails
    the job, with its text."""
    from ._store import Store

    global _current
    if _current is not None:
        # Before the lock, which a thread of the parent may have held when it forked.
        _current.check_process()
    with _lock:
        if _current is not None and not _current.closed:
            if not _same(_current.type, store):
                raise ConflictError(
                    f"paragon: init: this process has a store {_current.type!r}, and {store!r} "
                    "was asked for; close that one first"
                )
            return _current
        _process.refuse_child()
        _current = Store(store, timeout)
        _process.become_member()
        _hook()
        if _current.alone and _current.type.startswith("dist"):
            _say_other_launcher()
        return _current


def _say_other_launcher() -> None:
    """Says that this process is no part of a job, if another launcher has started several."""
    for name, launcher in _OTHER_LAUNCHERS.items():
        workers = os.environ.get(name, "")
        if workers.isdecimal() and int(workers) > 1:
            _process.say(
                f"{name} is {workers}, as {launcher} sets it, but this process trains alone, as "
                f"the others do: start the program by launch -n {workers} -s 2 -- python ..."
            )
            return


def current() -> Optional["Store"]:
    """The store of this process; None: there is none."""
    return _current


def _same(a: str, b: str) -> bool:
    short = {"dist": "dist_sync"}
    return short.get(a, a) == short.get(b, b)


def ended(store: "Store") -> None:
    """Undoes what init did to this process: for children that are started, and for SIGTERM."""
    _process.leave_member()
    if _sigterm == os.getpid() and threading.current_thread() is threading.main_thread():
        _restore_sigterm()


def _hook() -> None:
    global _hooked
    if _hooked:
        return
    _hooked = True
    atexit.register(_at_exit)
    sys.excepthook = _Hook(sys.excepthook)
    threading.excepthook = _ThreadHook(threading.excepthook)


def _at_exit() -> None:
    store = _current
    if store is None:
        return
    # An exception that nobody caught is there also if another one came out of sys.excepthook, as
    # from a signal handler of torch: then the program has not ended in order.
    cause = getattr(sys, "last_value", None)
    if cause is not None:
        _abort(cause)
    _bounded(store.close)


def _abort(cause: BaseException) -> None:
    store = _current
    if store is None or store.closed or _process.is_interactive():
        return
    if isinstance(cause, (RemovedError, FinishedError)):
        # The job goes on without this worker, and nothing has failed.
        _bounded(store.close)
    else:
        _ignore_sigterm()
        _bounded(lambda: store.abort(cause))


def _bounded(end: Any) -> None:
    """Runs close or abort, which take 5.5 s at most; Ctrl-C ends them at once."""
    try:
        end()
    except KeyboardInterrupt:
        _process.say("interrupted again: ended without waiting for the bridge")
    except ParagonError as e:
        _process.say(str(e))


class _Hook:
    """sys.excepthook, with what was there before."""

    def __init__(self, before: Any) -> None:
        self._before = before

    def __call__(self, kind: Any, value: Any, trace: Any) -> None:
        try:
            if isinstance(value, NeededError) and _told_to_end:
                # SIGTERM ended the program at a turn, and its own code is not at fault.
                _process.say(f"SIGTERM ends this program: {value}")
            else:
                self._before(kind, value, trace)
        finally:
            _abort(value)


class _ThreadHook:
    """threading.excepthook, with what was there before.

    An exception that ends a thread aborts only if that thread has used the store: one of a
    progress bar or a logger is not the training's."""

    def __init__(self, before: Any) -> None:
        self._before = before

    def __call__(self, args: Any) -> None:
        try:
            self._before(args)
        finally:
            store, thread = _current, args.thread
            if store is not None and thread is not None and args.exc_value is not None:
                if store.has_thread(thread.ident):
                    _abort(args.exc_value)


def leave_on_sigterm(store: "Store") -> None:
    """Lets SIGTERM ask for leave, where its handler is still the default one."""
    global _sigterm, _apart
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _on_sigterm)
        _sigterm, _apart = os.getpid(), not store.alone


def told_to_end() -> bool:
    """Whether SIGTERM has asked for leave."""
    return _told_to_end


def _restore_sigterm() -> None:
    global _sigterm
    if signal.getsignal(signal.SIGTERM) is _on_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _sigterm = 0


def _ignore_sigterm() -> None:
    """Ignores SIGTERM, where nobody else handles it, in a process that ends by an exception.

    launch sends it to all workers as soon as it hears of the failure, and its table says how each
    ended: this one by its exception, with exit code 1."""
    global _sigterm
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) in (signal.SIG_DFL, _on_sigterm):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        _sigterm = 0


def _on_sigterm(number: int, frame: Any) -> None:
    global _told_to_end
    mine = _sigterm == os.getpid()
    # A second one ends the process, as it would without us.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    store = _current
    if not mine or store is None or store.closed:
        os.kill(os.getpid(), signal.SIGTERM)
        return
    try:
        _told_to_end = True
        store.leave("SIGTERM")
    except Exception:
        os.kill(os.getpid(), signal.SIGTERM)
        return
    _process.say(
        f"worker {store.rank}: SIGTERM: leaving at the end of the step; a second SIGTERM ends "
        "this process at once"
    )


def _after_fork_in_child() -> None:
    if not _sigterm:
        return
    # The forking thread is the main thread of the child.
    _restore_sigterm()
    if _apart:
        os.setpgid(0, 0)


os.register_at_fork(after_in_child=_after_fork_in_child)
