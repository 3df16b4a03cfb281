/**
 * Learning curves: those of the best trials in colour, some others faint behind them. They are fetched when they are shown. Where a rule predicts how trials end, a
 * dashed line goes on to the predicted end: of those that run, and of the one that is chosen or that the pointer is at.
 */

import { el } from "./dom.js";
import { known, plural } from "./format.js";
import { figure, whyStopped } from "./searchformat.js";
import { section } from "./shell.js";
import { StepChart, WHOLE } from "./stepchart.js";
import { colour } from "./theme.js";

const MOST = 60; // curves that are shown; the server sends 64 at once
const COLOURS = 8;
const RUNNING = 12; // the best running trials are shown, whatever their rank
const BANDS = 8; // with more forecasts than this, bands are drawn only of the chosen trial and at the pointer

export class SearchCurves {
  constructor(onChoose) {
    this.chart = new StepChart({ title: "learning curves of trials", x: "step", height: 270, incrs: WHOLE, onChoose });
    this.curves = new Map(); // by trial: {reports, xs, ys, forecast}
    this.asking = false;
    this.hint = el("p", { class: "hint" });
    this.element = section("curves", "Learning curves", { columns: 7 }, this.hint, this.chart.element);
    Object.assign(this, { state: null, top: 10, chosen: null, numbers: null });
  }

  /** update shows the state; numbers are the trials that a brush left, or null. */
  update(state, { top, chosen, numbers }) {
    Object.assign(this, { state, top, chosen, numbers });
    this.#show();
    this.#fetch();
  }

  // #wanted are the trials to show, the best first: the best, the chosen one, and others spread over the ranking.
  #wanted() {
    const { ranked, columns, count } = this.state;
    const left = this.numbers && new Set(this.numbers);
    const list = left ? ranked.filter((n) => left.has(n)) : ranked;
    const wanted = list.slice(0, this.top);
    const rest = list.slice(this.top);
    const room = MOST - wanted.length - 1;
    const every = Math.max(1, rest.length / room);
    const has = new Set(wanted);
    const add = (n) => { if (!has.has(n)) { has.add(n); wanted.push(n); } };
    for (const n of rest.filter((n) => this.state.state(n) === "running").slice(0, RUNNING)) add(n);
    for (let i = 0; i < rest.length && wanted.length < MOST - 1; i += every) add(rest[Math.floor(i)]);
    if (this.chosen !== null && this.chosen < count && columns.reports[this.chosen] > 0 && !wanted.includes(this.chosen)) wanted.push(this.chosen);
    this.of = list.length;
    return wanted;
  }

  #show() {
    const wanted = this.#wanted();
    const running = (n) => this.state.state(n) === "running";
    const foretold = wanted.filter((n) => running(n) && this.curves.get(n)?.forecast);
    this.hint.textContent = this.of === 0 ? "" : `The best ${Math.min(this.top, this.of)} in colour${wanted.length < this.of ? `, ${wanted.length} of ${plural(this.of, "trial")} in all` : ""}. Click a curve to see its trial.`
      + (foretold.length > 0 ? ` Dashed: expected ends of running trials${foretold.length <= BANDS ? ", with 80 % bands" : ""}.` : "");
    const curves = [];
    wanted.forEach((n, i) => {
      const c = this.curves.get(n);
      if (!c) return;
      const best = i < this.top && this.state.rank[n] >= 0, chosen = n === this.chosen;
      const runs = running(n), shown = runs || chosen, ahead = runs && Boolean(c.forecast);
      const tone = chosen ? "--text" : best ? `--series-${(i % COLOURS) + 1}` : ahead ? "--accent" : "--rest";
      const forecast = c.forecast && this.state.state(n) !== "completed" ? { ...c.forecast, shown, band: chosen || (runs && foretold.length <= BANDS) } : null;
      curves.push({
        id: n, label: `trial ${n} (${figure(this.state.columns.value[n])})`, xs: c.xs, ys: c.ys, tone, colour: () => colour(tone),
        width: chosen ? 3 : best ? (i < 3 ? 2.25 : 1.5) : ahead ? 1.5 : 1, alpha: chosen || best || ahead ? 1 : 0.55, first: chosen ? 3 : best ? 2 : ahead ? 1 : 0,
        forecast, mark: this.state.state(n) === "pruned" ? whyStopped(this.state, n) : "",
      });
    });
    curves.sort((a, b) => b.first - a.first);
    this.chart.update(curves);
  }

  async #fetch() {
    if (this.asking) return;
    const reports = this.state.columns.reports;
    const missing = this.#wanted().filter((n) => (this.curves.get(n)?.reports ?? 0) !== reports[n]);
    if (missing.length === 0) return;
    const asked = new Map(missing.map((n) => [n, reports[n]]));
    this.asking = true;
    try {
      const answer = await fetch(`/api/search/curves?id=${missing.join(",")}`, { cache: "no-store" });
      if (!answer.ok) return;
      for (const c of (await answer.json()).curves) {
        const xs = [], ys = [];
        (c.step ?? []).forEach((s, i) => { if (known(c.value[i])) { xs.push(s); ys.push(c.value[i]); } });
        this.curves.set(c.trial, { reports: asked.get(c.trial), xs, ys, forecast: c.forecast ?? null });
      }
      this.#show();
    } catch {
      // The server is not there: the stream says so, and the next update asks again.
    } finally {
      this.asking = false;
    }
  }
}
