/**
 * Parallel coordinates: an axis for each parameter and the last one for the metric, a line for each trial. An interval of an axis (a brush), drawn with the mouse or
 * set with the keyboard, leaves the trials whose lines pass through all brushes.
 *
 * Lines are drawn on a canvas in slices of a few milliseconds, the best trials on top, so that 10,000 of them hold nothing up.
 */

import { el, setAttribute, setStyle, setText, svg } from "./dom.js";
import { known } from "./format.js";
import { Raster } from "./raster.js";
import { ramp, tick } from "./searchformat.js";
import { colour, onTheme } from "./theme.js";

const HEIGHT = 380;
const TOP = 46; // of the axes
const BOTTOM = 318;
const ABSENT = 344; // where lines of trials pass that do not have the parameter
const SIDE = 62;
const LEAST_BETWEEN = 104; // pixels of two axes
const SLICE_MS = 8; // of drawing, between two frames
const TOP_WIDTH = 2.2;
const NONE = -0.1; // the place of "not set" on an axis, whose values are on [0, 1]
const COLOURS = 24;
const MANY = 800; // lines; more are drawn by a Raster
const MOST_RUNNING = 64; // trials whose lines are brought up to date at once

/** places maps the values of a parameter to [0, 1], and has the texts of the axis. */
export function places(param, column, words) {
  if (param.choices) {
    const order = [];
    const seen = new Map();
    const add = (w) => { if (!seen.has(w)) { seen.set(w, order.length); order.push(w); } };
    for (const c of param.choices) add(c);
    for (const x of column) if (known(x)) add(words[x]);
    const n = Math.max(1, order.length);
    return {
      cells: order, at: (x) => (seen.get(words[x]) + 0.5) / n, ticks: order.map((text, i) => ({ at: (i + 0.5) / n, text })),
      text: (u) => order[Math.max(0, Math.min(n - 1, Math.floor(u * n)))] ?? "",
    };
  }
  let low = Infinity, high = -Infinity;
  for (const x of column) {
    if (!known(x)) continue;
    if (x < low) low = x;
    if (x > high) high = x;
  }
  if (known(param.low) && known(param.high)) {
    low = Math.min(low, param.low);
    high = Math.max(high, param.high);
  }
  if (!(low <= high)) [low, high] = [0, 1];
  if (low === high) [low, high] = [low - 0.5 * (Math.abs(low) || 1), high + 0.5 * (Math.abs(high) || 1)];
  const log = param.log && low > 0;
  const f = log ? Math.log10 : (x) => x;
  const a = f(low), b = f(high);
  const at = (x) => (f(x) - a) / (b - a);
  const back = (u) => { const x = a + u * (b - a); return log ? 10 ** x : x; };
  const values = log ? logTicks(low, high) : linearTicks(low, high, param.whole);
  return { log, at, ticks: values.map((x) => ({ at: at(x), text: tick(x) })), text: (u) => tick(param.whole ? Math.round(back(u)) : back(u)) };
}

function linearTicks(low, high, whole) {
  const rough = (high - low) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  let step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= rough);
  if (whole) step = Math.max(1, Math.round(step));
  const values = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) values.push(Number((k * step).toPrecision(12)));
  return values;
}

function logTicks(low, high) {
  const decades = Math.log10(high / low);
  const within = decades > 2.5 ? [1] : decades > 1.2 ? [1, 3] : [1, 2, 5];
  const every = Math.max(1, Math.ceil(decades / 6));
  const values = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++) {
    if (e % every !== 0) continue;
    for (const k of within) {
      const x = Number((k * 10 ** e).toPrecision(3));
      if (x >= low * 0.999 && x <= high * 1.001) values.push(x);
    }
  }
  return values;
}

