/** What happened to hosts and processes, the newest first. */

import { el, reconcile, setAttribute, setText } from "./dom.js";
import { clock, whole } from "./format.js";
import { section } from "./shell.js";

const KINDS = { LOST: "bad", FAILED: "bad", ADDED: "good", LEFT: "", REMOVED: "" };

export class Events {
  constructor() {
    this.list = el("ol", { class: "events", reversed: true });
    this.empty = el("p", { class: "empty" }, "nothing yet: no host or process has come, gone or failed");
    this.changes = el("p", { class: "hint" });
    this.elements = [section("events", "Events", { columns: 12 }, this.changes, el("div", { class: "events-box", tabindex: 0, role: "log", "aria-label": "Events, the newest first" }, this.list), this.empty)];
  }

  update({ events, job, since }) {
    const counted = Object.entries(job.changes).filter(([, n]) => n > 0).map(([how, n]) => `${whole(n)} ${how}`);
    setText(this.changes, counted.length ? `Members since ${clock(since)}: ${counted.join(", ")}.` : "");
    setAttribute(this.empty, "hidden", events.length > 0);
    setAttribute(this.list.parentNode, "hidden", events.length === 0);
    reconcile(this.list, [...events].reverse(), (e) => e.number, make, () => {});
  }
}

function make(event) {
  const text = event.text.startsWith(`${event.action} `) ? event.text.slice(event.action.length + 1) : event.text;
  const badge = el("span", { class: "badge" });
  setAttribute(badge, "class", `badge ${KINDS[event.action] ?? "info"}`);
  setText(badge, event.action.toLowerCase().replaceAll("_", " "));
  return el("li", {}, el("time", { class: "numeric muted", datetime: new Date(event.time_ms).toISOString() }, clock(event.time_ms)), badge, el("span", {}, text === event.action ? "" : text));
}
