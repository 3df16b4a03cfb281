"""The life of the process: start, forks, signals, exceptions and ends, with real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from corehelp import FAKE, SECONDS, await_end, environment, run, start

from paragon import __version__

JOIN = """\
import os, signal, sys, threading, time
import paragon
from paragon import errors
store = paragon.init()
bridge = store._bridge
def reading():
    '''Returns when a thread waits at the socket.'''
    while bridge._reader is None:
        time.sleep(0.001)
"""


def test_a_program_ends_in_order(tmp_path: Path) -> None:
    p = run(tmp_path, JOIN + "assert paragon.init() is store is paragon.current(); print(store)")
    assert p.out == "<paragon.Store dist_sync: worker 0 of 1>\n"
    assert p.err == ""


def test_a_program_of_another_launcher_is_told_that_it_trains_alone(tmp_path: Path) -> None:
    several = "import os; os.environ['WORLD_SIZE'] = '3'\n"
    told = "paragon: WORLD_SIZE is 3, as torchrun sets it, but this process trains alone"
    p = run(tmp_path, several + JOIN)
    assert p.err.startswith(told) and "launch -n 3 -s 2" in p.err
    assert p.err.count("\n") == 1
    assert run(tmp_path, several.replace("3", "1") + JOIN).err == ""


def test_another_kind_of_store_is_refused_and_a_closed_one_replaced(tmp_path: Path) -> None:
    code = """
    try:
        paragon.init("dist_async")
    except errors.ConflictError as e:
        print(e)
    assert paragon.init("dist") is store
    store.close()
    again = paragon.init("dist_async")
    assert again is not store and again.type == "dist_async"
    """
    p = run(tmp_path, JOIN + "if True:" + code)
    assert "has a store 'dist_sync', and 'dist_async' was asked for" in p.out


# ---- start


def test_a_bridge_that_cannot_start_says_why(tmp_path: Path) -> None:
    p = run(tmp_path, JOIN, fake="fail=no such job", status=1)
    assert "BridgeError: paragon: the bridge did not start: process " in p.err
    assert "ended with exit status 3; its last lines:" in p.err
    assert "    bridge: cannot start: no such job" in p.err
    assert "command: " + FAKE + " role bridge --socket" in p.err


def test_a_bridge_that_ends_in_join_says_how(tmp_path: Path) -> None:
    p = run(tmp_path, JOIN, fake="die=7", status=1)
    assert "BridgeError" in p.err and "ended with exit status 7" in p.err


def test_another_protocol_names_both_and_the_cure(tmp_path: Path) -> None:
    p = run(tmp_path, JOIN, fake="protocol=9,release=2.5.0", status=1)
    ours = f"ProtocolError: paragon: this package (release {__version__}) speaks protocol 1"
    assert ours in p.err
    assert "(release 2.5.0) protocol 9; install both from one release" in p.err
    assert "pip install paragon-train==2.5.0" in p.err


def test_another_release_is_a_warning(tmp_path: Path) -> None:
    p = run(tmp_path, JOIN, fake="release=2.5.0")
    assert f"this package is release {__version__}, and the bridge {FAKE} release 2.5.0" in p.err


@pytest.mark.parametrize(
    "mode, want",
    [(None, "no program {0} (PARAGON_LAUNCH names it)"), (0o644, "{0} has no execute permission")],
)
def test_a_binary_that_cannot_be_run_is_named(tmp_path: Path, mode: Any, want: str) -> None:
    binary = tmp_path / "launch"
    if mode is not None:
        binary.write_text("")
        binary.chmod(mode)
    if mode is not None and os.geteuid() == 0:
        # Root may run what has an execute bit for anybody, and this has none.
        assert not os.access(binary, os.X_OK)
    p = run(tmp_path, JOIN, launch=str(binary), status=1)
    assert want.format(binary) in p.err


def test_a_file_that_is_no_program_is_named(tmp_path: Path) -> None:
    binary = tmp_path / "launch"
    binary.write_bytes(b"\x7fELF of another machine")
    binary.chmod(0o755)
    p = run(tmp_path, JOIN, launch=str(binary), status=1)
    assert f"the bridge did not start: {binary}: " in p.err


def test_the_command_becomes_the_program(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "paragon", "ctl", "--list"]
    p = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=SECONDS)
    assert (p.returncode, p.stdout) == (0, "fake launch: ctl --list\n")
    absent = environment(launch=str(tmp_path / "none"))
    p = subprocess.run(command, env=absent, capture_output=True, text=True, timeout=SECONDS)
    assert p.returncode == 1 and f"no program {tmp_path}/none" in p.stderr


# ---- the bridge ends


def test_a_killed_bridge_is_an_error_that_says_how(tmp_path: Path) -> None:
    code = """
