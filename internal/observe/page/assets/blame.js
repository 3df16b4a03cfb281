/** Blame over time: in which share of the rounds each of some workers came last. The scheduler keeps no past of it, so it begins when the page is opened. */

import { Chart } from "./chart.js";
import { percent } from "./format.js";
import { section } from "./shell.js";

const SLOTS = 6; // workers that are drawn
const LEAST = 0.01; // share of a worker that is drawn, so that those who are hardly ever last do not take turns
const MOST_POINTS = 600;

export class BlameOverTime {
  constructor() {
    this.times = [];
    this.past = new Map(); // by node: {rank, shares}
    this.slots = new Array(SLOTS).fill(null); // nodes; a worker keeps its colour as long as it is drawn
    this.chart = new Chart({ title: "Share of rounds with this worker last", unit: (x) => percent(x), zero: true, top: 1, height: 230,
      series: this.slots.map((_, i) => ({ label: "", colour: `--series-${i + 1}`, dash: i % 2 ? [6, 3] : undefined })) });
    this.elements = [section("blame", "Blame over time", { columns: 4, hint: "Since this page was opened." }, this.chart.element)];
  }

  update({ now, workers }) {
    if (now === this.times.at(-1)) return;
    this.times.push(now);
    for (const w of workers) {
      let p = this.past.get(w.node);
      if (!p) this.past.set(w.node, (p = { shares: new Array(this.times.length - 1).fill(null) }));
      p.rank = w.rank;
      p.shares.push(w.last_share);
    }
    const over = this.times.length > MOST_POINTS;
    if (over) this.times.shift();
    for (const [node, p] of this.past) {
      if (p.shares.length < this.times.length + over) p.shares.push(null);
      if (over) p.shares.shift();
      if (p.shares.every((x) => x === null)) this.past.delete(node);
    }
    this.#choose(workers);
    const drawn = this.slots.map((node) => this.past.get(node));
    this.chart.update(this.times, drawn.map((p) => p?.shares ?? []), drawn.map((p) => (p ? `worker ${p.rank}` : "")));
  }

  // The workers with the largest shares now are drawn.
  #choose(workers) {
    const most = workers.filter((w) => w.last_share >= LEAST).sort((a, b) => b.last_share - a.last_share).slice(0, SLOTS).map((w) => w.node);
    this.slots = this.slots.map((node) => (most.includes(node) ? node : null));
    for (const node of most) {
      if (!this.slots.includes(node)) this.slots[this.slots.indexOf(null)] = node;
    }
  }
}
