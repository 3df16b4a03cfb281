/** The search as a whole: numbers on top, the best value over time, hosts and their slots, and which parameters matter. */

import { el, reconcile, setAttribute, setStyle, setText } from "./dom.js";
import { known, long, percent, plural, whole, UNKNOWN } from "./format.js";
import { figure } from "./searchformat.js";
import { section } from "./shell.js";
import { StepChart } from "./stepchart.js";
import { colour } from "./theme.js";

// Seconds between the marks of an axis.
const ROUND = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 432000, 864000, 2592000];

export class SearchSummary {
  constructor(onChoose) {
    this.tiles = ["best", "trials", "running", "elapsed", "slots"].map((id) => tile(id, { best: "Best value", trials: "Trials", running: "Running", elapsed: "Time", slots: "Slots in use" }[id]));
    const best = this.tiles[0].number;
    setAttribute(best, "role", "button");
    setAttribute(best, "tabindex", 0);
    const choose = () => this.best !== null && onChoose(this.best);
    best.addEventListener("click", choose);
    best.addEventListener("keydown", (e) => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); choose(); } });
    this.best = null;
    this.element = el("dl", { class: "tiles search-tiles columns-12", "aria-label": "summary" }, ...this.tiles.map((t) => t.element));

    this.chart = new StepChart({ title: "best value so far", x: "time", height: 270, stepped: true, writeX: long, incrs: ROUND });
    this.progress = section("progress", "Best so far", { columns: 5 }, this.chart.element);

    this.bars = el("ul", { class: "importance" });
    this.noBars = el("p", { class: "empty" }, "needs 10 trials with a value");
    this.importance = section("importance", "Which parameters matter", { columns: 5, hint: "how far the best fifth of the trials differs from all (PED-ANOVA), as shares of 100 %" }, this.bars, this.noBars);

    this.hosts = el("ul", { class: "hosts" });
    this.machines = section("hosts", "Hosts and slots", { columns: 7 }, this.hosts);
  }

  update(state) {
    const { now, ranked, columns } = state;
    const counts = Object.fromEntries(state.head.states.map((name, i) => [name, state.counts()[i]]));
    this.best = ranked.length > 0 && columns.violation[ranked[0]] === 0 ? ranked[0] : null;
    const [best, trials, running, elapsed, slots] = this.tiles;
    show(best, this.best === null ? UNKNOWN : figure(columns.value[this.best]), this.best === null ? (ranked.length > 0 ? "no trial keeps all constraints" : "no value yet") : `trial ${this.best}, ${now.metric}${known(columns.best_step[this.best]) ? ` at step ${columns.best_step[this.best]}` : ""}`);
    const ended = ["completed", "pruned", "failed", "stopped"].filter((s) => counts[s] > 0).map((s) => `${whole(counts[s])} ${s}`).join(", ");
    show(trials, whole(state.count) + (now.planned > 0 ? ` of ${whole(now.planned)}` : ""), ended || "none has ended");
    show(running, whole(counts.running), [counts.pending && `${whole(counts.pending)} pending`, counts.paused && `${whole(counts.paused)} paused`].filter(Boolean).join(", ") || (now.parallel > 0 ? `at most ${whole(now.parallel)} at once` : "as many at once as fit"));
    show(elapsed, long(now.elapsed_seconds), now.over ? "the search is over" : now.exhausted ? "no more new trials" : "of search, all runs together");
    const used = now.hosts.reduce((n, h) => n + h.slots_used, 0), all = now.hosts.reduce((n, h) => n + h.slots, 0);
    const cpus = now.hosts.reduce((n, h) => n + h.cpus, 0);
    show(slots, all > 0 ? `${whole(used)} of ${whole(all)}` : whole(used), plural(now.hosts.length, "host") + (cpus ? `, ${whole(cpus)} CPUs` : ""));
    this.#progress(state);
    this.#importance(now.importance);
    reconcile(this.hosts, now.hosts, (h) => h.name, makeHost, showHost);
  }

  #progress({ progress, now }) {
    const xs = [...progress.at_seconds], ys = [...progress.value];
    if (xs.length > 0 && now.elapsed_seconds > xs.at(-1)) {
      xs.push(now.elapsed_seconds);
      ys.push(ys.at(-1));
    }
    this.chart.update(xs.length ? [{ id: "best", label: "best so far", xs, ys, tone: "--accent", colour: () => colour("--accent"), width: 2 }] : []);
  }

  #importance(list) {
    setAttribute(this.noBars, "hidden", list.length > 0);
    const most = Math.max(1e-9, ...list.map((i) => i.share));
    reconcile(this.bars, list.slice(0, 12), (i) => i.name, () => {
      const fill = el("span", { class: "fill" });
      return el("li", {}, el("span", { class: "bar-name" }), el("span", { class: "bar-track" }, fill), el("span", { class: "numeric" }));
    }, (node, i) => {
      setText(node.children[0], i.name);
      setAttribute(node.children[0], "title", i.name);
      setStyle(node.children[1].firstChild, "width", `${(100 * i.share) / most}%`);
      setText(node.children[2], percent(i.share));
      setAttribute(node, "title", plural(i.trials, "trial") + " had it");
    });
  }
}

function tile(id, title) {
  const number = el("dd", { class: "number", id: `tile-${id}` }, UNKNOWN);
  const note = el("dd", { class: "note" });
  return { number, note, element: el("div", { class: "tile" }, el("dt", {}, title), number, note) };
}

function show(t, number, note) {
  setText(t.number, number);
  setText(t.note, note);
  setAttribute(t.note, "title", note);
}

function makeHost() {
  return el("li", {}, el("span", { class: "bar-name mono" }), el("span", { class: "bar-track" }, el("span", { class: "fill" })), el("span", { class: "numeric" }), el("span", { class: "muted host-note" }));
}

function showHost(node, h) {
  const [used, all] = h.slots > 0 ? [h.slots_used, h.slots] : h.cpus > 0 ? [h.cpus_used, h.cpus] : [h.running, h.running];
  setText(node.children[0], h.name);
  setAttribute(node.children[0], "title", h.name);
  setStyle(node.children[1].firstChild, "width", `${all ? (100 * used) / all : 0}%`);
  setText(node.children[2], h.slots > 0 ? `${used} of ${all} slots` : h.cpus > 0 ? `${used} of ${all} CPUs` : plural(h.running, "trial"));
  const note = [plural(h.running, "trial")];
  if (h.slots > 0 && h.cpus > 0) note.push(`${h.cpus_used} of ${h.cpus} CPUs`);
  if (h.gpus > 0) note.push(`${h.gpus_used} of ${h.gpus} GPUs`);
  if (h.leaving) note.push("leaving");
  setText(node.children[3], note.join(", "));
}