def kill():
    reading()
    os.kill(bridge.pid, signal.SIGKILL)
threading.Thread(target=kill).start()
for call in (store.barrier, store.barrier, lambda: store.memory([1])):
    try:
        call()
    except errors.BridgeError as e:
        print(e.status, e.worker, e)
"""
    p = run(tmp_path, JOIN + code, fake="hold")
    lines = p.out.splitlines()
    assert len([s for s in lines if s.startswith("-9 0 paragon: the bridge (process ")]) == 3
    assert p.out.count("was killed by signal 9 (SIGKILL)") == 3
    # So does the end of the program, for one that makes no call any more.
    assert p.err.count("was killed by signal 9 (SIGKILL)") == 1


def test_a_bridge_that_does_not_end_is_killed(tmp_path: Path) -> None:
    code = """
import paragon._store
paragon._store.END_SECONDS = 0.5
print(bridge.pid)
"""
    p = run(tmp_path, JOIN + code, fake="stuck")
    assert "close: the bridge (process" in p.err and "has not ended within" in p.err
    await_end(int(p.out))


def test_a_bridge_that_is_silent_is_spoken_of(tmp_path: Path) -> None:
    code = """
import paragon._bridge
paragon._bridge._SILENT_SECONDS = 0.5
os.kill(bridge.pid, signal.SIGSTOP)
class Heard:
    def write(self, text):
        if "waits for" in text:
            os.kill(bridge.pid, signal.SIGCONT)
        print(text.strip())
    def flush(self): pass
sys.stderr = Heard()
store.barrier()
"""
    p = run(tmp_path, JOIN + code)
    assert "paragon: worker 0 waits for barrier since " in p.out


def test_a_bridge_that_does_not_read_is_spoken_of(tmp_path: Path) -> None:
    code = """
import paragon._bridge
paragon._bridge._SILENT_SECONDS = 0.5
region = store.memory([1, 1])
store.init([paragon.Declaration("k", region, 0, 1)])
plan = store.plan([paragon.Entry("k", region, 0, 1)])
bridge._tick(0.2)
os.kill(bridge.pid, signal.SIGSTOP)
class Heard:
    def write(self, text):
        if "has read nothing" in text:
            os.kill(bridge.pid, signal.SIGCONT)
        print(text.strip())
    def flush(self): pass
sys.stderr = Heard()
for i in range(500):
    n = plan.exchange(answer=True)
store.wait(n)
"""
    p = run(tmp_path, JOIN + code)
    assert "paragon: worker 0: the bridge (process" in p.out


def test_a_wait_is_said_where_the_bridges_own_line_is_not_seen(tmp_path: Path) -> None:
    code = """
import io
def hear(stream):
    sys.stderr = stream
    thread = threading.Thread(target=lambda: (reading(), store.state()))
    thread.start()
    store.barrier()
    thread.join()
hear(sys.stderr)
hear(io.StringIO())
print(sys.stderr.getvalue())
"""
    p = run(tmp_path, JOIN + code, fake="hold")
    assert p.err == "" and p.out == "paragon: barrier has waited 2 s: worker 1\n\n"


# ---- this process ends


def test_the_bridge_ends_with_a_killed_parent_though_children_hold_the_socket(
    tmp_path: Path,
) -> None:
    code = """
child = subprocess.Popen(["sleep", "60"], pass_fds=[bridge._socket.fileno()])
print(bridge.pid, child.pid, flush=True)
store.barrier()
"""
    p = start(tmp_path, "import subprocess\n" + JOIN + code, fake="hold")
    assert p.stdout is not None
    bridge, child = map(int, p.stdout.readline().split())
    try:
        p.kill()
        p.wait(SECONDS)
        await_end(bridge)
    finally:
        os.kill(child, signal.SIGKILL)
    p.communicate()


def test_an_exception_fails_the_job_with_its_text(tmp_path: Path) -> None:
    code = """
def loss():
    raise ZeroDivisionError("loss of batch 3")
loss()
"""
    p = run(tmp_path, JOIN + code, status=1)
    assert "Traceback" in p.err and p.err.index("Traceback") < p.err.index("abort:")
    assert f"abort: ZeroDivisionError: loss of batch 3: {tmp_path}/program.py:12" in p.err


def test_an_exception_fails_the_job_though_the_hook_was_replaced(tmp_path: Path) -> None:
    # So does one that a signal handler raises in the hook.
    code = """
