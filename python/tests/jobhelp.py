"""Help for tests of whole jobs: launch with workers, of which a test waits for a line and then acts."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Callable, Dict, List, Optional

from corehelp import REAL, SECONDS, environment


class Job:
    """A job of launch, which is stopped if a test takes too long.

    Attributes:
        out: what workers have printed, a line each with launch's prefix.
        err: what launch and the workers have said on standard error.
        code: the exit code of launch; None while it runs.
    """

    def __init__(self, folder: Path, code: str, *flags: str) -> None:
        self.folder = folder
        script = folder / "program.py"
        script.write_text(textwrap.dedent(code))
        self.environment: Dict[str, str] = environment(launch=REAL)
        self.out: List[str] = []
        self.err, self.code = "", None  # type: ignore[assignment]
        self._log = folder / "launch.log"
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [REAL, *flags, "--", sys.executable, str(script)],
                cwd=folder,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def run(self, act: Optional[Callable[["Job", str], None]] = None) -> "Job":
        """Returns when the job has ended; calls ``act`` with each line that a worker prints."""
        timer = threading.Timer(SECONDS, self.process.kill)
        timer.start()
        try:
            for line in self.process.stdout or ():
                self.out.append(line.rstrip())
                if act is not None:
                    act(self, line.rstrip())
            self.code = self.process.wait()
        finally:
            timer.cancel()
            self.process.kill()
            self.process.wait()
            self.err = self._log.read_text()
        return self

    def ctl(self, *words: str) -> str:
        """What ``launch ctl`` prints."""
        done = subprocess.run(
            [REAL, "ctl", *words],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def interrupt(self) -> None:
        """Ctrl-C, which launch gets alone: its processes have groups of their own."""
        os.kill(self.process.pid, signal.SIGINT)

    def started(self) -> str:
        """The table that launch prints at the start, and what came with it."""
        return self._log.read_text()

    def words(self, word: str) -> List[str]:
        """What workers printed behind a word."""
        return [line.split(word + " ", 1)[1] for line in self.out if word + " " in line]

    def ends(self) -> List[str]:
        """How the workers ended, from the table at the end of the job."""
        found = re.findall(r"^worker +\d+ +localhost +\d+ +(.+?)  ", self.err, re.MULTILINE)
        return list(found)
