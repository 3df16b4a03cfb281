"""The bridge: the process that is the member of the job, and the socket to it.

Requests are numbered. Any thread may make one. Of the threads that wait for answers one reads the
socket, without holding the lock, and hands each answer to whom it belongs; when it has its own
answer another one goes on reading. So a wait of one thread never holds up another's request.

A packet is looked at first and taken from the socket when it was dealt with. An exception that a
signal raises in between, such as KeyboardInterrupt, therefore loses none; a packet dealt with
twice does no harm.
"""

from __future__ import annotations

import array
import errno
import functools
import io
import json
import operator
import os
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import weakref
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Mapping, Optional, Tuple

from . import _binary, _process
from ._errors import exception
from ._version import PROTOCOL, __version__
from .errors import BridgeError, ClosedError, ForkError, ParagonError, ProtocolError, UsageError

MAX_PACKET = 65536
"""The most bytes of a packet of the protocol."""

START_SECONDS = 30.0
"""How long a bridge may take to say hello."""

# How often a wait looks up, and after how long a silent bridge is spoken of first.
_TICK_SECONDS = 1.0
_SILENT_SECONDS = 10.0

# As plain integers: enum's operators take longer than a system call.
_PEEK, _NOW, _NO_SIGNAL = int(socket.MSG_PEEK), int(socket.MSG_DONTWAIT), int(socket.MSG_NOSIGNAL)

_ANSWER = struct.Struct("<sB6xQ")

# What undoes a request whose result nobody takes, since an exception came out of the wait for it:
# another operation, and the field of the result that it is about.
_UNDO = {"memory": ("free", "region"), "plan": ("drop_plan", "plan")}


class _Watched(weakref.ref):
    """A reference to an object here that stands for one in the bridge."""

    __slots__ = ("name", "fields")
    name: Tuple[str, int]
    fields: Dict[str, Any]


# Descriptors that came with a packet. Such an object closes its own when nobody has it any more.
Descriptors = List[io.FileIO]

# The numbers of descriptors, from the data of a packet's control messages.
_DATA, _INTS = operator.itemgetter(2), functools.partial(array.array, "i")

Result = Tuple[Dict[str, Any], Descriptors]


