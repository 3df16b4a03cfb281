/** Who waits for whom, in sentences: the slow workers, then what waits at the scheduler. */

import { el, reconcile, setAttribute, setText } from "./dom.js";
import { plural, span } from "./format.js";
import { section } from "./shell.js";

export class Waits {
  constructor() {
    this.slow = el("ul", { class: "sentences", role: "status" });
    this.waits = el("ul", { class: "waits" });
    this.elements = [section("waits", "Who waits for whom", { columns: 12 }, this.slow, this.waits)];
  }

  update({ slow, waits, moreWaits, behind, job, leftOut }) {
    const sentences = slow.map((s) => ({ key: s.node, kind: "warn", ...split(s.text) }));
    if (slow.length === 0 && behind.length === 0) {
      sentences.push({ key: "none", kind: "good", head: job.workers > 1 ? "No worker makes the others wait." : "There is no other worker to wait for.", rest: "" });
    }
    if (slow.length === 0 && behind.length > 0) {
      sentences.push({ key: "some", kind: "good", head: "No worker is slow.", rest: " At this moment these have not finished the newest step:" });
    }
    for (const text of behind) sentences.push({ key: text, kind: "info", head: text, rest: "" });
    if (leftOut > 0) sentences.push({ key: "left out", kind: "info", head: `${plural(leftOut, "more process")} did not fit and are not shown.`, rest: "" });
    reconcile(this.slow, sentences, (s) => s.key, () => el("li", {}, el("strong", {}), el("span", {})), (node, s) => {
      setAttribute(node, "class", s.kind);
      setText(node.firstChild, s.head);
      setText(node.lastChild, s.rest);
    });
    const lines = waits.map((w) => ({ key: `${w.who} ${w.at} ${w.for}`, text: `${w.who} waits for ${w.for}`, more: `${span(w.seconds)} at ${w.at}` }));
    if (moreWaits > 0) lines.push({ key: "more", text: `and ${plural(moreWaits, "more wait")}`, more: "" });
    reconcile(this.waits, lines, (l) => l.key, () => el("li", {}, el("span", {}), " ", el("span", { class: "muted numeric" })), (node, l) => {
      setText(node.firstChild, l.text);
      setText(node.lastChild, l.more);
    });
    setAttribute(this.waits, "hidden", lines.length === 0);
  }
}

/** split divides "worker 3 on h2 is slow: last in 94 % ..." so that its beginning can be set in bold. */
function split(text) {
  const end = text.endsWith(".") ? "" : ".";
  const at = text.indexOf(" is slow: ");
  if (at < 0) return { head: text + end, rest: "" };
  return { head: `${text.slice(0, at)} is slow:`, rest: ` ${text.slice(at + " is slow: ".length)}${end}` };
}
