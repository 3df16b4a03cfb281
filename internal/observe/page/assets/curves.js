/** The job's curves: what it learns, how fast, where a step's time goes, and the bytes of its servers. */

import { Chart } from "./chart.js";
import { el } from "./dom.js";
import { amount, loss, percent, rate, size, span, value } from "./format.js";
import { section } from "./shell.js";

const SERVERS = 8;
const SCORE = "test_score/"; // begins the ids of the lines of metrics of one's own, each of which gets a chart when it is there
const POWERS = Array.from({ length: 50 }, (_, i) => 2 ** i); // marks of bytes: 8 MiB, 16 MiB

// The id of each series is that of a line of the state.
const CHARTS = [
  { title: "Loss", unit: loss, tick: value, series: [{ id: "loss", label: "training", colour: "--series-1" }, { id: "test_loss", label: "test", colour: "--series-2", sparse: true }] },
  { title: "Test accuracy", unit: (x) => percent(x, 1), tick: (x) => percent(x), series: [{ id: "test_accuracy", label: "test", colour: "--series-3", sparse: true }] },
  { title: "Examples per second", unit: amount, zero: true, series: [{ id: "examples_per_second", label: "all workers", colour: "--series-1" }] },
  { title: "Time of a step", unit: span, stacked: true, series: [{ id: "compute_seconds", label: "compute", colour: "--compute" }, { id: "wait_seconds", label: "wait for servers", colour: "--wait" },
    { id: "data_seconds", label: "wait for data", colour: "--data" }, { id: "rest", label: "other", colour: "--rest" }] },
  { title: "Learning rate and gradient norm", unit: value, zero: true, series: [{ id: "learning_rate", label: "learning rate", colour: "--series-4" }, { id: "gradient_norm", label: "gradient norm", colour: "--series-5", sparse: true }] },
  { title: "Bytes sent by servers in a second", unit: rate, tick: size, incrs: POWERS, zero: true, series: Array.from({ length: SERVERS }, (_, i) => ({ id: `server_sent_bytes_per_second/${i}`, label: `server ${i}`, colour: `--series-${i + 1}`, dash: i % 2 ? [6, 3] : undefined })) },
];

export class Curves {
  constructor() {
    this.charts = CHARTS.map((c) => ({ chart: new Chart(c), ids: c.series.map((s) => s.id) }));
    this.area = el("div", { class: "charts" }, ...this.charts.map((c) => c.chart.element));
    this.elements = [section("curves", "Curves", { columns: 12, hint: "Drag to zoom in, double-click to see all." }, this.area)];
  }

  update({ curves }) {
    const { times, lines } = curves;
    const line = (id) => (id === "rest" ? rest(lines, times.length) : lines.get(id) ?? []);
    for (const id of lines.keys()) if (id.startsWith(SCORE) && !this.charts.some((c) => c.ids.includes(id))) this.#addScore(id);
    for (const { chart, ids } of this.charts) chart.update(times, ids.map(line));
  }

  #addScore(id) {
    const chart = new Chart({ title: `Test ${id.slice(SCORE.length)}`, unit: value, series: [{ id, label: "test", colour: "--series-3", sparse: true }] });
    this.charts.push({ chart, ids: [id] });
    this.area.append(chart.element);
  }
}

/** rest is what a step takes besides its parts. */
function rest(lines, n) {
  const of = (id) => lines.get(id) ?? [];
  const [all, compute, wait, data] = ["step_seconds", "compute_seconds", "wait_seconds", "data_seconds"].map(of);
  return Array.from({ length: n }, (_, i) => (all[i] === null || all[i] === undefined ? null : Math.max(0, all[i] - (compute[i] ?? 0) - (wait[i] ?? 0) - (data[i] ?? 0))));
}