class Bridge:
    """One bridge process and the requests to it.

    ``moved`` is called with the note and its descriptors when a slot has new memory,
    ``exchanged`` with number, state and error (or None) when exchanges have ended, and ``failed``
    with number and error of an exchange that has no answer; all under ``lock``, by the thread that
    reads."""

    def __init__(self, environment: Optional[Mapping[str, str]] = None) -> None:
        self.lock = threading.RLock()
        self.moved: Callable[[Dict[str, Any], Descriptors], None] = lambda *_: None
        self.exchanged: Callable[[int, int, Optional[Dict[str, Any]]], None] = lambda *_: None
        self.failed: Callable[[int, Dict[str, Any]], None] = lambda number, error: None
        # rank is this worker's, for errors; None before the join.
        self.rank: Optional[int] = None
        self.process_id = os.getpid()
        self._changed = threading.Condition(self.lock)
        # _reader is the thread that reads the socket, and _followers the number of those that
        # wait for it.
        self._reader: Optional[int] = None
        self._followers = 0
        self._number = 0
        self._waited: Dict[int, Optional[Result]] = {}
        # _left has the operations of requests whose results are to be undone when they come, and
        # _postponed the packets of undoing that the socket had no room for.
        self._left: Dict[int, str] = {}
        self._postponed: Deque[bytes] = deque()
        # _watched has references to the objects that stand for something in the bridge, by what
        # gives it back and its number. The collector puts those whose objects are gone into _gone.
        self._watched: Dict[Tuple[str, int], _Watched] = {}
        self._gone: Deque[_Watched] = deque()
        self._buffer = bytearray(MAX_PACKET)
        self._hello: Optional[Dict[str, Any]] = None
        # _broken is why no request is possible any more: a class of error and its text.
        self._broken: Optional[Callable[[], ParagonError]] = None
        self._start(environment)
        _bridges.add(self)

    # ---- start

    def _start(self, environment: Optional[Mapping[str, str]]) -> None:
        binary = _binary.find()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket = ours
        self._child: Any = None
        self._log = _file_in_memory()
        opened: List[int] = []
        try:
            opened.append(_pidfd())
            opened.append(_standard_error())
            parent, errors = opened
            self.command = [binary, "role", "bridge", "--socket", str(theirs.fileno())]
            self.command += ["--parent", str(parent), "--stderr", str(errors)]
            try:
                self._child = subprocess.Popen(
                    self.command,
                    stdin=subprocess.DEVNULL,
                    stdout=self._log,
                    stderr=self._log,
                    start_new_session=True,
                    pass_fds=[n for n in (theirs.fileno(), *opened) if n >= 0],
                    env=None if environment is None else dict(environment),
                )
            except OSError as e:
                raise BridgeError(f"paragon: the bridge did not start: {binary}: {e}") from e
            self.pid = self._child.pid
            theirs.close()
            self._greet()
        except BaseException:
            self.kill()
            raise
        finally:
            theirs.close()
            for descriptor in opened:
                if descriptor >= 0:
                    os.close(descriptor)

    def _greet(self) -> None:
        """Waits for the bridge's hello, and refuses one of another protocol."""
        self._tick(_TICK_SECONDS)
        try:
            self.wait_until(lambda: self._hello is not None, "hello", START_SECONDS)
        except TimeoutError:
            raise BridgeError(
                f"paragon: the bridge did not start: process {self.pid} has said nothing for "
                f"{START_SECONDS:.0f} s{self._last_lines()}; command: {' '.join(self.command)}"
            ) from None
        hello = self._hello or {}
        theirs, release = hello.get("protocol"), hello.get("release", "unknown")
        if theirs != PROTOCOL:
            raise ProtocolError(
                f"paragon: this package (release {__version__}) speaks protocol {PROTOCOL}, and "
                f"the bridge {self.command[0]} (release {release}) protocol {theirs}; install "
                f"both from one release: pip install paragon-train=={release}, or unset "
                f"{_binary.VARIABLE}"
            )
        if str(release).split("+")[0] != __version__:
            _process.say(
                f"this package is release {__version__}, and the bridge {self.command[0]} release "
                f"{release}; they understand each other"
            )

    def _tick(self, seconds: float) -> None:
        """Sets after how long a wait at the socket looks up."""
        value = struct.pack("@ll", int(seconds), int(seconds % 1 * 1e6))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, value)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, value)

    # ---- requests

    def request(self, op: str, fields: Mapping[str, Any]) -> Dict[str, Any]:
        """Makes a request and returns its result; an error is raised by its class."""
        return self.request_with_descriptors(op, fields)[0]

    def request_with_descriptors(
        self, op: str, fields: Mapping[str, Any], seconds: Optional[float] = None
    ) -> Result:
        """Is request, and returns the descriptors that came with the answer, too.

        After ``seconds`` the wait ends with TimeoutError, and the request is still under way. The
        same holds for an exception of a signal handler. An answer that comes later is dropped, and
        what it has made in the bridge is undone."""
        self.check_process()
        self._send_postponed()
        with self.lock:
            self._number += 1
            number = self._number
            packet = _json_packet(number, op, fields)
        started, answer = time.monotonic(), None
        try:
            self._waited[number] = None
            self.send(packet)
            self.wait_until(lambda: self._waited[number] is not None, op, seconds)
            answer = self._waited.pop(number)
            assert answer is not None
            message, descriptors = answer
            if "error" in message:
                raise exception(message["error"], self.rank, time.monotonic() - started)
            return message.get("result") or {}, descriptors
        except BaseException:
            self._give_up(number, op, answer)
            raise

    def _give_up(self, number: int, op: str, answer: Optional[Result]) -> None:
        """Ends a request without its result, which is undone if it is there, or when it comes."""
        with self.lock:
            answer = self._waited.pop(number, None) or answer
            if answer is not None:
                self._undo(op, answer[0])
            elif op in _UNDO:
                self._left[number] = op

    def _undo(self, op: str, message: Mapping[str, Any]) -> None:
        """Undoes what an operation has made, by its answer. Twice does no harm."""
        if op in _UNDO and message.get("result"):
            undo, field = _UNDO[op]
            self.later(undo, {field: message["result"][field]})

    def later(self, op: str, fields: Mapping[str, Any]) -> None:
        """Says that this process has no use for something: the bridge gives it up as soon as
        nothing under way needs it. It waits for nothing, and raises nothing."""
        with self.lock:
            self._postponed.append(_json_packet(0, op, {**fields, "later": True}))
        self._send_postponed()

    def watch(self, made: object, op: str, field: str, number: int) -> None:
        """Calls :meth:`later` with a next request after ``made`` is gone, unless unwatch came."""
        reference = _Watched(made, self._gone.append)
        reference.name, reference.fields = (op, number), {field: number}
        self._watched[op, number] = reference

    def unwatch(self, op: str, number: int) -> None:
        """Says that the bridge has back what an object stands for."""
        self._watched.pop((op, number), None)

    def _send_postponed(self) -> None:
        """Sends what :meth:`later` has said, as far as the socket has room."""
        if not self._gone and not self._postponed:
            return
        with self.lock:
            while self._gone:
                (op, number), fields = self._gone[0].name, self._gone[0].fields
                if (op, number) in self._watched:
                    self._postponed.append(_json_packet(0, op, {**fields, "later": True}))
                    self._watched.pop((op, number), None)
                self._gone.popleft()
            while self._postponed and self._broken is None:
                try:
                    self.send(self._postponed[0], _NOW)
                    self._postponed.popleft()
                except (BlockingIOError, ParagonError):
                    return

    def post(self, op: str, fields: Mapping[str, Any]) -> None:
        """Makes a request that has no answer. A signal handler may call it."""
        self.check_process()
        self.send(_json_packet(0, op, fields), _NOW)

    def send(self, packet: Any, flags: int = 0) -> None:
        """Sends one packet. It waits where the bridge does not read."""
        self.send_numbered(packet, 0, deque(maxlen=1), flags)

    def send_numbered(
        self, packet: Any, number: int, sent: "Deque[Tuple[int, int]]", flags: int = 0
    ) -> None:
        """Is send, and puts (bytes, number) into ``sent`` if and only if the packet was sent.

        An exception of a signal handler comes between two lines, never into this one call."""
        started, speak = None, _SILENT_SECONDS
        while self._broken is None:
            try:
                bytes_sent = map(self._socket.send, (packet,), (flags | _NO_SIGNAL,))
                sent.extend(zip(bytes_sent, (number,)))
                return
            except BlockingIOError:
                if flags & _NOW:
                    raise
                # The wait has taken a tick.
                now = time.monotonic()
                started = started or now
                if now - started > speak:
                    _process.say(
                        f"{self._name()}: the bridge (process {self.pid}) has read nothing for "
                        f"{now - started:.0f} s"
                    )
                    speak *= 2
            except (BrokenPipeError, ConnectionResetError):
                self._ended()
        raise self._broken()

    def check_process(self) -> None:
        """Raises ForkError in a child of the process that made this bridge."""
        if os.getpid() != self.process_id:
            raise ForkError(
                f"paragon: this store belongs to process {self.process_id}, and this is process "
                f"{os.getpid()}, a child of it; use the store in process {self.process_id} alone, "
                "and hand its children (such as a data loader's workers) numbers and arrays"
            )

    # ---- waiting

    def wait_until(
        self, ready: Callable[[], bool], what: str, seconds: Optional[float] = None
    ) -> None:
        """Returns when ``ready()``, which is called under the lock, is true.

        Raises the error of a bridge that has ended, and TimeoutError after ``seconds``."""
        started = silent = time.monotonic()
        speak = _SILENT_SECONDS
        while True:
            if self._lead(ready, started, seconds):
                return
            try:
                heard = self._receive(0)
            finally:
                self._reader = None
                if self._followers:
                    with self.lock:
                        self._changed.notify_all()
            now = time.monotonic()
            if heard:
                silent = now
            elif now - silent > speak:
                _process.say(
                    f"{self._name()} waits for {what} since {now - started:.0f} s, and the bridge "
                    f"(process {self.pid}) has said nothing for {now - silent:.0f} s"
                )
                speak *= 2

    def _lead(self, ready: Callable[[], bool], started: float, seconds: Optional[float]) -> bool:
        """Returns True when ready, and False when this thread is the one to read now."""
        me = threading.get_ident()
        with self._changed:
            while not ready():
                if self._broken is not None:
                    raise self._broken()
                if seconds is not None and time.monotonic() - started > seconds:
                    raise TimeoutError(f"no answer in {seconds} s")
                # A thread that finds itself has left its reading by an exception.
                if self._reader is None or self._reader == me:
                    self._reader = me
                    return False
                self._followers += 1
                try:
                    self._changed.wait(_TICK_SECONDS)
                finally:
                    self._followers -= 1
            return True

    def drain(self) -> None:
        """Deals with the packets that are there, without waiting for others."""
        with self._changed:
            if self._reader is not None or self._broken is not None:
                return
            while self._receive(_NOW):
                pass

    def _receive(self, flags: int) -> bool:
        """Deals with the next packet; False if none came in a while."""
        try:
            size = self._socket.recv_into(self._buffer, 0, _PEEK | flags)
        except BlockingIOError:
            return False
        except OSError as e:
            if e.errno not in (errno.ECONNRESET, errno.EBADF):
                raise
            size = 0
        with self.lock:
            if size == 0:
                self._ended()
                return True
            self._take(size)
            if self._followers:
                self._changed.notify_all()
        return True

    def _take(self, size: int) -> None:
        """Deals with the packet of ``size`` bytes in the buffer, then takes it off the socket."""
        kind = self._buffer[0]
        try:
            if kind == ord("x"):
                _, state, number = _ANSWER.unpack_from(self._buffer)
                error = json.loads(self._buffer[16:size]) if size > 16 else None
                self.exchanged(number, state, error)
            elif kind in b"JN":
                message = json.loads(self._buffer[1:size])
                self._take_json(kind, message, self._receive_descriptors())
            else:
                raise ValueError(f"a packet of the unknown kind {bytes([kind])!r}")
        except (ValueError, KeyError, TypeError, struct.error) as e:
            text = f"paragon: the bridge (process {self.pid}) sent what cannot be read: {e!r}"
            self._broken = lambda: ProtocolError(text, worker=self.rank)
        self._socket.recv(1, _NOW)

    def _receive_descriptors(self) -> Descriptors:
        """Returns the descriptors of the packet that comes next, which stays in the socket."""
        found: Descriptors = []
        space, flags = socket.CMSG_SPACE(4 * 4), _PEEK | _NOW | int(socket.MSG_CMSG_CLOEXEC)
        # An exception of a signal handler comes between two lines, when each has an owner.
        receive = self._socket.recvmsg
        found += map(io.FileIO, _INTS(b"".join(map(_DATA, receive(0, space, flags)[1]))))
        return found

    def _take_json(self, kind: int, message: Dict[str, Any], descriptors: Descriptors) -> None:
        if kind == ord("J"):
            number = message["id"]
            if number in self._waited:
                self._waited[number] = (message, descriptors)
            elif number in self._left:
                self._undo(self._left[number], message)
                self._left.pop(number, None)
        elif message["note"] == "moved" and descriptors:
            self.moved(message, descriptors)
        elif message["note"] == "hello":
            self._hello = message
        elif message["note"] == "failed":
            self._take_failure(message)
        elif message["note"] == "waiting":
            _process.say_again(_waiting(message))

    def _take_failure(self, message: Dict[str, Any]) -> None:
        """Takes the note of a failure that is no request's: an exchange's, or the session's."""
        error, number = message["error"], message.get("number", 0)
        if number:
            self.failed(number, error)
        elif self._broken is None:
            rank = self.rank
            self._broken = lambda: exception(error, rank)

    # ---- the end

    def _ended(self) -> None:
        """Records that the bridge has ended, with how it did."""
        if self._broken is not None:
            return
        try:
            status: Optional[int] = self._child.wait(2.0)
        except subprocess.TimeoutExpired:
            status = None
        text = f"paragon: the bridge (process {self.pid}) {_ending(status)}{self._last_lines()}"
        if self._hello is None:
            text = f"paragon: the bridge did not start: process {self.pid} {_ending(status)}"
            text += f"{self._last_lines()}; command: {' '.join(self.command)}"
        elif status is None or status != 0:
            text += "; the job takes this worker for lost, so start the program again"
        rank = self.rank
        self._broken = lambda: BridgeError(text, status=status, worker=rank)

    def _last_lines(self) -> str:
        try:
            size = os.fstat(self._log).st_size
            start = max(0, size - 4096)
            lines = os.pread(self._log, size - start, start).decode(errors="replace")
        except OSError:
            return ""
        last = [line for line in lines.splitlines() if line.strip()][-10:]
        if not last:
            return "; it wrote nothing to its standard error"
        return "; its last lines:\n    " + "\n    ".join(last) + "\n   "

    def close(self, why: str, op: str, fields: Mapping[str, Any], seconds: float) -> None:
        """Asks the bridge by ``op`` to end, and waits for that, together for ``seconds``.

        A bridge that has not ended by then is killed. The socket is closed in any case."""
        deadline = time.monotonic() + seconds
        try:
            if self._broken is None:
                self._tick(_TICK_SECONDS / 20)
            self.request_with_descriptors(op, fields, seconds)
            self._child.wait(max(0.1, deadline - time.monotonic()))
        except (TimeoutError, subprocess.TimeoutExpired):
            _process.say(
                f"{self._name()}: {op}: the bridge (process {self.pid}) has not ended within "
                f"{seconds:.0f} s, and is killed"
            )
        finally:
            rank = self.rank
            if self._broken is None:
                self._broken = lambda: ClosedError(f"paragon: {why}", worker=rank)
            self.kill()

    def kill(self) -> None:
        """Ends the bridge at once if it still runs, and gives back what belongs to it here."""
        _bridges.discard(self)
        self._socket.close()
        if self._child is not None and self._child.poll() is None:
            self._child.kill()
            self._child.wait()
        if self._log >= 0:
            os.close(self._log)
            self._log = -1
        if self._broken is None:
            self._broken = lambda: ClosedError("paragon: the store did not start")

    def forget(self) -> None:
        """Lets go of the bridge in a forked child, whose parent goes on using it."""
        self._socket.close()
        self._child.returncode = 0

    def _name(self) -> str:
        return "this process" if self.rank is None else f"worker {self.rank}"