/** Parallel shows the trials of a SearchState. onBrush gets the numbers of the trials that are left, or null for all; onChoose the trial that was clicked. */
export class Parallel {
  constructor({ onBrush, onChoose }) {
    Object.assign(this, { onBrush, onChoose, state: null, axes: [], brushes: new Map(), top: 10, chosen: null, hovered: null, drawing: 0, painting: false, rest: 0, width: 0, drag: null });
    const canvas = (hidden = false) => el("canvas", { class: "lines", "aria-hidden": "true", hidden });
    // The picture, and a second one on which an update is drawn until it is whole. faint lies below lines.
    this.shown = { faint: canvas(), lines: canvas() };
    this.spare = { faint: canvas(true), lines: canvas(true) };
    this.over = canvas();
    this.frame = svg("svg", { class: "axes", role: "group", "aria-label": "axes of parameters" });
    this.box = el("div", { class: "parallel", onpointermove: (e) => this.#hover(e), onpointerleave: () => this.#point(null), onclick: (e) => this.#click(e) }, this.shown.faint, this.spare.faint, this.shown.lines, this.spare.lines, this.over, this.frame);
    this.tip = el("p", { class: "tip mono", role: "status" });
    this.said = el("p", { class: "count muted", role: "status" });
    this.clear = el("button", { type: "button", class: "quiet", onclick: () => this.reset(), hidden: true }, "Clear brushes");
    this.scroll = el("div", { class: "scroll parallel-scroll", role: "region", "aria-label": "parallel coordinates", tabindex: 0 }, this.box);
    this.element = el("div", {}, el("div", { class: "tools" }, this.said, this.#legend(), this.clear), this.scroll, this.tip);
    new ResizeObserver(() => this.#resize()).observe(this.scroll);
    onTheme(() => { this.#drawLegend(); this.draw(); });
    this.#drawLegend();
  }

  /** update shows another state of the search. */
  update(state) {
    this.state = state;
    const params = state.head.params;
    const metric = { name: state.now.metric || "value", low: null, high: null, log: false, whole: false, choices: null, when: "", metric: true };
    const columns = [...state.params, state.columns.value];
    this.axes = [...params, metric].map((param, i) => ({ id: i < params.length ? `p${i}` : "metric", param, column: columns[i], ...places(param, columns[i], state.words) }));
    this.#place();
    this.#resize();
  }

  /** highlight marks one trial that is shown elsewhere on the page, or none. */
  highlight(number) {
    this.chosen = number;
    this.#drawOver();
  }

  /** showTop sets how many of the best trials are drawn thick. */
  showTop(k) {
    this.top = k;
    this.draw();
  }

  /** reset takes all brushes away. */
  reset() {
    this.brushes.clear();
    this.#brushed();
  }

  // #place finds the height of each trial on each axis.
  #place() {
    const n = this.state.count;
    for (const a of this.axes) {
      a.places = new Float32Array(n);
      for (let i = 0; i < n; i++) a.places[i] = known(a.column[i]) ? a.at(a.column[i]) : NONE;
    }
    this.#select();
  }

  // #select finds the trials that pass through all brushes.
  #select() {
    const { rank, count } = this.state;
    const selected = new Uint8Array(count);
    const brushes = this.axes.filter((a) => this.brushes.has(a.id)).map((a) => ({ places: a.places, ...this.brushes.get(a.id) }));
    let left = 0;
    for (let i = 0; i < count; i++) {
      let pass = rank[i] >= 0 || brushes.length > 0;
      for (const b of brushes) if (b.places[i] < b.low - 1e-6 || b.places[i] > b.high + 1e-6) { pass = false; break; }
      if (pass) { selected[i] = 1; left++; }
    }
    this.selected = selected;
    this.left = left;
    this.withValue = this.state.ranked.length;
    setText(this.said, brushes.length ? `${left} of ${count} trials pass the brush${brushes.length > 1 ? "es" : ""}` : `${this.withValue} of ${count} trials have a value`);
    setAttribute(this.clear, "hidden", brushes.length === 0);
  }

  #brushed() {
    this.#select();
    for (const a of this.axes) this.#drawBrush(a);
    this.draw();
    const numbers = [];
    if (this.brushes.size > 0) for (let i = 0; i < this.selected.length; i++) if (this.selected[i]) numbers.push(i);
    this.onBrush(this.brushes.size > 0 ? numbers : null);
  }

  #resize() {
    const room = this.scroll.clientWidth;
    if (room === 0 || this.axes.length === 0) return;
    const width = Math.max(room, 2 * SIDE + LEAST_BETWEEN * (this.axes.length - 1));
    const names = this.axes.map((a) => a.id + a.param.name + a.ticks.map((t) => t.text).join()).join("|");
    if (width !== this.width || names !== this.names) {
      this.width = width;
      this.names = names;
      const between = this.axes.length > 1 ? (width - 2 * SIDE) / (this.axes.length - 1) : 0;
      this.axes.forEach((a, i) => { a.x = SIDE + between * i; });
      this.between = between;
      setStyle(this.box, "width", `${width}px`);
      setStyle(this.box, "height", `${HEIGHT}px`);
      for (const c of [this.shown.faint, this.shown.lines, this.spare.faint, this.spare.lines, this.over]) this.#size(c);
      this.#drawAxes();
    } else {
      this.axes.forEach((a, i) => { a.x = SIDE + this.between * i; a.parts = this.parts[i]; });
      this.#refresh();
      return;
    }
    this.draw();
  }

  // #refresh draws new values aside and shows them when they are whole, so that the picture does not flicker. It takes at most a tenth of the time; the best trials, the
  // running ones and the chosen one are drawn at once in any case.
  #refresh() {
    this.#front();
    if (this.painting || performance.now() < this.rest) return;
    this.#paint(this.spare);
  }

  #size(canvas) {
    const dense = Math.min(2, devicePixelRatio || 1);
    canvas.width = Math.round(this.width * dense);
    canvas.height = Math.round(HEIGHT * dense);
    setStyle(canvas, "width", `${this.width}px`);
    setStyle(canvas, "height", `${HEIGHT}px`);
    canvas.getContext("2d").scale(dense, dense);
  }

  #drawAxes() {
    setAttribute(this.frame, "viewBox", `0 0 ${this.width} ${HEIGHT}`);
    setAttribute(this.frame, "width", this.width);
    setAttribute(this.frame, "height", HEIGHT);
    this.parts = this.axes.map((a) => this.#axis(a));
    this.axes.forEach((a, i) => { a.parts = this.parts[i]; });
    this.frame.replaceChildren(...this.parts.map((p) => p.group));
    for (const a of this.axes) this.#drawBrush(a);
  }

  #axis(a) {
    const name = svg("text", { x: a.x, y: 16, class: "axis-name" }, shorten(a.param.name, this.between));
    name.append(svg("title", {}, a.param.name + (a.param.when ? ` (only where ${a.param.when})` : "")));
    const kind = svg("text", { x: a.x, y: 31, class: "axis-kind" }, a.param.metric ? (this.state.now.larger ? "larger is better" : "smaller is better") : a.log ? "log" : "");
    const last = a.id === "metric";
    const most = Math.max(2, Math.floor((BOTTOM - TOP) / 16));
    const every = Math.ceil(a.ticks.length / most);
    const ticks = a.ticks.filter((_, i) => i % every === 0).map((t) => svg("g", { class: "tick" },
      svg("line", { x1: a.x - 4, x2: a.x, y1: y(t.at), y2: y(t.at) }),
      svg("text", { x: last ? a.x + 8 : a.x - 8, y: y(t.at) + 4, "text-anchor": last ? "start" : "end" }, shorten(t.text, this.between * 0.8))));
    const absent = a.param.when ? [svg("text", { x: a.x, y: ABSENT + 22, class: "axis-kind" }, "not set"), svg("circle", { cx: a.x, cy: ABSENT, r: 2.5, class: "absent" })] : [];
    const brush = svg("rect", { class: "brush", x: a.x - 10, width: 20, rx: 3 });
    const area = svg("rect", { class: "grab", x: a.x - 18, y: TOP - 10, width: 36, height: ABSENT - TOP + 22, onpointerdown: (e) => this.#press(e, a.id) });
    const handles = ["high", "low"].map((side) => svg("rect", {
      class: "handle", x: a.x - 13, width: 26, height: 10, rx: 3, role: "slider", tabindex: 0, "aria-orientation": "vertical", "aria-valuemin": 0, "aria-valuemax": 100,
      "aria-label": `${side === "high" ? "upper" : "lower"} end of ${a.param.name}`, onkeydown: (e) => this.#key(e, a.id, side), onpointerdown: (e) => this.#press(e, a.id, side),
    }));
    const group = svg("g", { class: "axis" }, svg("line", { class: "axis-line", x1: a.x, x2: a.x, y1: TOP, y2: BOTTOM }), ...ticks, name, kind, ...absent, area, brush, ...handles);
    return { group, brush, handles };
  }

  #drawBrush(a) {
    const b = this.brushes.get(a.id);
    const { brush, handles, group } = a.parts;
    const low = b ? b.low : this.#least(a), high = b ? b.high : 1;
    setAttribute(group, "class", b ? "axis brushed" : "axis");
    setAttribute(brush, "y", y(high));
    setAttribute(brush, "height", Math.max(2, y(low) - y(high)));
    for (const [i, u] of [high, low].entries()) {
      setAttribute(handles[i], "y", i === 0 ? y(u) - 10 : y(u));
      setAttribute(handles[i], "aria-valuenow", Math.round(100 * Math.max(0, u)));
      setAttribute(handles[i], "aria-valuetext", u < 0 ? "not set" : a.text(Math.max(0, Math.min(1, i === 0 ? u - 1e-9 : u + 1e-9))));
    }
  }

  #least(a) { return a.param.when ? NONE : 0; }

  #axisOf(id) { return this.axes.find((a) => a.id === id); }

  // #set sets the brush of an axis; one over the whole axis is none.
  #set(id, low, high) {
    const a = this.#axisOf(id);
    const least = this.#least(a);
    [low, high] = [Math.min(low, high), Math.max(low, high)];
    if (low < 0) low = least;
    if (high < 0) high = least;
    low = Math.max(least, low);
    high = Math.min(1, high);
    if (low <= least && high >= 1) this.brushes.delete(id);
    else this.brushes.set(id, { low, high });
    this.#brushed();
  }