sys.excepthook = lambda *_: None
raise ZeroDivisionError("loss of batch 3")
"""
    p = run(tmp_path, "import sys\n" + JOIN + code, status=1)
    assert "abort: ZeroDivisionError: loss of batch 3: " in p.err


def test_an_exception_of_a_thread_fails_the_job_if_the_thread_uses_the_store(
    tmp_path: Path,
) -> None:
    code = """
def work(use):
    if use:
        store.barrier()
    raise ValueError("used" if use else "stranger")
for use in (False, True):
    t = threading.Thread(target=work, args=(use,))
    t.start()
    t.join()
    print(store.closed)
"""
    p = run(tmp_path, JOIN + code)
    assert p.out.split() == ["False", "True"]
    assert "abort: ValueError: used" in p.err and "abort: ValueError: stranger" not in p.err


def test_a_worker_that_was_removed_fails_nothing(tmp_path: Path) -> None:
    p = run(tmp_path, JOIN + "raise errors.RemovedError('asked to leave')", status=1)
    assert "RemovedError: asked to leave" in p.err and "abort:" not in p.err


def test_hooks_that_were_there_before_are_called(tmp_path: Path) -> None:
    code = "import sys\nsys.excepthook = lambda *a: print('before', a[1])\n" + JOIN
    p = run(tmp_path, code + "raise ValueError('x')", status=1)
    assert p.out == "before x\n" and "abort: ValueError: x" in p.err


def test_sys_exit_ends_in_order(tmp_path: Path) -> None:
    p = run(tmp_path, JOIN + "sys.exit(5)", status=5)
    assert p.err == ""


# ---- Ctrl-C and SIGTERM


def test_ctrl_c_comes_out_of_the_wait_and_the_store_goes_on(tmp_path: Path) -> None:
    code = """
def interrupt():
    reading()
    os.kill(os.getpid(), signal.SIGINT)
for _ in range(3):
    threading.Thread(target=interrupt).start()
    try:
        store.barrier()
    except KeyboardInterrupt:
        print("interrupted")
    # The answer of that barrier comes with this one, and is dropped.
    store.state()
assert bridge._waited == {}
"""
    p = run(tmp_path, JOIN + code, fake="hold")
    assert p.out.split() == ["interrupted"] * 3


def test_an_exchange_can_be_waited_for_after_ctrl_c(tmp_path: Path) -> None:
    code = """
region = store.memory([1, 1])
store.init([paragon.Declaration("k", region, 0, 1)])
plan = store.plan([paragon.Entry("k", region, 0, 1)])
os.kill(bridge.pid, signal.SIGSTOP)
region.slot(0)[:] = 4
n = plan.exchange(answer=True)
def interrupt():
    reading()
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    store.wait(n)
except KeyboardInterrupt:
    print("interrupted", store.done(n))
os.kill(bridge.pid, signal.SIGCONT)
store.wait(n)
print(region.slot(1)[0])
"""
    p = run(tmp_path, JOIN + code)
    assert p.out == "interrupted False\n4.0\n"


def test_exceptions_of_signal_handlers_lose_nothing(tmp_path: Path) -> None:
    code = """
import random
class Alarm(Exception):
    pass
def alarm(number, frame):
    raise Alarm
region = store.memory([8, 8])
store.init([paragon.Declaration("k", region, 0, 8)])
plan = store.plan([paragon.Entry("k", region, 0, 1)])
signal.signal(signal.SIGALRM, alarm)
seed = int.from_bytes(os.urandom(4), "little")
print("seed", seed)
random.seed(seed)
for i in range(1, 1500):
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(20e-6, 400e-6))
        region.slot(0)[:] = i
        store.wait(plan.exchange(answer=random.random() < 0.5))
        store.state()
        while True:
            time.sleep(1e-4)
    except Alarm:
        pass
    # What the alarm came into is still under way, and what follows is right.
    store.wait(store._exchanges.last)
    region.slot(0)[:] = -i
    store.wait(plan.exchange(answer=True))
    assert region.slot(1)[7] == -i
    store.state()
print("descriptors", len(os.listdir("/proc/self/fd")) < 20)
"""
    p = run(tmp_path, JOIN + code)
    assert p.out.endswith("descriptors True\n")


INTERRUPTED = """
import gc
def interrupted(call, n):
    # Calls, and raises KeyboardInterrupt before the line n of this package; False: it has fewer.
    left = n
    def trace(frame, event, arg):
        nonlocal left
        if not frame.f_code.co_filename.startswith(os.path.dirname(paragon.__file__)):
            return None
        if event == "line":
            left -= 1
            if left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace
    try:
        sys.settrace(trace)
        call()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    return left <= 0
