"""BytePS's names that are not here, and what to use in their place."""

from __future__ import annotations

from typing import Any, Dict

ADVICE: Dict[str, str] = {
    "cross_barrier": "paragon.torch.attach(model, opt, store, optimizer='server'), where the "
    "servers make the step",
    "get_pushpull_speed": "launch top, which shows the bytes of each worker and server",
    "common": "the names of paragon.byteps.torch",
    "misc": "launch",
    "server": "launch -s 2, which starts the servers",
    "tensorflow": "paragon.byteps.torch; other frameworks have paragon.kv",
    "keras": "paragon.byteps.torch; other frameworks have paragon.kv",
    "mxnet": "paragon.kv, which has MXNet's names",
}


def attribute(module: str, name: str) -> Any:
    """What a module's __getattr__ does with a name that it does not have.

    Raises NotImplementedError for BytePS's names, AttributeError for others."""
    if name in ADVICE:
        raise NotImplementedError(f"{module}.{name} is not there; use {ADVICE[name]}")
    raise AttributeError(f"module {module!r} has no attribute {name!r}")
