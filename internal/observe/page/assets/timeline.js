/**
 * The last steps of some workers: a row for each, time to the right, a step's parts in colours. The workers measure how long each part of a step took in all, not when;
 * so the parts are drawn in a fixed order.
 */

import { partsLegend } from "./bar.js";
import { el, reconcile, setAttribute, setText, svg } from "./dom.js";
import { amount, known, plural, span, whole } from "./format.js";
import { section } from "./shell.js";

const ROW = 22; // height in pixels, of which the steps are BAR
const BAR = 14;
const TOP = 20; // of the axis
const MOST_ROWS = 16;
const ORDER = ["data", "compute", "wait", "save", "rest"]; // in which the parts are drawn

export class Timeline {
  constructor() {
    this.label = 0; // width of the names in pixels
    this.rows = []; // {node, rank, steps: [{step, begin, end, parts}]}, times in seconds before the newest end
    this.chosen = null; // {node, step}
    this.follows = false; // chosen by the pointer
    this.axis = svg("g", { class: "axis" });
    this.body = svg("g");
    this.mark = svg("rect", { class: "chosen", rx: 3, visibility: "hidden" });
    const hatch = svg("pattern", { id: "hatch", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, svg("rect", { class: "hatch", width: 2, height: 5 }));
    this.svg = svg("svg", { class: "timeline", tabindex: 0, role: "img", "aria-label": "The last steps by worker. The arrow keys go through them.", "aria-describedby": "timeline-step" }, svg("defs", {}, hatch), this.axis, this.body, this.mark);
    this.details = el("p", { id: "timeline-step", class: "step", "aria-live": "polite" });
    this.empty = el("p", { class: "empty" }, "no steps yet");
    this.svg.addEventListener("keydown", (e) => this.#pressed(e));
    this.svg.addEventListener("focus", () => this.chosen ?? this.#choose(this.rows[0], -1));
    this.svg.addEventListener("pointermove", (e) => this.#pointed(e));
    this.svg.addEventListener("pointerleave", () => { if (this.follows) this.#clear(); });
    new ResizeObserver(() => this.#draw()).observe(this.svg);
    this.elements = [section("timeline", "The last steps", { columns: 12 }, el("div", { class: "timeline-head" }, partsLegend(), this.details), this.svg, this.empty)];
  }

  update({ timelines, workers }) {
    const order = new Map(workers.map((w) => [w.node, { slow: w.slow, share: w.last_share ?? 0, host: w.host }]));
    const shown = timelines.filter((t) => t.step.length > 0);
    const blame = (r) => (r.slow ? 2 : 0) + (order.get(r.node)?.share ?? 0);
    this.rows = shown.map((t) => ({ node: t.node, rank: t.rank, host: order.get(t.node)?.host ?? "", slow: order.get(t.node)?.slow ?? false, steps: steps(t) }));
    if (this.rows.length > MOST_ROWS) {
      const keep = new Set([...this.rows].sort((a, b) => blame(b) - blame(a)).slice(0, MOST_ROWS).map((r) => r.node));
      this.rows = this.rows.filter((r) => keep.has(r.node));
    }
    this.rows.sort((a, b) => b.slow - a.slow); // the slow ones first, the others by rank
    this.label = 14 + 6.9 * Math.max(0, ...this.rows.map((r) => title(r).length));
    setAttribute(this.empty, "hidden", this.rows.length > 0);
    this.svg.classList.toggle("hidden", this.rows.length === 0);
    this.#draw();
  }

  #draw() {
    const width = this.svg.clientWidth;
    if (width === 0 || this.rows.length === 0) return;
    const all = this.rows.flatMap((r) => r.steps);
    this.from = Math.min(...all.map((s) => s.begin));
    this.to = Math.max(...all.map((s) => s.end));
    this.scale = (width - this.label - 1) / Math.max(1e-6, this.to - this.from);
    const height = TOP + ROW * this.rows.length;
    setAttribute(this.svg, "viewBox", `0 0 ${width} ${height}`);
    setAttribute(this.svg, "height", height);
    this.#drawAxis(width, height);
    reconcile(this.body, this.rows, (r) => r.node, (r) => this.#makeRow(r), (g, r) => this.#drawRow(g, r));
    this.#drawMark();
  }

  #x(t) {
    return this.label + (t - this.from) * this.scale;
  }

  #drawAxis(width, height) {
    const seconds = this.to - this.from;
    const every = niceStep(seconds / Math.max(2, Math.floor((width - this.label) / 110)));
    const ticks = [];
    for (let k = 0; k * every <= seconds; k++) ticks.push(this.to - k * every);
    reconcile(this.axis, ticks, (t) => Math.round((this.to - t) / every), () => svg("g", {}, svg("line", {}), svg("text", { "text-anchor": "middle" })), (g, t) => {
      const x = this.#x(t).toFixed(1);
      for (const [name, v] of Object.entries({ x1: x, x2: x, y1: TOP - 4, y2: height })) setAttribute(g.firstChild, name, v);
      setAttribute(g.lastChild, "x", t === this.to ? width - 2 : x);
      setAttribute(g.lastChild, "text-anchor", t === this.to ? "end" : "middle");
      setAttribute(g.lastChild, "y", TOP - 8);
      setText(g.lastChild, t === this.to ? "now" : `−${span(this.to - t)}`);
    });
  }

  #makeRow(r) {
    return svg("g", { class: "row" }, svg("text", { x: 0 }), ...ORDER.map((id) => svg("path", { class: `part ${id}` })), svg("path", { fill: "url(#hatch)" }));
  }

  // A row has one path for each part of all its steps.
  #drawRow(g, r) {
    const y = TOP + ROW * this.rows.indexOf(r) + (ROW - BAR) / 2;
    setAttribute(g, "class", r.slow ? "row slow" : "row");
    setAttribute(g.firstChild, "y", y + BAR - 3);
    setText(g.firstChild, title(r));
    ORDER.forEach((id, i) => {
      let d = "";
      for (const s of r.steps) {
        const p = s.parts[id];
        if (p.end > p.begin) d += `M${this.#x(p.begin).toFixed(1)} ${y}H${this.#x(p.end).toFixed(1)}v${BAR}H${this.#x(p.begin).toFixed(1)}z`;
      }
      setAttribute(g.children[i + 1], "d", d);
      if (id === "wait") setAttribute(g.lastChild, "d", d);
    });
  }

  #drawMark() {
    const { row, step } = this.#found();
    if (!step) {
      this.mark.setAttribute("visibility", "hidden");
      if (!this.chosen) setText(this.details, this.#sentence());
      return;
    }
    const y = TOP + ROW * this.rows.indexOf(row) + (ROW - BAR) / 2;
    for (const [name, v] of Object.entries({ x: this.#x(step.begin) - 1, y: y - 2, width: Math.max(2, (step.end - step.begin) * this.scale) + 2, height: BAR + 4, visibility: "visible" })) setAttribute(this.mark, name, v);
    const parts = ["compute", "wait", "data", "save", "rest"].map((id) => [id, step.parts[id].end - step.parts[id].begin]).filter(([, t]) => t > 5e-7);
    const names = { compute: "compute", wait: "waits for servers", data: "waits for data", save: "saves", rest: "other" };
    setText(this.details, `${title(row)}${row.host ? ` on ${row.host}` : ""}, step ${whole(step.step)}: ${span(step.end - step.begin)} – ${parts.map(([id, t]) => `${names[id]} ${span(t)}`).join(", ")}`);
  }

  #sentence() {
    const mean = this.rows.flatMap((r) => r.steps).reduce((a, s, _, all) => a + (s.end - s.begin) / all.length, 0);
    return `${plural(this.rows.length, "worker")}, ${amount(mean * 1000)} ms a step on average. Point at a step, or use the arrow keys.`;
  }

  #found() {
    const row = this.rows.find((r) => r.node === this.chosen?.node);
    return { row, step: row?.steps.find((s) => s.step === this.chosen.step) };
  }

  #choose(row, index, follows = false) {
    if (!row) return;
    const at = index < 0 ? row.steps.length - 1 : Math.min(index, row.steps.length - 1);
    this.chosen = { node: row.node, step: row.steps[at].step };
    this.follows = follows;
    this.#drawMark();
  }

  #clear() {
    this.chosen = null;
    this.#drawMark();
  }

  #pressed(event) {
    if (event.key === "Escape") this.#clear();
    const by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], k: [-1, 0], j: [1, 0], Home: [0, -1e3], End: [0, 1e3] }[event.key];
    if (!by || this.rows.length === 0) return;
    event.preventDefault();
    event.stopPropagation();
    const { row, step } = this.#found();
    if (!step) {
      this.#choose(this.rows[0], -1);
      return;
    }
    const next = this.rows[clamp(this.rows.indexOf(row) + by[0], this.rows.length)];
    this.#choose(next, clamp(row.steps.indexOf(step) + by[1], next.steps.length));
  }

  #pointed(event) {
    const box = this.svg.getBoundingClientRect();
    const row = this.rows[Math.floor((event.clientY - box.top - TOP) / ROW)];
    const t = this.from + (event.clientX - box.left - this.label) / this.scale;
    const index = row?.steps.findIndex((s) => t >= s.begin && t < s.end) ?? -1;
    if (index >= 0) this.#choose(row, index, true);
    else if (this.follows) this.#clear();
  }
}

const title = (row) => (row.rank >= 0 ? `worker ${row.rank}` : "worker");
const clamp = (i, n) => Math.max(0, Math.min(n - 1, i));

/** steps puts a timeline's columns into steps, in seconds relative to now, each with the begin and end of its parts. */
function steps(t) {
  return t.step.map((step, i) => {
    const end = t.end_us[i] / 1e6;
    const begin = end - (t.total_seconds[i] ?? 0);
    const parts = {};
    let at = begin;
    for (const id of ORDER) {
      const seconds = id === "rest" ? end - at : t[`${id}_seconds`][i];
      const until = Math.min(end, at + (known(seconds) ? Math.max(0, seconds) : 0));
      parts[id] = { begin: at, end: until };
      at = until;
    }
    return { step, begin, end, parts };
  });
}

/** niceStep is 1, 2 or 5 times a power of ten, at least x. */
function niceStep(x) {
  const power = 10 ** Math.floor(Math.log10(Math.max(x, 1e-9)));
  return [1, 2, 5, 10].map((m) => m * power).find((s) => s >= x);
}
