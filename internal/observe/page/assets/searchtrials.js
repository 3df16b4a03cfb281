/** The table of all trials, and what is known of the one that was chosen. */

import { el, setAttribute, setText } from "./dom.js";
import { known, long, size, span, UNKNOWN } from "./format.js";
import { figure, noteText, whyStopped } from "./searchformat.js";
import { STATE_KINDS } from "./searchstate.js";
import { section } from "./shell.js";
import { StepChart, WHOLE } from "./stepchart.js";
import { Table } from "./table.js";
import { colour } from "./theme.js";

const MAX_PARAMS = 6; // that have a column; the others are in the details

export class SearchTrials {
  constructor(state, onChoose) {
    this.state = state;
    this.onChoose = onChoose;
    this.numbers = null;
    this.chosen = null;
    const s = state;
    const column = (name) => (row) => s.columns[name][row.n];
    const params = s.head.params.slice(0, MAX_PARAMS).map((p, i) => ({
      id: `param-${i}`, title: p.name, numeric: !p.choices, narrow: i < 2 ? "middle" : "hide", value: (row) => s.params[i][row.n] ?? null, text: (row) => s.param(i, row.n, figure),
    }));
    this.table = new Table({
      id: "trials", title: "trials", what: "trial", key: (row) => row.n, pageSize: 16, sort: "value", empty: "no trial has begun",
      search: (row) => `${row.n} ${s.state(row.n)} ${s.word("location", row.n)} ${whyStopped(s, row.n)} ${s.head.params.map((p, i) => `${p.name}=${s.param(i, row.n, figure)}`).join(" ")}`,
      rowClass: (row) => (row.n === this.chosen ? "selected" : ""),
      columns: [
        { id: "trial", title: "Trial", value: (row) => row.n, text: (row) => String(row.n) },
        { id: "state", title: "State", value: (row) => s.states[row.n], draw: (cell, row) => badge(cell, s.state(row.n)) },
        { id: "value", title: s.now.metric || "value", numeric: true, value: (row) => (s.rank[row.n] < 0 ? null : s.rank[row.n]), text: (row) => figure(s.columns.value[row.n]) + (s.columns.violation[row.n] > 0 ? " (violates)" : ""), help: "the best first" },
        ...params,
        { id: "step", title: "Step", numeric: true, first: -1, value: column("step"), text: (row) => s.columns.step[row.n] ?? UNKNOWN, narrow: "middle" },
        { id: "time", title: "Trained", numeric: true, first: -1, value: column("trained_seconds"), text: (row) => span(s.columns.trained_seconds[row.n] || null), narrow: "hide" },
        { id: "attempts", title: "Attempts", numeric: true, first: -1, value: column("attempts"), text: (row) => s.columns.attempts[row.n], narrow: "hide" },
        { id: "where", title: "Host", value: column("location"), text: (row) => s.word("location", row.n) || UNKNOWN, narrow: "hide" },
        { id: "why", title: "Why it ended", value: (row) => { const r = s.columns.failure[row.n] >= 0 ? s.columns.failure[row.n] : s.columns.rule[row.n]; return r < 0 ? null : r; }, text: (row) => whyStopped(s, row.n), tip: true, narrow: "middle" },
      ],
    });
    this.table.body.addEventListener("click", (e) => this.#choose(e.target.closest("tr[tabindex]")));
    this.table.body.addEventListener("keydown", (e) => { if ((e.key === "Enter" || e.key === " ") && e.target.matches("tr[tabindex]")) this.#choose(e.target); });
    this.hint = el("p", { class: "hint" });
    this.element = section("trials", "Trials", {}, this.table.element);
    this.element.querySelector(".panel-head").append(this.hint);
  }

  #choose(row) {
    if (row?.row && String(getSelection()) === "") this.onChoose(row.row.n);
  }

  /** update shows the trials, or those that a brush left. */
  update({ chosen, numbers }) {
    this.chosen = chosen;
    const s = this.state;
    const value = this.table.columns.findIndex((c) => c.id === "value");
    setText(this.table.heads[value].firstChild, s.now.metric || "value");
    const rows = [];
    if (numbers) for (const n of numbers) rows.push({ n });
    else for (let n = 0; n < s.count; n++) rows.push({ n });
    setText(this.hint, numbers ? "those that pass the brushes above" : "choose one with a click or Enter");
    this.table.update(rows);
  }
}

function badge(cell, state) {
  const b = cell.firstElementChild ?? cell.appendChild(el("span", {}));
  setAttribute(b, "class", `badge ${STATE_KINDS[state] ?? ""} state-${state}`);
  setText(b, state);
}

export class SearchTrial {
  constructor(onClose) {
    this.number = null;
    this.known = -1;
    this.chart = new StepChart({ title: "metrics of the trial", x: "step", height: 220, incrs: WHOLE });
    this.metric = el("select", { "aria-label": "metric", onchange: () => this.#curve() });
    this.close = el("button", { type: "button", class: "quiet", onclick: onClose }, "Close");
    this.facts = el("dl", { class: "facts" });
    this.error = el("pre", { class: "mono error", tabindex: 0, "aria-label": "error" });
    this.history = el("ol", { class: "history" });
    this.element = section("trial", "Trial", {}, el("div", { class: "trial-body" },
      el("div", {}, this.facts, this.error, el("h3", {}, "What happened"), this.history), el("div", {}, this.metric, this.chart.element)));
    this.element.querySelector(".panel-head").append(this.close);
    setAttribute(this.element, "hidden", true);
  }

  /** show shows a trial, or none. */
  show(state, number) {
    this.state = state;
    setAttribute(this.element, "hidden", number === null);
    if (number !== this.number) this.known = -1;
    this.number = number;
    if (number === null) return;
    setText(this.element.querySelector("h2"), `Trial ${number}: ${state.state(number)}`);
    const mark = state.columns.reports[number] + 1e6 * state.states[number] + 1e8 * state.columns.attempts[number];
    if (mark !== this.known) {
      this.known = mark;
      this.#fetch(number, mark);
    }
  }

  async #fetch(number, mark) {
    try {
      const answer = await fetch(`/api/search/trial?id=${number}`, { cache: "no-store" });
      if (!answer.ok) throw new Error(`answered ${answer.status}`);
      const detail = await answer.json();
      if (this.number === number) this.#fill(detail);
    } catch {
      if (this.known === mark) this.known = -1; // the next update asks again
    }
  }

  #fill(d) {
    const { state } = this;
    const n = d.trial;
    const facts = [[state.now.metric || "value", figure(state.columns.value[n])]];
    const why = whyStopped(state, n);
    if (why) facts.push(["why it ended", why]);
    facts.push(["parameters from", d.origin]);
    const f = d.metrics[0]?.forecast;
    if (f && !why) facts.push([`expected at step ${f.step}`, `${figure(f.mean)} (80 %: ${figure(f.low)} to ${figure(f.high)})`]);
    if (d.location) facts.push(["host", d.location]);
    if (known(state.columns.trained_seconds[n])) facts.push(["trained for", span(state.columns.trained_seconds[n])]);
    for (const p of d.params) facts.push([p.name, p.value]);
    if (d.checkpoints.length) facts.push(["checkpoints", d.checkpoints.map((c) => `step ${c.step} (${size(c.bytes)})`).join(", ")]);
    this.facts.replaceChildren(...facts.map(([k, v]) => el("div", { class: String(v).length > 60 ? "wide" : "" }, el("dt", {}, k), el("dd", { class: "mono" }, v))));
    setText(this.error, d.error);
    setAttribute(this.error, "hidden", d.error === "");
    const notes = d.history.map((note) => el("li", {}, el("span", { class: "muted mono" }, long(note.at_seconds)), el("span", {}, noteText(note, state.now.metric))));
    if (d.earlier > 0) notes.unshift(el("li", { class: "muted" }, `${d.earlier} earlier notes are not kept`));
    this.history.replaceChildren(...notes);
    const before = this.metric.value;
    this.metric.replaceChildren(...d.metrics.map((c) => el("option", { value: c.metric }, c.metric)));
    if (d.metrics.some((c) => c.metric === before)) this.metric.value = before;
    setAttribute(this.metric, "hidden", d.metrics.length < 2);
    this.metrics = d.metrics;
    this.#curve();
  }

  #curve() {
    const c = this.metrics?.find((m) => m.metric === this.metric.value);
    const xs = [], ys = [];
    (c?.step ?? []).forEach((x, i) => { if (known(c.value[i])) { xs.push(x); ys.push(c.value[i]); } });
    const mark = this.number !== null && this.state.state(this.number) === "pruned" ? whyStopped(this.state, this.number) : "";
    const forecast = c?.forecast ? { ...c.forecast, shown: true, band: true } : null;
    this.chart.update(c ? [{ id: c.metric, label: c.metric, xs, ys, tone: "--accent", colour: () => colour("--accent"), width: 2, forecast, mark }] : []);
  }
}
