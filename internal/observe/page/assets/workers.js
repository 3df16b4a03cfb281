/** The workers' table: who makes the others wait comes first. */

import { drawBadge, drawParts, drawShare, partsLegend } from "./bar.js";
import { known, amount, loss, percent, rate, size, span, UNKNOWN, value, whole, name } from "./format.js";
import { section } from "./shell.js";
import { stateOf } from "./state.js";
import { Table } from "./table.js";

export const PAGE_SIZE = 32;

const COLUMNS = [
  { id: "rank", title: "Worker", value: (w) => (w.rank >= 0 ? w.rank : 1e9 + w.node), text: (w) => (w.rank >= 0 ? String(w.rank) : UNKNOWN) },
  { id: "host", title: "Host", value: (w) => w.host, text: (w) => w.host, tip: true },
  { id: "state", title: "State", value: stateOf, draw: (cell, w) => drawBadge(cell, stateOf(w)), narrow: "middle" },
  { id: "blame", title: "Came last", first: -1, numeric: true, value: blame, draw: (cell, w) => drawShare(cell, w.last_share, percent(w.last_share), w.slow ? "warn" : ""),
    help: "Share of the last half minute's rounds to which this worker contributed last" },
  { id: "gap", title: "Late by", first: -1, numeric: true, value: (w) => w.last_gap_seconds, text: (w) => span(w.last_gap_seconds), narrow: "hide", help: "How long its contribution came after the last but one, on average" },
  { id: "time", title: "Step time", first: -1, numeric: true, value: (w) => w.step_seconds, text: (w) => span(w.step_seconds) },
  { id: "parts", title: "Parts of a step", draw: drawParts },
  { id: "compute", title: "Compute", first: -1, numeric: true, value: (w) => w.compute_seconds, text: (w) => span(w.compute_seconds), narrow: "hide" },
  { id: "wait", title: "Wait", first: -1, numeric: true, value: (w) => w.wait_seconds, text: (w) => span(w.wait_seconds), narrow: "hide", help: "Time of a step in which the worker waits for servers" },
  { id: "examples", title: "Examples/s", numeric: true, value: (w) => w.examples_per_second, text: (w) => amount(w.examples_per_second), narrow: "middle" },
  { id: "step", title: "Step", numeric: true, value: (w) => w.step, text: (w) => whole(w.step), narrow: "middle" },
  { id: "loss", title: "Loss", numeric: true, first: -1, value: (w) => w.loss, text: (w) => loss(w.loss), narrow: "hide" },
];

/** blame orders slow workers first, then by share in steps of 5 %, so that rows of about the same share stay where they are. */
function blame(w) {
  return (w.slow ? 1000 : 0) + Math.round(20 * (w.last_share ?? 0));
}

export class Workers {
  constructor() {
    this.table = new Table({ id: "workers", title: "Workers", columns: COLUMNS, what: "worker", pageSize: PAGE_SIZE, sort: "blame", key: (w) => w.node, search: words, details,
      rowClass: (w) => ({ slow: "slow", silent: "old", gone: "old" })[stateOf(w)] ?? "", empty: "no worker yet" });
    this.elements = [section("workers", "Workers", { columns: 8, hint: "Those that the others wait for come first." }, this.table.element, partsLegend(["compute", "wait", "data", "rest"]))];
  }

  update({ workers }) {
    this.table.update(workers);
  }
}

function words(w) {
  return `${name("worker", w)} ${w.host} ${stateOf(w)} ${w.pid}`;
}

function details(w) {
  return [
    ["process", String(w.pid)], ["state", stateOf(w)], ["values", known(w.age_seconds) ? `${span(w.age_seconds)} old` : "none yet"], ["epoch", whole(w.epoch)], ["step", whole(w.step)],
    ["examples", `${amount(w.examples_per_second)}/s`], ["loss", loss(w.loss)], ["gradient norm", value(w.gradient_norm)], ["step time", span(w.step_seconds)], ["compute", span(w.compute_seconds)],
    ["wait for servers", span(w.wait_seconds)], ["wait for data", span(w.data_seconds)], ["came last", `in ${percent(w.last_share, 1)} of the rounds`], ["late by", span(w.last_gap_seconds)],
    ["staleness", `${value(w.staleness_mean)}, at most ${value(w.staleness_max)}`], ["sent", rate(w.sent_bytes_per_second)], ["received", rate(w.received_bytes_per_second)],
    ["memory", size(w.memory_bytes)], ["CPU", known(w.cpu_cores) ? `${w.cpu_cores.toFixed(2)} cores` : UNKNOWN],
    ...w.gpus.map((g) => [`GPU ${g.index}`, `${percent(g.load)}, ${size(g.memory_used_bytes)} of ${size(g.memory_total_bytes)}, ${whole(g.temperature_celsius)} °C, ${whole(g.power_watts)} W`]),
  ];
}
