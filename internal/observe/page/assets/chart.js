/** Curves over time, drawn by uPlot. All charts of a page share the cursor. */

import { el, setAttribute, setStyle, setText } from "./dom.js";
import { clock, known, UNKNOWN } from "./format.js";
import { colour, onTheme } from "./theme.js";

const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
const HEIGHT = 168;
const MINUTE = 60, HOUR = 3600, DAY = 86400;
// Seconds between the marks of the axis of time: no less than 1, since values come once a second.
const INCRS = [1, 2, 5, 10, 15, 30, ...[1, 2, 5, 10, 15, 30].map((m) => m * MINUTE), ...[1, 2, 3, 6, 12].map((h) => h * HOUR), ...[1, 2, 7, 14, 28].map((d) => d * DAY)];
const sync = () => uPlot.sync("time");

/**
 * A Chart has a heading, a legend with the values at the cursor (else the newest ones) and the curves. The arrow keys move the cursor.
 *
 * Each of series has a label and a colour, the name of a custom property; and dash, or sparse where values are few and far between. stacked adds the
 * series up and fills them. unit writes a value, tick one at the axis; incrs are the distances between the marks of that axis that may be chosen.
 */
export class Chart {
  constructor({ title, series, unit, tick = unit, stacked = false, zero = stacked, top = null, height = HEIGHT, incrs = undefined }) {
    Object.assign(this, { series, unit, tick, stacked, zero, top, height, incrs, xs: [], columns: series.map(() => []), plot: null, zoomed: false });
    this.legend = series.map((s) => this.#legendItem(s));
    this.said = el("span", { class: "visually-hidden", "aria-live": "polite" });
    this.area = el("div", { class: "plot", tabindex: 0, role: "img", "aria-label": title, onkeydown: (e) => this.#pressed(e), onblur: () => this.#point(null) });
    this.empty = el("p", { class: "empty" }, "no values yet");
    this.title = title;
    this.element = el("figure", { class: "chart" },
      el("figcaption", {}, el("h3", {}, title), el("ul", { class: "legend" }, ...this.legend.map((l) => l.item))), this.area, this.empty, this.said);
    new ResizeObserver(() => this.#resize()).observe(this.area);
    onTheme(() => this.plot?.redraw(false));
  }

  /** update shows columns[i][j], the value of series i at Unix milliseconds xs[j]. Unknown values are null and leave a gap. */
  update(xs, columns, labels = null) {
    this.xs = xs;
    this.columns = columns;
    if (labels) this.legend.forEach((l, i) => setText(l.label, labels[i] ?? ""));
    const any = xs.length > 1 && columns.some((c) => c.some(known)); // one point makes no curve
    setAttribute(this.empty, "hidden", any);
    columns.forEach((c, i) => setAttribute(this.legend[i].item, "hidden", (any && !c.some(known)) || labels?.[i] === ""));
    if (this.plot) this.plot.setData(this.#data(), !this.zoomed);
    else this.#resize();
    this.#values();
  }

  #legendItem(s) {
    const label = el("span", { class: "legend-label" }, s.label);
    const value = el("span", { class: "legend-value numeric" }, UNKNOWN);
    const mark = el("span", { class: `mark${s.dash ? " dashed" : ""}` });
    setStyle(mark, "--mark", `var(${s.colour})`);
    return { label, value, item: el("li", {}, mark, label, value) };
  }

  // uPlot takes seconds. Stacked series are drawn from the highest sum to the lowest, each over the one before.
  #data() {
    const xs = this.xs.map((x) => x / 1000);
    if (!this.stacked) return [xs, ...this.columns];
    const sums = [];
    const sum = new Array(xs.length).fill(0);
    for (const column of this.columns) {
      sums.unshift(column.map((y, i) => (known(y) ? (sum[i] += y) : null)));
    }
    return [xs, ...sums];
  }

  #resize() {
    const width = Math.floor(this.area.clientWidth);
    if (width === 0) return;
    if (this.plot) this.plot.setSize({ width, height: this.height });
    else if (this.xs.length > 1) this.plot = new uPlot(this.#options(width), this.#data(), this.area);
  }

  #options(width) {
    const drawn = this.stacked ? [...this.series].reverse() : this.series;
    const axis = { stroke: () => colour("--muted"), font: FONT, ticks: { show: false }, grid: { stroke: () => colour("--line"), width: 1 } };
    return {
      width,
      height: this.height,
      padding: [8, 26, 0, 0], // half a time fits to the right of the last mark
      legend: { show: false },
      cursor: { y: false, sync: { key: sync().key }, points: { size: 6 }, drag: { x: true, y: false } },
      scales: { y: { range: (_, low, high) => this.#range(low, high) } },
      axes: [
        { ...axis, space: 64, size: 26, incrs: INCRS, values: (_, splits) => this.#times(splits) },
        { ...axis, size: (_, texts) => axisSize(texts), space: 34, incrs: this.incrs, values: (_, splits) => splits.map((y) => this.tick(y)) },
      ],
      series: [{}, ...drawn.map((s) => ({
        stroke: () => colour(s.colour),
        fill: this.stacked ? () => colour(s.colour) : undefined,
        width: this.stacked ? 0 : 1.75,
        dash: s.dash,
        spanGaps: Boolean(s.sparse),
        points: { show: (u, i) => Boolean(s.sparse) && u.data[i].filter(known).length < u.width / 16, size: 5, fill: () => colour(s.colour) },
      }))],
      hooks: {
        setCursor: [() => this.#values()],
        setSelect: [(u) => { if (u.select.width > 0) this.zoomed = true; }],
        ready: [(u) => u.over.addEventListener("dblclick", () => { this.zoomed = false; })],
      },
    };
  }

  #range(low, high) {
    if (!known(low) || !known(high)) return [0, this.top ?? 1];
    if (this.zero) low = Math.min(0, low);
    if (this.top !== null) high = this.top;
    const room = (high - low || Math.abs(high) || 1) * 0.06;
    return [this.zero && low === 0 ? 0 : low - room, high + room];
  }

  #times(splits) {
    const seconds = splits.length > 1 && splits[1] - splits[0] < 60;
    return splits.map((t) => clock(1000 * t).slice(0, seconds ? 8 : 5));
  }

  // The legend has the values at the cursor.
  #values() {
    const at = this.plot?.cursor.idx ?? null;
    this.columns.forEach((column, i) => {
      let j = at ?? column.length - 1;
      if (at === null) while (j > 0 && !known(column[j])) j--;
      setText(this.legend[i].value, this.unit(column[j] ?? null));
    });
  }

  #pressed(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity }[event.key];
    if (event.key === "Escape") this.#point(null);
    if (step === undefined || !this.plot) return;
    event.preventDefault();
    const last = this.xs.length - 1;
    const at = this.plot.cursor.idx ?? last;
    this.#point(Math.max(0, Math.min(last, at + step)));
  }

  #point(index) {
    if (!this.plot) return;
    if (index === null) {
      this.plot.setCursor({ left: -10, top: -10 });
      return;
    }
    this.plot.setCursor({ left: this.plot.valToPos(this.xs[index] / 1000, "x"), top: 0 });
    const values = this.legend.filter((l) => !l.item.hidden).map((l) => `${l.label.textContent} ${l.value.textContent}`);
    setText(this.said, `${clock(this.xs[index])}: ${values.join(", ")}`);
  }
}

/** axisSize is the width of an axis in pixels that has room for its texts. */
function axisSize(texts) {
  const longest = Math.max(3, ...(texts ?? []).map((t) => t.length));
  return Math.ceil(16 + 6.4 * longest);
}