gc.disable()
sys.unraisablehook = lambda *_: None
entry = lambda region: paragon.Entry("k", region, 0, 1)
kept = store.memory([8, 8])
store.init([paragon.Declaration("k", kept, 0, 8)])
def plan():
    store.plan([entry(kept)])
def dropped():
    store.plan([entry(kept)]).drop()
def region():
    store.memory([8])
def freed():
    store.memory([8, 8]).free()
def used():
    r = store.memory([8, 8])
    p = store.plan([entry(r)])
    store.wait(p.exchange(answer=True))
def counts():
    store.state()
    return store.request("counts")["counts"], len(os.listdir("/proc/self/fd"))
for call in (region, freed, plan, dropped, used):
    before = counts()
    for n in range(1, 10000):
        went = interrupted(call, n)
        store.wait(store._exchanges.last)
        if counts() != before:
            print(call.__name__, "line", n, before, counts())
        if not went:
            break
    print(call.__name__, n > 20)
"""


def test_ctrl_c_at_any_line_leaks_neither_memory_nor_descriptors(tmp_path: Path) -> None:
    p = run(tmp_path, JOIN + INTERRUPTED)
    calls = ("region", "freed", "plan", "dropped", "used")
    assert p.out.splitlines() == [f"{call} True" for call in calls]


def test_a_request_that_ctrl_c_left_does_not_share_its_memory(tmp_path: Path) -> None:
    code = """
import numpy as np
from paragon import kv
made = kv.KVStore(store)
rows = kv.row_sparse_array((np.ones((2, 2), np.float32), [0, 1]), (4, 2))
made.init("t", rows)
made.push("t", rows)
def interrupted(call):
    os.kill(bridge.pid, signal.SIGSTOP)
    def interrupt():
        reading()
        os.kill(os.getpid(), signal.SIGINT)
    t = threading.Thread(target=interrupt)
    t.start()
    try:
        call()
    except KeyboardInterrupt:
        print("interrupted")
    t.join()
two = kv.row_sparse_array((np.full((2, 2), 2, np.float32), [0, 1]), (4, 2))
interrupted(lambda: made.push("t", two))
# What the request that was left reads is not what another one writes.
assert made._rows is None
os.kill(bridge.pid, signal.SIGCONT)
print(made.row_sparse_pull("t", row_ids=[0]).data.tolist())
interrupted(lambda: store.broadcast("a text"))
assert store._scratch is None
os.kill(bridge.pid, signal.SIGCONT)
print(store.broadcast("another"))
"""
    p = run(tmp_path, JOIN + code)
    assert p.out.splitlines() == ["interrupted", "[[2.0, 2.0]]", "interrupted", "another"]


def test_ctrl_c_twice_ends(tmp_path: Path) -> None:
    code = """
def interrupt():
    reading()
    os.kill(os.getpid(), signal.SIGINT)
    while "abort" not in str(bridge.ending):
        time.sleep(0.001)
    reading()
    os.kill(os.getpid(), signal.SIGINT)
bridge.ending = None
close = bridge.close
def closing(why, op, *a):
    os.kill(bridge.pid, signal.SIGSTOP)
    bridge.ending = op
    close(why, op, *a)
bridge.close = closing
threading.Thread(target=interrupt, daemon=True).start()
print(bridge.pid, flush=True)
store.barrier()
"""
    p = run(tmp_path, JOIN + code, fake="hold", status=None)
    assert p.returncode in (1, -signal.SIGINT, 130)
    assert "interrupted again: ended without waiting for the bridge" in p.err
    assert "KeyboardInterrupt" in p.err
    await_end(int(p.out))


ELASTIC = """\
from paragon import elastic, kv
made = kv.create("dist_sync")
"""


def test_sigterm_asks_to_leave_at_the_end_of_a_step(tmp_path: Path) -> None:
    code = """
batches = elastic.batches(made, 100, 10, epochs=100)
for i, batch in enumerate(batches):
    if i == 3:
        os.kill(os.getpid(), signal.SIGTERM)
print(i, batches.removed)
assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
"""
    p = run(tmp_path, JOIN + ELASTIC + code)
    assert p.out == "3 True\n"
    assert "worker 0: SIGTERM: leaving at the end of the step" in p.err


def test_a_second_sigterm_ends(tmp_path: Path) -> None:
    code = """
