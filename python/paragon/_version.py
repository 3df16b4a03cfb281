"""The version of this package and of the protocol it speaks with its bridge."""

from __future__ import annotations

__version__ = "0.1.0"

PROTOCOL = 1
"""The version of the protocol between Python and the bridge; both sides must have the same."""
