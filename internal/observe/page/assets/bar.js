/** Bars in cells of tables. */

import { el, setAttribute, setStyle, setText } from "./dom.js";
import { known, span, UNKNOWN } from "./format.js";
import { PARTS } from "./theme.js";

/** partsOf divides a step's time into its parts; what is left is "rest". */
export function partsOf(step) {
  let left = step.step_seconds;
  return PARTS.map((part) => {
    const seconds = part.field ? step[part.field] : Math.max(0, left);
    if (!known(seconds)) return { ...part, seconds: 0 };
    left -= seconds;
    return { ...part, seconds };
  });
}

/** drawParts shows a step in a cell as a stacked bar, as wide as the cell, with its parts as text for those who do not see it. */
export function drawParts(cell, step) {
  if (!cell.bar) {
    cell.bar = el("span", { class: "bar", role: "img" }, ...PARTS.map((p) => el("span", { class: p.id })));
    cell.append(cell.bar);
  }
  const whole = step.step_seconds;
  const parts = known(whole) && whole > 0 ? partsOf(step) : [];
  const sum = Math.max(whole, parts.reduce((s, p) => s + p.seconds, 0));
  [...cell.bar.children].forEach((node, i) => setStyle(node, "width", parts.length ? `${((100 * parts[i].seconds) / sum).toFixed(1)}%` : "0"));
  const text = parts.filter((p) => p.seconds > 0).map((p) => `${p.title} ${span(p.seconds)}`).join(", ");
  setAttribute(cell.bar, "aria-label", text || "no steps yet");
  setAttribute(cell, "title", text || null);
}

/** drawShare shows a number with a bar behind it that is as long as its share of the whole. */
export function drawShare(cell, share, text, kind = "") {
  if (!cell.bar) {
    cell.bar = el("span", { class: "share" });
    cell.number = el("span", { class: "share-text" });
    cell.append(el("span", { class: "share-box" }, cell.bar, cell.number));
  }
  setAttribute(cell.bar, "class", `share ${kind}`);
  setStyle(cell.bar, "width", known(share) ? `${Math.max(0, Math.min(100, 100 * share)).toFixed(1)}%` : "0");
  setText(cell.number, known(share) ? text : UNKNOWN);
}

/** drawBadge shows a state as a word in a colour. */
export function drawBadge(cell, word) {
  if (!cell.badge) cell.append((cell.badge = el("span", {})));
  const kind = { ok: "good", slow: "warn", silent: "bad", gone: "", removed: "" }[word] ?? "info";
  setAttribute(cell.badge, "class", `badge ${kind}`);
  setText(cell.badge, word);
}

/** partsLegend explains the colours of the parts. */
export function partsLegend(ids = PARTS.map((p) => p.id)) {
  return el("ul", { class: "legend", "aria-label": "Parts of a step" }, ...PARTS.filter((p) => ids.includes(p.id)).map((p) => el("li", {}, el("span", { class: `mark ${p.id}` }), p.title)));
}
