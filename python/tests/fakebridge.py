#!/usr/bin/env python3
"""A bridge of one worker in Python, for tests: it speaks the protocol of docs/design/0058.

It is started as PARAGON_LAUNCH. What it does wrong is in FAKE_BRIDGE: words separated by commas."""

from __future__ import annotations

import json
import mmap
import os
import select
import signal
import socket
import struct
import sys
from typing import Any, Dict, List, Set, Tuple

import numpy as np

FAULTS = dict(w.partition("=")[::2] for w in os.environ.get("FAKE_BRIDGE", "").split(",") if w)
HELD = {"held": True}
EXCHANGE = struct.Struct("<cB2xIQIIfI16x")


class Failure(Exception):
    def __init__(self, kind: str, text: str, key: str = "") -> None:
        super().__init__(text)
        self.error = {"class": kind, "text": text, "key": key, "final": False}


class Slots:
    """A region. Each slot begins a page, so that it can move by itself."""

    def __init__(self, number: int, lengths: List[int]) -> None:
        self.number, self.lengths, self.offsets, at = number, lengths, [], 0
        for n in lengths:
            self.offsets.append(at)
            at += self.pages(n)
        self.size = at
        self.descriptor, memory = self.new(self.size)
        self.slots = [memory[o : o + 4 * n] for o, n in zip(self.offsets, lengths)]

    @staticmethod
    def pages(n: int) -> int:
        return -(-4 * n // mmap.PAGESIZE) * mmap.PAGESIZE

    @staticmethod
    def new(size: int) -> Tuple[int, np.ndarray]:
        descriptor = os.memfd_create("fake", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, size)
        return descriptor, np.frombuffer(mmap.mmap(descriptor, size), np.uint8)

    def move(self, slot: int) -> Tuple[int, int]:
        """Moves a slot into a file of its own; returns its descriptor and size."""
        size = self.pages(self.lengths[slot])
        descriptor, memory = self.new(size)
        memory[: len(self.slots[slot])] = self.slots[slot]
        self.slots[slot] = memory[: len(self.slots[slot])]
        return descriptor, size

    def bytes(self, slot: int) -> np.ndarray:
        return self.slots[slot]

    def values(self, slot: int) -> np.ndarray:
        return self.slots[slot].view(np.float32)

    def answer(self) -> Dict[str, Any]:
        return {"region": self.number, "offsets": self.offsets, "bytes": self.size}


class Bridge:
    def __init__(self, sock: socket.socket, parent: int) -> None:
        self.socket, self.parent = sock, parent
        self.regions: Dict[int, Slots] = {}
        # leaving are regions that are freed with their plans.
        self.leaving: Set[int] = set()
        self.values: Dict[str, np.ndarray] = {}
        self.widths: Dict[str, int] = {}
        self.plans: Dict[int, List[Dict[str, Any]]] = {}
        self.optimizer: Dict[str, Any] = {}
        self.queue: List[bytes] = []
        self.planned = self.made = 0
        self.report: Dict[str, Any] = {}
        self.exchanges = 0
        self.error: Any = None
        # held are the numbers of barriers whose answers come with the next state.
        self.held: List[int] = []
        self.move_at = int(FAULTS.get("move", 0))
        self.turns: List[Dict[str, Any]] = []
        self.turn: Dict[str, Any] = {}
        self.order: Any = None

    def send(self, packet: bytes, descriptors: List[int] = []) -> None:
        socket.send_fds(self.socket, [packet], descriptors)

    def say(self, kind: str, message: Dict[str, Any], descriptors: List[int] = []) -> None:
        self.send(kind.encode() + json.dumps(message).encode(), descriptors)

    def run(self) -> None:
        self.say("N", {"note": "hello", "protocol": int(FAULTS.get("protocol", 1)),
                       "release": FAULTS.get("release", "0.1.0"), "pid": os.getpid()})
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        if self.parent >= 0:
            poll.register(self.parent, select.POLLIN)
        while True:
            ready = dict(poll.poll())
            if self.parent in ready:
                return
            packet = self.socket.recv(65536)
            if not packet:
                return
            if packet[:1] == b"X":
                self.exchange(packet)
            elif not self.request(json.loads(packet[1:])):
                return

    def request(self, message: Dict[str, Any]) -> bool:
        op, number, descriptors = message["op"], message["id"], []
        try:
            method = getattr(self, "op_" + op, None)
            if method is None:
                raise Failure("Unsupported", f"the fake bridge has no {op}")
            result = method(message) or {}
            if result is HELD:
                return True
            descriptors = result.pop("descriptors", [])
        except Failure as e:
            self.say("J", {"id": number, "error": e.error})
            return True
        if number:
            self.say("J", {"id": number, "result": result}, descriptors)
        return op not in ("close", "abort")

    def slots(self, lengths: List[int]) -> Slots:
        region = Slots(self.made, lengths)
        self.made += 1
        self.regions[region.number] = region
        return region

    def op_join(self, m: Dict[str, Any]) -> Dict[str, Any]:
        if "die" in FAULTS:
            sys.exit(int(FAULTS["die"]))
        words = self.slots([2048])
        self.words = words.bytes(0).view(np.uint64)
        return {"type": m["store"], "rank": 0, "workers": 1, "generation": 1, "node": 8,
                "joining": False, "alone": True, "job": "fake", "words": words.answer(),
                "descriptors": [words.descriptor]}

    def op_state(self, m: Dict[str, Any]) -> Dict[str, Any]:
        for number in self.held:
            self.say("J", {"id": number, "result": {}})
        self.held = []
        return {"rank": 0, "workers": 1, "generation": 1, "joining": False}

    def op_memory(self, m: Dict[str, Any]) -> Dict[str, Any]:
        region = self.slots(m["lengths"])
        return {**region.answer(), "descriptors": [region.descriptor]}

    def op_free(self, m: Dict[str, Any]) -> None:
        if any(e["region"] == m["region"] for p in self.plans.values() for e in p):
            if m.get("later"):
                self.leaving.add(m["region"])
                return
            raise Failure("Conflict", f"region {m['region']} is used by a plan")
        region = self.regions.pop(m["region"], None)
        if region is not None:
            os.close(region.descriptor)

    def op_init(self, m: Dict[str, Any]) -> None:
        for k in m["keys"]:
            if k["key"] in self.values:
                raise Failure("DuplicateInit", f"kvstore: init key {k['key']}: twice", k["key"])
            self.widths[k["key"]] = k.get("row_len", 0)
            self.values[k["key"]] = self.regions[k["region"]].values(k["slot"])[: k["size"]].copy()

    def value(self, key: str) -> np.ndarray:
        if key not in self.values:
            raise Failure("UnknownKey", f"kvstore: key {key}: unknown key", key)
        return self.values[key]

    def op_drop_key(self, m: Dict[str, Any]) -> None:
        """Forgets a key, which no real bridge does: so that exchanges of it fail."""
        del self.values[m["key"]]

    def op_pull(self, m: Dict[str, Any]) -> None:
        for k in m["keys"]:
            value = self.value(k["key"])
            self.regions[k["region"]].values(k["out"])[: len(value)] = value

    def op_push(self, m: Dict[str, Any]) -> None:
        for k in m["keys"]:
            slots = k.get("slots") or [k["grad"]]
            value = self.value(k["key"])
            region = self.regions[k["region"]]
            value[:] = sum(region.values(s)[: len(value)] for s in slots)

    def op_pushpull(self, m: Dict[str, Any]) -> None:
        self.op_push(m)
        self.op_pull(m)

    def rows(self, m: Dict[str, Any]) -> Any:
        region, width = self.regions[m["region"]], self.widths[m["key"]]
        ids = region.bytes(m["ids"]).view(np.int64)[: m["n"]]
        table = self.value(m["key"]).reshape(-1, width)
        return ids, table, region.values(m["values"])[: m["n"] * width].reshape(-1, width)

    def op_push_rows(self, m: Dict[str, Any]) -> None:
        ids, table, values = self.rows(m)
        pushed = np.zeros_like(table)
        np.add.at(pushed, ids, values)
        table[ids] = pushed[ids]

    def op_pull_rows(self, m: Dict[str, Any]) -> None:
        ids, table, values = self.rows(m)
        values[:] = table[ids]

    def op_plan(self, m: Dict[str, Any]) -> Dict[str, Any]:
        self.planned += 1
        number = self.planned
        self.plans[number] = list(m["entries"])
        return {"plan": number}

    def op_extend(self, m: Dict[str, Any]) -> None:
        self.plans[m["plan"]] += m["entries"]

    def op_drop_plan(self, m: Dict[str, Any]) -> None:
        self.plans.pop(m["plan"], None)
        for region in list(self.leaving):
            self.leaving.discard(region)
            self.op_free({"region": region, "later": True})

    def op_counts(self, m: Dict[str, Any]) -> Dict[str, Any]:
        """Says how many regions and plans there are, which no real bridge does."""
        return {"counts": [len(self.regions), len(self.plans)]}

    def op_barrier(self, m: Dict[str, Any]) -> Any:
        if "hold" in FAULTS:
            self.held.append(m["id"])
            self.say("N", {"note": "waiting", "call": "barrier", "key": "", "round": 0,
                           "seconds": 2, "waiting_for": "worker 1"})
            return HELD
        return None

    def op_broadcast(self, m: Dict[str, Any]) -> Dict[str, Any]:
        return {"bytes": m["bytes"]}

    def op_set_optimizer(self, m: Dict[str, Any]) -> None:
        self.optimizer = m["config"]

    def op_set_compression(self, m: Dict[str, Any]) -> None:
        if m["config"].get("type") not in ("none", "fp16", "bf16", "2bit", "1bit", "topk"):
            raise Failure("Usage", f"kvstore: compression: unknown type {m['config']}")

    def op_save(self, m: Dict[str, Any]) -> None:
        with open(m["uri"], "wb") as f:
            np.savez(f, **self.values)

    def op_load(self, m: Dict[str, Any]) -> None:
        self.values = dict(np.load(m["uri"]))

    def op_sampler(self, m: Dict[str, Any]) -> Dict[str, Any]:
        n, batch, step = m["examples"], m["batch"], 0
        for epoch in range(m["first"], m["epochs"]):
            for first in range(0, n, batch):
                left = (n - first - 1) // batch + 1
                self.turns.append({"kind": "step", "epoch": epoch, "step": first // batch,
                                   "steps": step, "size": min(batch, n - first), "first": first,
                                   "left": left})
                step += 1
            self.turns.append({"kind": "epoch", "epoch": epoch, "steps": step})
        self.turns.append({"kind": "end", "steps": step})
        self.order = np.random.RandomState(m["seed"]).permutation(n)
        return self.op_turn(m)

    def op_turn(self, m: Dict[str, Any]) -> Dict[str, Any]:
        if "after" in m and m["after"] == self.turn.get("number", 0) - 1:
            return self.turn
        turn = {"division": 1, "generation": 1, "rank": 0, "workers": 1, "joined": False,
                "survivor": 0, "size": 0, "first": 0, "left": 0, "step": 0, "epoch": 0}
        number = self.turn.get("number", 0) + 1
        self.turn = {**turn, **self.turns.pop(0), "number": number}
        return self.turn

    def op_indices(self, m: Dict[str, Any]) -> Dict[str, Any]:
        part = self.order[m["first"] : m["first"] + m["count"]]
        slot = self.regions[m["region"]].bytes(m["slot"]).view(np.int64)
        slot[: len(part)] = part
        return {"count": len(part)}

    def op_leave(self, m: Dict[str, Any]) -> None:
        self.turns[:] = [{"kind": "removed"}]

    def op_report(self, m: Dict[str, Any]) -> None:
        self.report = {k: v for k, v in m.items() if k not in ("id", "op")}

    def op_reported(self, m: Dict[str, Any]) -> Dict[str, Any]:
        """Says what the last report was, which no real bridge does."""
        return self.report

    def op_close(self, m: Dict[str, Any]) -> None:
        if "stuck" in FAULTS:
            signal.pause()

    def op_abort(self, m: Dict[str, Any]) -> None:
        print(f"abort: {m['class']}: {m['text']}: {m['last']}", file=sys.stderr, flush=True)

    def exchange(self, packet: bytes) -> None:
        """Makes an exchange; with the fault "queue" when one with an answer comes."""
        self.queue.append(packet)
        if "queue" in FAULTS and not packet[1] & 1:
            return
        queue, self.queue = self.queue, []
        for packet in queue:
            self.make(packet)

    def make(self, packet: bytes) -> None:
        _, flags, plan, number, first, count, weight, examples = EXCHANGE.unpack(packet)
        assert number == self.exchanges + 1, (number, self.exchanges)
        self.exchanges = number
        state = 1
        for e in self.plans[plan][first : first + count] if count else []:
            try:
                self.one(e, flags, weight)
            except Failure as failure:
                state, self.error = 2, self.error or failure.error
            if number == self.move_at:
                region = self.regions[e["region"]]
                descriptor, size = region.move(e["out"])
                # The old pages keep what they had: only the new ones have the value.
                region.values(e["out"])[:1] += 1000
                self.say("N", {"note": "moved", "region": region.number,
                               "offset": region.offsets[e["out"]], "bytes": size}, [descriptor])
                os.close(descriptor)
                state = 3
        self.words[number % 1024] = number * 4 + state
        if flags & 1:
            error = json.dumps(self.error).encode() if self.error else b""
            self.send(struct.pack("<sB6xQ", b"x", 2 if error else 1, number) + error)
            self.error = None

    def one(self, e: Dict[str, Any], flags: int, weight: float) -> None:
        region, value = self.regions[e["region"]], self.value(e["key"])
        gradient = region.values(e["grad"])
        if len(gradient) != len(value) or len(region.values(e["out"])) != len(value):
            raise Failure("Size", f"kvstore: push key {e['key']}: wrong size", e["key"])
        if self.optimizer:
            value -= np.float32(self.optimizer.get("learning_rate", 0.01)) * gradient
        else:
            value[:] = gradient / np.float32(weight or 1)
        if not flags & 2:
            region.values(e["out"])[: len(value)] = value


def main() -> None:
    arguments = sys.argv[1:]
    if arguments[:2] != ["role", "bridge"]:
        print("fake launch:", *arguments)
        return
    options = dict(zip(arguments[2::2], arguments[3::2]))
    if "fail" in FAULTS:
        print("bridge: cannot start:", FAULTS["fail"], file=sys.stderr, flush=True)
        sys.exit(3)
    bridge = Bridge(socket.socket(fileno=int(options["--socket"])), int(options["--parent"]))
    os.dup2(int(options["--stderr"]), 2)
    bridge.run()


if __name__ == "__main__":
    main()
