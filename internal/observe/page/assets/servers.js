/** The servers' table: rounds, what waits there, and the bytes that each one moves. */

import { drawBadge, drawShare } from "./bar.js";
import { amount, known, name, rate, size, span, UNKNOWN, whole } from "./format.js";
import { section } from "./shell.js";
import { stateOf } from "./state.js";
import { Table } from "./table.js";

export class Servers {
  constructor() {
    this.most = 1;
    const bytes = (id, title) => ({ id, title, first: -1, numeric: true, value: (s) => s[`${id}_bytes_per_second`],
      draw: (cell, s) => drawShare(cell, s[`${id}_bytes_per_second`] / this.most, rate(s[`${id}_bytes_per_second`])) });
    this.table = new Table({ id: "servers", title: "Servers", what: "server", pageSize: 8, sort: "rank", key: (s) => s.node, search: null, empty: "no server yet",
      rowClass: (s) => ({ silent: "old", gone: "old" })[stateOf(s)] ?? "",
      columns: [
        { id: "rank", title: "Server", value: (s) => (s.rank >= 0 ? s.rank : 1e9 + s.node), text: (s) => (s.rank >= 0 ? String(s.rank) : UNKNOWN) },
        { id: "host", title: "Host", value: (s) => s.host, text: (s) => s.host, tip: true },
        { id: "state", title: "State", value: stateOf, draw: (cell, s) => drawBadge(cell, stateOf(s)), narrow: "middle" },
        { id: "rounds", title: "Rounds/s", first: -1, numeric: true, value: (s) => s.rounds_per_second, text: (s) => amount(s.rounds_per_second), narrow: "middle", help: "Rounds closed in a second, of all shards" },
        { id: "round", title: "Round", first: -1, numeric: true, value: (s) => s.round_seconds, text: (s) => span(s.round_seconds), narrow: "hide", help: "From the first contribution to the close" },
        { id: "waiting", title: "Waiting", first: -1, numeric: true, value: (s) => s.waiting_requests, text: (s) => whole(s.waiting_requests), help: "Requests that wait for a round" },
        { id: "held", title: "Gradients held", first: -1, numeric: true, value: (s) => s.held_bytes, text: (s) => size(s.held_bytes), narrow: "hide", help: "Bytes of contributions to open rounds" },
        { id: "values", title: "Parameters", first: -1, numeric: true, value: (s) => s.value_bytes, text: (s) => size(s.value_bytes), narrow: "hide" },
        bytes("sent", "Sent"), bytes("received", "Received"),
      ],
      details: (s) => [["process", String(s.pid)], ["state", stateOf(s)], ["rounds", `${amount(s.rounds_per_second)}/s`], ["round", span(s.round_seconds)], ["gradients held", size(s.held_bytes)],
        ["parameters", size(s.value_bytes)], ["memory", size(s.memory_bytes)], ["CPU", known(s.cpu_cores) ? `${s.cpu_cores.toFixed(2)} cores` : UNKNOWN], ["name", name("server", s)]] });
    this.elements = [section("servers", "Servers", { columns: 7, hint: "Bytes per second; the longest bar is the busiest server's." }, this.table.element)];
  }

  update({ servers }) {
    this.most = Math.max(1, ...servers.map((s) => Math.max(s.sent_bytes_per_second ?? 0, s.received_bytes_per_second ?? 0)));
    this.table.update(servers);
  }
}