  #press(event, id, side) {
    const a = this.#axisOf(id);
    const b = this.brushes.get(id);
    const from = unit(event.clientY - this.box.getBoundingClientRect().top);
    this.drag = { id, other: side === "low" ? (b?.high ?? 1) : side === "high" ? (b?.low ?? this.#least(a)) : from, from, moved: Boolean(side), side };
    const move = (e) => {
      const u = unit(e.clientY - this.box.getBoundingClientRect().top);
      if (!this.drag.moved && Math.abs(u - from) < 0.012) return;
      this.drag.moved = true;
      this.drag.low = Math.min(this.drag.other, u);
      this.drag.high = Math.max(this.drag.other, u);
      this.#later();
    };
    const end = () => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", end);
      removeEventListener("pointercancel", end);
      const d = this.drag;
      this.drag = null;
      if (!d.moved) this.#set(id, ...this.#cell(a, from));
      else if (d.low !== undefined) this.#set(id, ...this.#snap(a, d.low, d.high));
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", end);
    addEventListener("pointercancel", end);
    event.preventDefault();
    event.stopPropagation();
  }

  // #later applies a brush that is being drawn once a frame.
  #later() {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = 0;
      const d = this.drag;
      if (d?.low !== undefined) this.#set(d.id, ...this.#snap(this.#axisOf(d.id), d.low, d.high));
    });
  }

  // #snap widens an interval to whole cells of an axis of choices.
  #snap(a, low, high) {
    if (!a.cells || a.cells.length === 0) return [low, high];
    const n = a.cells.length;
    return [low < 0 ? low : Math.floor(low * n + 1e-6) / n, high < 0 ? high : Math.min(1, Math.ceil(high * n - 1e-6) / n)];
  }

  // #cell is the interval of a click: the cell of a choice or "not set"; elsewhere a click takes the brush away.
  #cell(a, u) {
    if (u < NONE / 2 && a.param.when) return [NONE, NONE];
    if (a.cells?.length) {
      const n = a.cells.length, i = Math.max(0, Math.min(n - 1, Math.floor(u * n)));
      const b = this.brushes.get(a.id);
      if (!b || Math.abs(b.low - i / n) > 1e-6 || Math.abs(b.high - (i + 1) / n) > 1e-6) return [i / n, (i + 1) / n];
    }
    return [-1, 1];
  }

  #key(event, id, side) {
    const a = this.#axisOf(id);
    const least = this.#least(a);
    const b = this.brushes.get(id) ?? { low: least, high: 1 };
    const step = a.cells?.length ? 1 / a.cells.length : event.shiftKey ? 0.1 : 0.02;
    let u = b[side];
    switch (event.key) {
      case "ArrowUp": case "ArrowRight": u = u < 0 ? 0 : u + step; break;
      case "ArrowDown": case "ArrowLeft": u = u - step < -1e-6 && u > 1e-6 ? 0 : u - step; break;
      case "PageUp": u = Math.max(0, u) + (a.cells?.length ? step : 0.1); break;
      case "PageDown": u -= a.cells?.length ? step : 0.1; break;
      case "Home": u = least; break;
      case "End": u = 1; break;
      case "Escape": case "Delete": case "Backspace":
        this.brushes.delete(id);
        this.#brushed();
        event.preventDefault();
        return;
      default: return;
    }
    event.preventDefault();
    event.stopPropagation();
    if (Math.abs(u - Math.round(u)) < 1e-6) u = Math.round(u);
    if (side === "low") this.#set(id, Math.min(u, b.high), b.high);
    else this.#set(id, b.low, Math.max(u, b.low));
  }

  /** draw draws all lines: as many as fit into one slice at once, and the others in the next frames. */
  draw() {
    if (!this.width || !this.state) return;
    this.#front();
    this.#paint(this.shown);
  }

  // #paint draws all lines on a pair of canvases, from the best trials to the worst, which lie below.
  #paint(on) {
    cancelAnimationFrame(this.drawing);
    const { ranked, count, rank } = this.state;
    const order = ranked.filter((n) => this.selected[n]);
    for (let i = 0; i < count; i++) if (rank[i] < 0 && this.selected[i]) order.push(i);
    const back = this.brushes.size > 0 ? ranked.filter((n) => !this.selected[n]) : [];
    const places = this.axes.map((a) => a.places);
    const xs = this.axes.map((a) => a.x);
    const heights = new Array(xs.length);
    const shades = this.#shades();
    const shade = (n) => shades[shadeOf(rank[n], ranked.length)];
    const many = order.length + back.length > MANY;
    const lines = many ? this.#rasterLayer(on.lines, "raster", order.length > 3000 ? 0.14 : 0.3) : strokeLayer(on.lines, this.width, order.length > 500 ? 0.45 : 0.8);
    const faint = many ? this.#rasterLayer(on.faint, "rasterBack", back.length > 3000 ? 0.08 : 0.2) : strokeLayer(on.faint, this.width, 0.3);
    const behind = parse(colour("--rest"));
    const draw = (layer, n, rgb) => {
      for (let k = 0; k < xs.length; k++) heights[k] = y(places[k][n]);
      layer.path(xs, heights, rgb);
    };
    let i = 0, j = 0, took = 0;
    const slice = (until) => {
      for (let k = 1; i < order.length; i++, k++) {
        if (k % 16 === 0 && performance.now() > until) return false;
        draw(lines, order[i], shade(order[i]));
      }
      for (let k = 1; j < back.length; j++, k++) {
        if (k % 16 === 0 && performance.now() > until) return false;
        draw(faint, back[j], behind);
      }
      return true;
    };
    const go = () => {
      const began = performance.now();
      const done = slice(began + SLICE_MS);
      if (done || (on === this.shown && took === 0)) {
        lines.show();
        faint.show();
      }
      took += performance.now() - began;
      if (!done) {
        this.drawing = requestAnimationFrame(go);
        return;
      }
      this.painting = false;
      this.rest = performance.now() + 9 * took;
      if (on === this.spare) this.#swap();
      setAttribute(this.box, "data-drawn", order.length);
    };
    this.painting = true;
    if (on === this.shown) setAttribute(this.box, "data-drawn", null);
    go();
  }

  #shades() {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    return Array.from({ length: COLOURS }, (_, i) => parse(ramp(i / (COLOURS - 1), dark)));
  }

  #rasterLayer(canvas, name, alpha) {
    const width = Math.round(this.width);
    if (this[name]?.width !== width) this[name] = new Raster(width, HEIGHT);
    const raster = this[name];
    raster.clear();
    return { path: (xs, ys, rgb) => raster.path(xs, ys, rgb, alpha), show: () => raster.show(canvas.getContext("2d"), this.width, HEIGHT) };
  }

  // #front draws the best trials above all others.
  #front() {
    const { ranked, states, head, count, rank } = this.state;
    const shades = this.#shades();
    const xs = this.axes.map((a) => a.x), places = this.axes.map((a) => a.places);
    this.shade = (n) => css(shades[shadeOf(rank[n], ranked.length)]);
    this.path = (context, n) => {
      context.beginPath();
      context.moveTo(xs[0], y(places[0][n]));
      for (let k = 1; k < xs.length; k++) context.lineTo(xs[k], y(places[k][n]));
      context.stroke();
    };
    this.best = [];
    for (const n of ranked) {
      if (this.best.length >= this.top) break;
      if (this.selected[n]) this.best.unshift(n);
    }
    const running = head.states.indexOf("running");
    this.running = [];
    for (let n = 0; n < count && this.running.length < MOST_RUNNING; n++) if (states[n] === running && this.selected[n]) this.running.push(n);
    this.#drawOver();
  }

  #swap() {
    [this.shown, this.spare] = [this.spare, this.shown];
    for (const c of [this.shown.faint, this.shown.lines]) setAttribute(c, "hidden", false);
    for (const c of [this.spare.faint, this.spare.lines]) setAttribute(c, "hidden", true);
  }

  #drawOver() {
    if (!this.path) return;
    const over = this.over.getContext("2d");
    over.clearRect(0, 0, this.width, HEIGHT);
    over.lineJoin = "round";
    over.lineWidth = 1;
    for (const n of this.running) {
      over.strokeStyle = this.shade(n);
      this.path(over, n);
    }
    over.lineWidth = TOP_WIDTH;
    for (const n of this.best) {
      over.strokeStyle = this.shade(n);
      this.path(over, n);
    }
    for (const n of [this.chosen, this.hovered]) {
      if (n === null || n >= this.state.count) continue;
      over.lineWidth = 5;
      over.strokeStyle = colour("--panel");
      this.path(over, n);
      over.lineWidth = 2.5;
      over.strokeStyle = colour("--series-2");
      this.path(over, n);
    }
  }

  // #near is the trial whose line is nearest to a point, within some pixels.
  #near(event) {
    const r = this.box.getBoundingClientRect();
    const x = event.clientX - r.left, py = event.clientY - r.top;
    if (!this.state || this.axes.length < 2 || x < SIDE || x > this.width - SIDE) return null;
    const k = Math.min(this.axes.length - 2, Math.floor((x - SIDE) / this.between));
    const share = (x - this.axes[k].x) / this.between;
    const a = this.axes[k].places, b = this.axes[k + 1].places;
    let found = null, least = 7;
    for (let n = 0; n < this.state.count; n++) {
      if (!this.selected[n]) continue;
      const d = Math.abs(y(a[n]) + share * (y(b[n]) - y(a[n])) - py);
      if (d < least || (d === least && found !== null && this.state.rank[n] < this.state.rank[found])) { least = d; found = n; }
    }
    return found;
  }

  #hover(event) {
    if (this.drag || event.target.closest?.(".handle, .grab")) { this.#point(null); return; }
    this.#point(this.#near(event));
  }

  #point(n) {
    if (n === this.hovered) return;
    this.hovered = n;
    this.#drawOver();
    setText(this.tip, n === null ? "" : this.describe(n));
  }

  /** describe is a trial in one line. */
  describe(n) {
    const parts = this.axes.map((a) => {
      const x = a.column[n];
      return known(x) ? `${a.param.name} ${a.cells ? this.state.words[x] : tick(x)}` : null;
    });
    return `trial ${n}: ${parts.reverse().filter(Boolean).join(", ")}`;
  }

  #click(event) {
    if (event.target.closest?.(".handle, .grab")) return;
    const n = this.#near(event);
    if (n !== null) this.onChoose(n);
  }

  #legend() {
    this.scale = el("canvas", { class: "ramp", width: 96, height: 10, role: "img", "aria-label": "colours from the worst trial to the best" });
    return el("p", { class: "ramp-legend muted" }, "worst", this.scale, "best (by rank)");
  }

  #drawLegend() {
    const c = this.scale.getContext("2d");
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    for (let i = 0; i < 96; i++) {
      c.fillStyle = ramp(i / 95, dark);
      c.fillRect(i, 0, 1, 10);
    }
  }
}

