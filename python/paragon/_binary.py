"""Where the program ``launch`` is, which is also the bridge."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import BridgeError

VARIABLE = "PARAGON_LAUNCH"
"""The environment variable that names another program than the one in this package."""


def find() -> str:
    """Returns the path of the program ``launch``.

    It is the file that PARAGON_LAUNCH names, else the one inside this package. BridgeError says
    why it cannot be run: it is missing, has no execute permission, lies in a file system mounted
    noexec, or this package was imported from a zip file."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return _runnable(Path(chosen).absolute(), f"{VARIABLE} names it")
    package = Path(__file__).parent
    if not package.is_dir():
        raise BridgeError(
            f"paragon: imported from {package}, which is no folder: a program inside a zip file "
            "cannot be run; install the package as files (pip install paragon-train), "
            f"or set {VARIABLE} to the path of launch"
        )
    return _runnable(package / "bin" / "launch", "it is part of the wheel")


def _runnable(path: Path, why: str) -> str:
    if not path.is_file():
        text = f"{path} is a folder" if path.is_dir() else f"no program {path}"
        raise BridgeError(
            f"paragon: {text} ({why}); install the wheel of this platform with "
            f"pip install paragon-train, or set {VARIABLE} to the path of launch "
            "(go build ./launch makes one)"
        )
    if os.access(path, os.X_OK):
        return str(path)
    if path.stat().st_mode & 0o111 and os.statvfs(path).f_flag & os.ST_NOEXEC:
        raise BridgeError(
            f"paragon: {path} lies in a file system mounted noexec, so it cannot be run; copy it "
            f"to another folder and set {VARIABLE} to its path there"
        )
    raise BridgeError(f"paragon: {path} has no execute permission; run chmod +x {path}")
