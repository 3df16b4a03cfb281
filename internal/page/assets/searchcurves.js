/** Learning curves: those of the best trials in colour, some others faint behind them. They are fetched when they are shown. */

import { el } from "./dom.js";
import { known, plural } from "./format.js";
import { figure } from "./searchformat.js";
import { section } from "./shell.js";
import { StepChart, WHOLE } from "./stepchart.js";
import { colour } from "./theme.js";

const MOST = 60; // curves that are shown; the server sends 64 at once
const COLOURS = 8;

export class SearchCurves {
  constructor(onChoose) {
    this.chart = new StepChart({ title: "learning curves of trials", x: "step", height: 270, incrs: WHOLE, onChoose });
    this.curves = new Map(); // by trial: {reports, xs, ys}
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
    for (let i = 0; i < rest.length && wanted.length < MOST - 1; i += every) wanted.push(rest[Math.floor(i)]);
    if (this.chosen !== null && this.chosen < count && columns.reports[this.chosen] > 0 && !wanted.includes(this.chosen)) wanted.push(this.chosen);
    this.of = list.length;
    return wanted;
  }

  #show() {
    const wanted = this.#wanted();
    this.hint.textContent = this.of === 0 ? "" : `The best ${Math.min(this.top, this.of)} in colour${wanted.length < this.of ? `, ${wanted.length} of ${plural(this.of, "trial")} in all` : ""}. Click a curve to see its trial.`;
    const curves = [];
    wanted.forEach((n, i) => {
      const c = this.curves.get(n);
      if (!c) return;
      const best = i < this.top && this.state.rank[n] >= 0, chosen = n === this.chosen;
      const tone = chosen ? "--text" : best ? `--series-${(i % COLOURS) + 1}` : "--rest";
      curves.push({
        id: n, label: `trial ${n} (${figure(this.state.columns.value[n])})`, xs: c.xs, ys: c.ys, tone, colour: () => colour(tone),
        width: chosen ? 3 : best ? (i < 3 ? 2.25 : 1.5) : 1, alpha: chosen || best ? 1 : 0.55, first: chosen ? 2 : best ? 1 : 0,
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
        this.curves.set(c.trial, { reports: asked.get(c.trial), xs, ys });
      }
      this.#show();
    } catch {
      // The server is not there: the stream says so, and the next update asks again.
    } finally {
      this.asking = false;
    }
  }
}
