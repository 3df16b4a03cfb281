"""Help for tests of examples/python: they run as users run them, under launch."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLES = REPOSITORY / "examples" / "python"
SECONDS = 120


def launch():
    """The path of the program launch; the test is skipped where there is none."""
    path = os.environ.get("PARAGON_LAUNCH")
    if not path:
        pytest.skip("PARAGON_LAUNCH names no launch: make pytests builds one")
    return path


def run(*command, folder):
    """Runs a command of this Python's environment, and returns what it printed."""
    kept = {k: v for k, v in os.environ.items() if not re.match("DMLC|PARAGON", k)}
    first = [os.path.dirname(sys.executable), kept.get("PATH", "")]
    paths = [str(REPOSITORY / "python"), kept.get("PYTHONPATH", "")]
    env = {
        **kept,
        "PARAGON_LAUNCH": launch(),
        "PATH": os.pathsep.join(first),
        "PYTHONPATH": os.pathsep.join(p for p in paths if p),
    }
    done = subprocess.run(
        [str(c) for c in command],
        cwd=folder,
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=SECONDS,
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}"
    return done.stdout
