"""``python -m paragon`` and the console command ``launch`` are the Go program ``launch``."""

from __future__ import annotations

import os
import sys

from . import _binary
from .errors import BridgeError


def launch() -> None:
    """Becomes the program ``launch`` with this process's arguments.

    No Python stays between: signals and the exit status are the program's."""
    try:
        path = _binary.find()
        os.execv(path, [path] + sys.argv[1:])
    except (BridgeError, OSError) as e:
        sys.exit(str(e))


if __name__ == "__main__":
    launch()