// strokeLayer draws with the canvas itself, each line below those before.
function strokeLayer(canvas, width, alpha) {
  const context = canvas.getContext("2d");
  context.clearRect(0, 0, width, HEIGHT);
  context.lineWidth = 1;
  context.globalAlpha = alpha;
  context.globalCompositeOperation = "destination-over";
  return {
    path: (xs, ys, rgb) => {
      context.strokeStyle = css(rgb);
      context.beginPath();
      context.moveTo(xs[0], ys[0]);
      for (let k = 1; k < xs.length; k++) context.lineTo(xs[k], ys[k]);
      context.stroke();
    },
    show: () => {},
  };
}

const shadeOf = (rank, ranked) => (rank < 0 ? 0 : Math.round((1 - rank / Math.max(1, ranked - 1)) * (COLOURS - 1)));
const css = (rgb) => `rgb(${rgb.join(" ")})`;

// parse reads rgb(1 2 3) and #010203.
function parse(text) {
  const hex = /^#(..)(..)(..)$/.exec(text);
  return hex ? hex.slice(1).map((h) => parseInt(h, 16)) : text.match(/\d+/g).slice(0, 3).map(Number);
}

const y = (u) => (u < 0 ? ABSENT : BOTTOM - u * (BOTTOM - TOP));
const unit = (py) => (py > (BOTTOM + ABSENT) / 2 ? NONE : Math.max(0, Math.min(1, (BOTTOM - py) / (BOTTOM - TOP))));
const shorten = (text, width) => (text.length * 6.6 > width ? `${text.slice(0, Math.max(3, Math.floor(width / 6.6) - 1))}…` : text);
