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
 *
 * A curve may have a forecast, {step, mean, low, high, shown, band}: a dashed line from its last point to the predicted end, and a band around it. shown draws the
 * line, and band the band; both are also drawn of the curve that the cursor is at. A curve with a mark, which is a text, ends in a cross, and the tip has the text.
 */
export class StepChart {
  constructor({ title, x, height = 280, stepped = false, writeX = tick, incrs = undefined, onChoose = null }) {
    Object.assign(this, { title, x, height, stepped, writeX, incrs, onChoose, curves: [], plot: null, shape: "", near: null });
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
    setAttribute(this.tip, "class", curves.some((c) => c.forecast) ? "tip mono long" : "tip mono");
    this.near = (this.near && this.curves.find((c) => c.id === this.near.id)) ?? null;
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
    const xs = [...new Set(this.curves.flatMap((c) => (c.forecast ? [...c.xs, c.forecast.step] : c.xs)))].sort((a, b) => a - b);
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
      scales: { x: { time: false }, y: { range: (_, low, high) => spread(...this.#room(low, high)) } },
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
        drawClear: [(u) => this.#drawForecasts(u, false)],
        draw: [(u) => this.#drawForecasts(u, true)],
        setCursor: [(u) => this.#say(u)],
        ready: [(u) => u.over.addEventListener("click", () => { if (this.near && this.onChoose) this.onChoose(this.near.id); })],
      },
    };
  }

  // #room makes room for the forecasts that are always drawn, but not so much that the curves become flat: a band may be very wide.
  #room(low, high) {
    if (!known(low) || !known(high)) return [low, high];
    const room = (high - low || Math.abs(high) || 1) * 0.4;
    let [least, most] = [low, high];
    for (const { forecast: f } of this.curves) {
      if (!f?.shown) continue;
      const ends = f.band ? [f.low, f.mean, f.high] : [f.mean];
      least = Math.min(least, ...ends.filter(known));
      most = Math.max(most, ...ends.filter(known));
    }
    return [Math.max(least, low - room), Math.min(most, high + room)];
  }

  // #drawForecasts draws the bands behind the curves, or the dashed lines and the crosses over them.
  #drawForecasts(u, over) {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width + 6 * devicePixelRatio, bbox.height);
    ctx.clip();
    const scale = devicePixelRatio;
    const at = (x, y) => [u.valToPos(x, "x", true), Math.max(-1e5, Math.min(1e5, u.valToPos(y, "y", true)))];
    const many = this.curves.filter((c) => c.forecast?.band).length > 4;
    let bands = 0, lines = 0;
    for (const c of this.curves) {
      const n = c.xs.length - 1, near = c === this.near;
      if (n < 0) continue;
      const f = c.forecast, from = at(c.xs[n], c.ys[n]);
      ctx.strokeStyle = ctx.fillStyle = c.colour();
      if (f && !over && (f.band || near) && known(f.low) && known(f.high)) {
        const low = at(f.step, f.low), high = at(f.step, f.high);
        ctx.globalAlpha = near ? 0.24 : many ? 0.08 : 0.14;
        ctx.beginPath();
        ctx.moveTo(...from);
        ctx.lineTo(...low);
        ctx.lineTo(...high);
        ctx.fill();
        ctx.globalAlpha = 0.7; // the band itself stands at the end
        ctx.lineWidth = 2 * scale;
        ctx.beginPath();
        ctx.moveTo(...low);
        ctx.lineTo(...high);
        ctx.stroke();
        bands++;
      }
      if (f && over && (f.shown || near) && known(f.mean)) {
        ctx.globalAlpha = near ? 1 : Math.max(c.alpha ?? 1, 0.8);
        ctx.lineWidth = Math.max(c.width ?? 1.5, 1.5) * scale;
        ctx.setLineDash([5 * scale, 4 * scale]);
        ctx.beginPath();
        ctx.moveTo(...from);
        ctx.lineTo(...at(f.step, f.mean));
        ctx.stroke();
        ctx.setLineDash([]);
        ctx.beginPath();
        ctx.arc(...at(f.step, f.mean), 3 * scale, 0, 2 * Math.PI);
        ctx.fill();
        lines++;
      }
      if (c.mark && over) {
        const r = (near ? 5 : 3.5) * scale;
        ctx.globalAlpha = near ? 1 : Math.max(c.alpha ?? 1, 0.7);
        ctx.lineWidth = 1.75 * scale;
        ctx.beginPath();
        ctx.moveTo(from[0] - r, from[1] - r);
        ctx.lineTo(from[0] + r, from[1] + r);
        ctx.moveTo(from[0] - r, from[1] + r);
        ctx.lineTo(from[0] + r, from[1] - r);
        ctx.stroke();
      }
    }
    ctx.restore();
    Object.assign(this.element.dataset, over ? { forecasts: lines } : { bands }); // a test reads it
  }

  // #say tells of the curve that is nearest to the cursor.
  #say(u) {
    const { idx, top } = u.cursor;
    const before = this.near;
    this.near = null;
    this.#find(u, idx, top);
    if (before !== this.near && (before?.forecast || before?.mark || this.near?.forecast || this.near?.mark)) u.redraw(false);
  }

  #find(u, idx, top) {
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
      const y = foretold(c, u.data[0][idx]) ?? c.ys[i];
      const d = Math.abs(u.valToPos(y, "y") - top) + 0.01 * (2 - (c.width ?? 1));
      if (d <= least) [least, this.near, value, x] = [d, c, c.ys[i], c.xs[i]];
    });
    setText(this.tip, this.near ? `${this.near.label}: ${figure(value)} at ${this.x} ${this.writeX(x)}${this.#beyond(this.near)}` : "");
  }

  // #beyond says how a curve goes on, or why it ended.
  #beyond({ mark, forecast: f }) {
    if (mark) return `; stopped ${mark}`;
    return f ? `; ${figure(f.mean)} expected at ${this.x} ${this.writeX(f.step)} (80 %: ${figure(f.low)} to ${figure(f.high)})` : "";
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

// foretold is the value on the dashed line of a curve; undefined: x is not there.
function foretold(c, x) {
  const f = c.forecast, n = c.xs.length - 1;
  if (!f?.shown || n < 0 || !known(f.mean) || x <= c.xs[n] || x > f.step) return undefined;
  return c.ys[n] + ((f.mean - c.ys[n]) * (x - c.xs[n])) / (f.step - c.xs[n]);
}

function spread(low, high) {
  if (!known(low) || !known(high)) return [0, 1];
  const room = (high - low || Math.abs(high) || 1) * 0.06;
  return [low - room, high + room];
}
