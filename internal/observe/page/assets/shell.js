/** What all pages have: the header with the state of the connection, notices below it, and sections. */

import { byId, el, reconcile, setAttribute, setText } from "./dom.js";
import { clock } from "./format.js";

/** section is a panel with a heading. Its width is of twelve columns on a wide screen, all of them on a narrow one. */
export function section(id, title, { columns = 12, hint = "" }, ...children) {
  const heading = el("h2", { id: `${id}-title` }, title);
  const head = el("div", { class: "panel-head" }, heading, hint && el("p", { class: "hint" }, hint));
  return el("section", { id, class: `panel columns-${columns}`, "aria-labelledby": `${id}-title`, tabindex: -1 }, head, ...children);
}

/** phase shows the phase of the job or the search in the header. */
export function phase(text, kind = "") {
  setText(byId("phase"), text);
  setAttribute(byId("phase"), "class", `pill ${kind}`);
}

/** title names what the page shows. */
export function title(name, detail) {
  setText(byId("name"), name);
  setText(byId("detail"), detail);
  document.title = `${name} – Paragon`;
}

/** live says in the header how new the numbers are; kind is good, warn or bad. */
export function live(kind, text) {
  setAttribute(byId("live"), "class", `live ${kind}`);
  setText(byId("live-text"), text);
}

const notices = new Map();

/** notice shows a sentence on top of the page until it is taken away by an empty one. Screen readers say it. */
export function notice(id, kind = "warn", text = "") {
  if (text === "") notices.delete(id);
  else notices.set(id, { id, kind, text });
  reconcile(byId("notices"), [...notices.values()], (n) => n.id, () => el("p", {}), (node, n) => {
    setAttribute(node, "class", `notice ${n.kind}`);
    setText(node, n.text);
  });
}

/** stale draws the page fainter while its numbers are those of another time. */
export function stale(on) {
  document.body.classList.toggle("stale", on);
}

/** connection shows what openStream says of the connection to launch. */
export function connection({ connected, refused, since }) {
  if (connected) {
    notice("connection");
    return;
  }
  stale(true);
  if (refused) {
    live("bad", "signed out");
    notice("connection", "bad", "This browser has no session here, or it has ended. For a job, “launch ctl page” prints a new link.");
    return;
  }
  live("bad", "no connection");
  notice("connection", "bad", `No connection to launch since ${clock(since)}. The numbers are from that time. Trying again.`);
}
