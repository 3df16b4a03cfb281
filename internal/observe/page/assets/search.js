/** The page of a search: what is found so far, which trials run, and why the others ended. */

import { el } from "./dom.js";
import { plural } from "./format.js";
import { hint, shortcut } from "./keys.js";
import { Parallel } from "./parallel.js";
import { SearchCurves } from "./searchcurves.js";
import { SearchState } from "./searchstate.js";
import { SearchSummary } from "./searchsummary.js";
import { SearchTrial, SearchTrials } from "./searchtrials.js";
import { connection, live, phase, section, stale, title } from "./shell.js";
import { openStream } from "./stream.js";

const TOPS = [5, 10, 20, 50];

/** start builds the page of a search and keeps it up to date. */
export function start(page, main) {
  document.head.append(el("link", { rel: "stylesheet", href: "/assets/search.css" }));
  title(page.name, page.host ? `search on ${page.host}` : "search");
  phase("starting");
  new SearchPage(page, main);
}

class SearchPage {
  constructor(page, main) {
    this.state = new SearchState();
    this.page = page;
    this.main = main;
    this.view = { top: 10, chosen: null, numbers: null };
    this.last = Date.now();
    this.over = false;
    this.stream = openStream("/api/events", { on: { state: (d) => this.#whole(d), update: (d) => this.#update(d) }, onConnection: (c) => this.#connected(c) });
  }

  #connected(c) {
    if (this.over) return; // the search has ended, and with it the program that served the page
    connection(c);
  }

  #build() {
    const choose = (n) => this.choose(n);
    this.summary = new SearchSummary(choose);
    this.curves = new SearchCurves(choose);
    this.parallel = new Parallel({ onChoose: choose, onBrush: (numbers) => this.#brushed(numbers) });
    this.trials = new SearchTrials(this.state, choose);
    this.trial = new SearchTrial(() => this.choose(null));
    this.tops = el("select", { id: "top", onchange: (e) => this.#showTop(Number(e.target.value)) }, ...TOPS.map((k) => el("option", { value: k, selected: k === this.view.top }, `top ${k}`)));
    const coordinates = section("coordinates", "Parallel coordinates", { hint: "Drag along an axis to keep the trials that pass there, or move the ends of an axis with the arrow keys." }, this.parallel.element);
    coordinates.querySelector(".panel-head").append(el("label", { class: "top-label muted" }, "highlight ", this.tops));
    this.main.replaceChildren(el("div", { class: "grid" }, this.summary.element, this.curves.element, this.summary.progress, coordinates, this.trials.element, this.trial.element, this.summary.importance, this.summary.machines));
    shortcut("/", "filter trials", () => this.trials.table.find());
    shortcut("s", "sort trials by the next column", () => this.trials.table.nextSort());
    shortcut("b", "the best trial", () => choose(this.state.ranked[0] ?? null));
    shortcut("x", "clear the brushes", () => this.parallel.reset());
    shortcut("Escape", "close the trial", () => choose(null));
    hint("↑ ↓", "on an end of an axis: move it; Shift or Page for more, Home and End for all of it");
    hint("Enter", "in the table: choose a trial");
  }

  #whole(data) {
    const began = performance.now();
    this.state.whole(data);
    if (!this.summary) this.#build();
    this.parallel.update(this.state);
    this.#show(began);
  }

  #update(data) {
    if (!this.summary) return;
    const began = performance.now();
    const columns = this.state.now.metric;
    const changed = this.state.update(data);
    if (changed.length > 0 || columns !== data.metric) this.parallel.update(this.state);
    this.#show(began);
  }

  #show(began) {
    const { now, head } = this.state;
    const kind = now.over ? (now.halted ? "warn" : "good") : "info";
    phase(now.over ? "ended" : now.halted ? "ending" : "running", kind);
    title(head.name, [`search for the ${now.larger ? "largest" : "smallest"} ${now.metric || "value"}${now.further}`, short(head.suggester), short(head.scheduler), plural(head.params.length, "parameter"), now.halted && `ended by: ${now.halted}`, now.missed].filter(Boolean).join(" · "));
    stale(false);
    this.#views();
    if (now.over) {
      this.over = true;
      this.stream?.close();
      live("", "the search is over");
    } else {
      live("good", "live");
    }
    document.documentElement.dataset.updateMs = (performance.now() - began).toFixed(1); // a test reads it
    document.documentElement.dataset.updates = Number(document.documentElement.dataset.updates ?? 0) + 1;
  }

  #views() {
    this.summary.update(this.state);
    this.curves.update(this.state, this.view);
    this.trials.update(this.view);
    this.trial.show(this.state, this.view.chosen);
  }

  #brushed(numbers) {
    const began = performance.now();
    this.view.numbers = numbers;
    this.curves.update(this.state, this.view);
    this.trials.update(this.view);
    document.documentElement.dataset.brushMs = (performance.now() - began).toFixed(1);
  }

  #showTop(k) {
    this.view.top = k;
    this.parallel.showTop(k);
    this.curves.update(this.state, this.view);
  }

  /** choose shows a trial everywhere on the page; null: none. */
  choose(n) {
    if (n === null && this.view.chosen === null) return;
    this.view.chosen = n;
    this.parallel.highlight(n);
    this.curves.update(this.state, this.view);
    this.trials.update(this.view);
    this.trial.show(this.state, n);
    if (n !== null) this.trial.element.scrollIntoView({ block: "nearest" });
  }
}

/** short is the last part of a Go type: *schedule.ASHA is ASHA. */
const short = (type) => type.split(".").at(-1);