_bridges: "weakref.WeakSet[Bridge]" = weakref.WeakSet()


def _forget_in_child() -> None:
    for bridge in list(_bridges):
        bridge.forget()


os.register_at_fork(after_in_child=_forget_in_child)


def _json_packet(number: int, op: str, fields: Mapping[str, Any]) -> bytes:
    """Returns the packet of a request."""
    message = {"id": number, "op": op, **fields}
    try:
        packet = b"J" + json.dumps(message, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError) as e:
        raise UsageError(f"paragon: {op}: an argument cannot be sent: {e}") from e
    if len(packet) > MAX_PACKET:
        raise UsageError(
            f"paragon: {op}: the request has {len(packet)} bytes, want at most {MAX_PACKET}"
        )
    return packet


def _pidfd() -> int:
    """Returns a descriptor by which the bridge sees this process end.

    It is -1 where the system has none, or Python was built without: the bridge then looks ten
    times a second whether its parent is another one."""
    try:
        return os.pidfd_open(os.getpid())
    except (AttributeError, OSError):
        return -1


def _file_in_memory() -> int:
    """Returns the descriptor of a file without a name, for the bridge's first lines."""
    try:
        return os.memfd_create("paragon-bridge-stderr", os.MFD_CLOEXEC)
    except (AttributeError, OSError):
        # Pythons that are built for old systems lack it.
        with tempfile.TemporaryFile() as f:
            return os.dup(f.fileno())


def _standard_error() -> int:
    """Returns a copy of standard error, or of /dev/null where there is none."""
    try:
        return os.dup(2)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)


def _waiting(note: Mapping[str, Any]) -> str:
    """Returns the line about a wait: for which key, and for whom."""
    text = f"{note.get('call', 'a call')} has waited {note.get('seconds', 0)} s"
    if note.get("key"):
        text += f" for key {note['key']} (round {note.get('round', 0)})"
    return f"{text}: {note.get('waiting_for') or 'no answer yet'}"


def _ending(status: Optional[int]) -> str:
    if status is None:
        return "closed its socket and has not ended"
    if status < 0:
        try:
            return f"was killed by signal {-status} ({signal.Signals(-status).name})"
        except ValueError:
            return f"was killed by signal {-status}"
    return f"ended with exit status {status}"
