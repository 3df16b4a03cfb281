/** Keyboard shortcuts of the whole page. The dialog that ? opens lists those that were registered. */

import { byId, el, setText } from "./dom.js";

const shortcuts = [];

/** shortcut calls f for a key that is pressed outside of fields for text. */
export function shortcut(key, title, f) {
  shortcuts.push({ key, title, f });
}

/** hint lists keys that an element handles by itself, such as the arrows within a table. */
export function hint(key, title) {
  shortcuts.push({ key, title, f: null });
}

/** startKeys begins to listen. */
export function startKeys() {
  const dialog = byId("help");
  shortcut("?", "this list", () => openHelp(dialog));
  byId("help-open").addEventListener("click", () => openHelp(dialog));
  byId("help-close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
    if (event.target.closest("input, select, textarea")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const found = shortcuts.find((s) => s.f && s.key === event.key);
    if (!found) return;
    event.preventDefault();
    found.f(event);
  });
}

function openHelp(dialog) {
  const list = byId("help-keys");
  list.replaceChildren();
  for (const s of shortcuts) list.append(el("dt", {}, el("kbd", {}, s.key)), el("dd", {}, s.title));
  setText(byId("help-title"), "Keys");
  dialog.showModal();
}
