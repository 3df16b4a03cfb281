/** What is known of a search: columns of trials by number, put together from the state and its updates; and the ranking. */

import { known } from "./format.js";

const COLUMNS = ["value", "violation", "best_step", "step", "reports", "attempts", "started_seconds", "ended_seconds", "trained_seconds", "location", "replicas",
  "rule", "failure", "stop_step", "stop_value", "stop_bound"];

/** The states of trials as classes of the style sheet. */
export const STATE_KINDS = { running: "info", pending: "", paused: "warn", completed: "good", pruned: "", failed: "bad", stopped: "warn" };

export class SearchState {
  constructor() {
    this.head = null; // what does not change: name, states, params
    this.now = {}; // what each update replaces
    this.words = [];
    this.count = 0;
    this.columns = {};
    this.states = []; // indices of head.states
    this.progress = { at_seconds: [], value: [], trial: [] };
    this.ranked = []; // numbers of trials that have a value, the best first; those that violate constraints last
    this.rank = new Int32Array(0); // by number, from 0; -1: no value
  }

  /** whole takes a state in place of all that was known. */
  whole(state) {
    this.head = { name: state.name, scheduler: state.scheduler, suggester: state.suggester, states: state.states, params: state.params ?? [] };
    this.words = state.words ?? [];
    this.now = state;
    this.count = state.trials.count;
    this.states = digits(state.trials.state);
    for (const c of COLUMNS) this.columns[c] = state.trials[c] ?? [];
    this.params = (state.trials.params ?? []).map((c) => c ?? []);
    this.progress = pick(state.progress);
    this.#order();
    return range(this.count);
  }

  /** update takes what changed, and returns the numbers of the trials that did. */
  update(u) {
    this.now = u;
    this.words.length = u.words_before;
    this.words.push(...(u.words ?? []));
    const t = u.trials;
    const numbers = t.number ?? [];
    this.count = t.count;
    const states = digits(t.state);
    numbers.forEach((n, i) => {
      this.states[n] = states[i];
      for (const c of COLUMNS) this.columns[c][n] = t[c][i];
      this.params.forEach((column, p) => { column[n] = t.params[p][i]; });
    });
    const p = pick(u.progress);
    for (const name of Object.keys(this.progress)) {
      this.progress[name].length = u.progress.before;
      this.progress[name].push(...p[name]);
    }
    if (numbers.length > 0) this.#order();
    return numbers;
  }

  /** state is the name of a trial's state. */
  state(n) { return this.head.states[this.states[n]]; }

  /** word is a text of a column of indices. */
  word(column, n) { return this.words[this.columns[column][n]] ?? ""; }

  /** counts are how many trials are in each state. */
  counts() {
    const counts = new Array(this.head.states.length).fill(0);
    for (const s of this.states) counts[s]++;
    return counts;
  }

  /** param is a parameter's value as people read it; "" if the trial does not have it. */
  param(p, n, number) {
    const x = this.params[p][n];
    if (!known(x)) return "";
    return this.head.params[p].choices ? this.words[x] ?? "" : number(x);
  }

  #order() {
    const value = this.columns.value, violation = this.columns.violation;
    const sign = this.now.larger ? -1 : 1;
    this.ranked = range(this.count).filter((n) => known(value[n]));
    this.ranked.sort((a, b) => violation[a] - violation[b] || sign * (value[a] - value[b]) || a - b);
    this.rank = new Int32Array(this.count).fill(-1);
    this.ranked.forEach((n, i) => { this.rank[n] = i; });
  }
}

const digits = (text) => Array.from(text, (c) => c.charCodeAt(0) - 48);

export const range = (n) => Array.from({ length: n }, (_, i) => i);

const pick = (p) => ({ at_seconds: p.at_seconds ?? [], value: p.value ?? [], trial: p.trial ?? [] });