for batch in elastic.batches(made, 100, 10):
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)
print("not reached")
"""
    p = run(tmp_path, JOIN + ELASTIC + code, status=-signal.SIGTERM)
    assert p.out == ""


def test_sigterm_without_a_sampler_ends_as_ever(tmp_path: Path) -> None:
    p = run(tmp_path, JOIN + "os.kill(os.getpid(), signal.SIGTERM)", status=-signal.SIGTERM)
    assert p.err == ""


def test_the_programs_own_sigterm_handler_stays(tmp_path: Path) -> None:
    code = """
signal.signal(signal.SIGTERM, lambda *_: print("mine"))
for i, batch in enumerate(elastic.batches(made, 20, 10)):
    os.kill(os.getpid(), signal.SIGTERM)
"""
    assert run(tmp_path, JOIN + ELASTIC + code).out == "mine\nmine\n"


def test_a_forked_child_has_the_default_sigterm(tmp_path: Path) -> None:
    code = """
for batch in elastic.batches(made, 10, 10):
    child = os.fork()
    if child == 0:
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    p = run(tmp_path, JOIN + ELASTIC + code)
    assert p.out == "-15\n" and p.err == ""


# ---- children


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_of_multiprocessing_are_refused(tmp_path: Path, method: str) -> None:
    code = """
import multiprocessing, os
import paragon
from paragon import errors
def child(queue):
    try:
        paragon.init()
        queue.put("joined")
    except errors.ForkError as e:
        queue.put(str(e))
if __name__ == "__main__":
    context = multiprocessing.get_context(METHOD)
    store = paragon.init()
    queue = context.Queue()
    p = context.Process(target=child, args=(queue,))
    p.start()
    print(os.getpid(), queue.get())
    p.join()
    assert p.exitcode == 0
    store.barrier()
    try:
        context.Process(target=print, args=(store,)).start()
    except errors.ForkError as e:
        print(e)
""".replace("METHOD", repr(method))
    p = run(tmp_path, code)
    pid, text = p.out.split(" ", 1)
    assert f"process {pid}" in text and "joined" not in text
    if method != "fork":
        assert "which started this one" in text
        assert "a store cannot be pickled" in text


def test_a_script_without_a_guard_is_told_of_it(tmp_path: Path) -> None:
    code = """
import multiprocessing
import paragon
store = paragon.init()
p = multiprocessing.get_context("spawn").Process(target=print)
p.start()
p.join()
"""
    p = run(tmp_path, code)
    assert "ForkError: paragon: init() was called while a multiprocessing child" in p.err
    assert 'if __name__ == "__main__":' in p.err


def test_a_program_started_by_a_worker_is_refused_unless_it_is_told(tmp_path: Path) -> None:
    code = """
import subprocess
inner = "import paragon; print(paragon.init().rank)"
p = subprocess.run([sys.executable, "-c", inner], capture_output=True, text=True)
print("refused" if f"process {os.getpid()}, which started this one" in p.stderr else p)
e = {k: v for k, v in os.environ.items() if k != "PARAGON_MEMBER_PROCESS"}
print(subprocess.run([sys.executable, "-c", inner], env=e, capture_output=True, text=True).stdout)
# A child with another job in its environment is a worker of that one.
e = {**os.environ, "DMLC_PS_ROOT_PORT": "1"}
print(subprocess.run([sys.executable, "-c", inner], env=e, capture_output=True, text=True).stdout)
store.close()
assert "PARAGON_MEMBER_PROCESS" not in os.environ
"""
    assert run(tmp_path, JOIN + code).out.split() == ["refused", "0", "0"]


def test_a_python_without_pidfd_and_memfd_is_enough(tmp_path: Path) -> None:
    code = "import os\ndel os.pidfd_open, os.memfd_create\n" + JOIN
    run(tmp_path, code)
    p = run(tmp_path, code, fake="fail=no such job", status=1)
    assert "    bridge: cannot start: no such job" in p.err


def test_a_sub_interpreter_is_refused(tmp_path: Path) -> None:
    code = """
import sys
if sys.version_info >= (3, 13):
    import _interpreters as interpreters
else:
    import _xxsubinterpreters as interpreters
text = '''
try:
    import paragon
    print("imported", flush=True)
except ImportError as e:
    print(e, flush=True)
'''
interpreters.run_string(interpreters.create(), text)
"""
    p = run(tmp_path, code)
    assert p.out.startswith("paragon: imported in a sub-interpreter"), p.err


def test_in_a_notebook_an_exception_ends_nothing(tmp_path: Path) -> None:
    code = "sys.excepthook(ValueError, ValueError('x'), None)\nstore.barrier()"
    p = run(tmp_path, "import sys\nsys.ps1 = '>>> '\n" + JOIN + code)
    assert "ValueError: x" in p.err and "abort" not in p.err
