"""Help for tests of the core: programs as processes of their own, the fake and the real bridge."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, Dict, Optional, Sequence

TESTS = Path(__file__).parent
FAKE = str(TESTS / "fakebridge.py")
REAL = os.environ.get("PARAGON_LAUNCH", "")
"""The real binary; empty: there is none to test with."""

SECONDS = 60.0
"""How long anything may take."""


def environment(fake: str = "", launch: str = FAKE) -> Dict[str, str]:
    """Returns the environment of a program that uses ``launch`` and this source tree."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("DMLC_", "PARAGON_"))}
    path = [str(TESTS.parent), str(TESTS), kept.get("PYTHONPATH", "")]
    # The fake bridge runs under the same Python.
    path_of = os.pathsep.join([os.path.dirname(sys.executable), kept.get("PATH", "")])
    return {
        **kept,
        "PATH": path_of,
        "PYTHONPATH": os.pathsep.join(p for p in path if p),
        "PYTHONUNBUFFERED": "1",
        "PARAGON_LAUNCH": launch,
        "FAKE_BRIDGE": fake,
    }


def start(
    folder: Path, code: str, fake: str = "", launch: str = FAKE, before: Sequence[str] = ()
) -> "subprocess.Popen[str]":
    """Starts a program; ``before`` are words before it, such as launch and its flags."""
    script = folder / "program.py"
    script.write_text(textwrap.dedent(code))
    return subprocess.Popen(
        [*before, sys.executable, str(script)],
        env=environment(fake, launch),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(
    folder: Path,
    code: str,
    fake: str = "",
    launch: str = FAKE,
    status: Optional[int] = 0,
    before: Sequence[str] = (),
) -> Any:
    """Runs a program to its end; .out and .err are what it wrote."""
    process: Any = start(folder, code, fake, launch, before)
    try:
        process.out, process.err = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"the program has not ended in {SECONDS} s: {out}\n{err}") from None
    if status is not None:
        assert process.returncode == status, (process.returncode, process.out, process.err)
    return process


def await_end(pid: int) -> None:
    """Returns when a process that is not a child of this one has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([descriptor], [], [], SECONDS)[0], f"process {pid} goes on"
    finally:
        os.close(descriptor)
