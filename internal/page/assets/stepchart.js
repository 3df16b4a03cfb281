/** Curves over steps or seconds that do not share their points, drawn by uPlot: the learning curves of trials. */

import { el, setAttribute, setText } from "./dom.js";
import { known } from "./format.js";
import { figure, tick } from "./searchformat.js";
import { colour, onTheme } from "./theme.js";

const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';

/** WHOLE are the distances between the marks of an axis of steps. */
export const WHOLE = Array.from({ length: 10 }, (_, e) => [1, 2, 5].map((k) => k * 10 ** e)).flat();

/**
 * A StepChart shows curves: {id, label, xs, ys, colour, width, alpha}; colour is a function. The first of the list lie on top. stepped draws stairs. onChoose gets the
 * id of the curve that was clicked.
 */
export class StepChart {
  constructor({ title, x, height = 280, stepped = false, writeX = tick, incrs = undefined, onChoose = null }) {
    Object.assign(this, { title, x, height, stepped, writeX, incrs, onChoose, curves: [], plot: null, shape: "" });
    this.area = el("div", { class: "plot steps", tabindex: 0, role: "img", "aria-label": title, onkeydown: (e) => this.#pressed(e), onblur: () => this.plot?.setCursor({ left: -10, top: -10 }) });
    this.tip = el("p", { class: "tip mono", role: "status" });
    this.empty = el("p", { class: "empty" }, "no values yet");
    this.element = el("figure", { class: "chart" }, this.area, this.empty, this.tip);
    new ResizeObserver(() => this.#resize()).observe(this.area);
    onTheme(() => this.plot?.redraw(false));
  }

  /** update shows other curves. */
  update(curves) {
    this.curves = [...curves].reverse(); // uPlot draws the last one on top
    const any = curves.some((c) => c.xs.length > 0);
    setAttribute(this.empty, "hidden", any);
    setAttribute(this.area, "hidden", !any);
    const shape = this.curves.map((c) => `${c.id} ${c.width} ${c.alpha} ${c.tone}`).join();
    if (shape !== this.shape && this.plot) {
      this.plot.destroy();
      this.plot = null;
    }
    this.shape = shape;
    if (this.plot) this.plot.setData(this.#data());
    else this.#resize();
  }

  // #data puts all curves on one row of points.
  #data() {
    const xs = [...new Set(this.curves.flatMap((c) => c.xs))].sort((a, b) => a - b);
    const at = new Map(xs.map((x, i) => [x, i]));
    return [xs, ...this.curves.map((c) => {
      const ys = new Array(xs.length).fill(undefined); // not null: nothing is there, and the curve passes over it
      c.xs.forEach((x, i) => { ys[at.get(x)] = c.ys[i]; });
      return ys;
    })];
  }

  #resize() {
    const width = Math.floor(this.area.clientWidth);
    if (width === 0 || this.curves.length === 0) return;
    if (this.plot) this.plot.setSize({ width, height: this.height });
    else this.plot = new uPlot(this.#options(width), this.#data(), this.area);
  }

  #options(width) {
    const axis = { stroke: () => colour("--muted"), font: FONT, ticks: { show: false }, grid: { stroke: () => colour("--line"), width: 1 } };
    return {
      width, height: this.height, padding: [8, 12, 0, 0], legend: { show: false },
      cursor: { y: false, points: { size: 6 }, focus: { prox: 24 }, drag: { x: true, y: false } },
      focus: { alpha: 1 },
      scales: { x: { time: false }, y: { range: (_, low, high) => spread(low, high) } },
      axes: [
        { ...axis, space: 64, size: 24, label: this.x, labelSize: 18, labelGap: 0, labelFont: FONT, incrs: this.incrs, values: (_, splits) => splits.map(this.writeX) },
        { ...axis, space: 34, size: (_, texts) => Math.ceil(16 + 6.4 * Math.max(3, ...(texts ?? []).map((t) => t.length))), values: (_, splits) => splits.map(tick) },
      ],
      series: [{}, ...this.curves.map((c) => ({
        stroke: () => c.colour(), width: c.width ?? 1.5, alpha: c.alpha ?? 1, spanGaps: true,
        paths: this.stepped ? uPlot.paths.stepped({ align: 1 }) : undefined,
        points: { show: c.xs.length < 2, size: 5, fill: () => c.colour() },
      }))],
      hooks: {
        setCursor: [(u) => this.#say(u)],
        ready: [(u) => u.over.addEventListener("click", () => { if (this.near && this.onChoose) this.onChoose(this.near.id); })],
      },
    };
  }

  // #say tells of the curve that is nearest to the cursor.
  #say(u) {
    const { idx, top } = u.cursor;
    this.near = null;
    if (idx === null || idx === undefined) {
      setText(this.tip, "");
      return;
    }
    let least = Infinity, value = null, x = null;
    this.curves.forEach((c) => {
      let i = c.xs.findIndex((v) => v >= u.data[0][idx]);
      if (this.stepped && i > 0 && c.xs[i] > u.data[0][idx]) i--;
      if (i < 0) i = c.xs.length - 1;
      if (i < 0 || !known(c.ys[i])) return;
      const d = Math.abs(u.valToPos(c.ys[i], "y") - top) + 0.01 * (2 - (c.width ?? 1));
      if (d <= least) [least, this.near, value, x] = [d, c, c.ys[i], c.xs[i]];
    });
    setText(this.tip, this.near ? `${this.near.label}: ${figure(value)} at ${this.x} ${this.writeX(x)}` : "");
  }

  #pressed(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity }[event.key];
    if (step === undefined || !this.plot) return;
    event.preventDefault();
    const xs = this.plot.data[0];
    const i = Math.max(0, Math.min(xs.length - 1, (this.plot.cursor.idx ?? xs.length - 1) + step));
    const best = this.curves.at(-1);
    const at = Math.max(0, best.xs.findIndex((v) => v >= xs[i]));
    this.plot.setCursor({ left: this.plot.valToPos(xs[i], "x"), top: known(best.ys[at]) ? this.plot.valToPos(best.ys[at], "y") : 0 });
  }
}

function spread(low, high) {
  if (!known(low) || !known(high)) return [0, 1];
  const room = (high - low || Math.abs(high) || 1) * 0.06;
  return [low - room, high + room];
}
