/** Colours of the style sheet for what is drawn on a canvas, which does not know them by itself. */

const dark = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set();
let colours = new Map();

dark.addEventListener("change", () => {
  colours = new Map();
  for (const f of listeners) f();
});

/** colour is the value of a custom property of the page: colour("--wait"). */
export function colour(property) {
  let c = colours.get(property);
  if (c === undefined) {
    c = getComputedStyle(document.documentElement).getPropertyValue(property).trim();
    colours.set(property, c);
  }
  return c;
}

/** onTheme calls f whenever the colours have changed. */
export function onTheme(f) {
  listeners.add(f);
}

/** The parts of a step, in the order in which they are drawn; each has a colour --NAME. */
export const PARTS = [
  { id: "compute", title: "compute", field: "compute_seconds" },
  { id: "wait", title: "wait for servers", field: "wait_seconds" },
  { id: "data", title: "wait for data", field: "data_seconds" },
  { id: "save", title: "save", field: "save_seconds" },
  { id: "rest", title: "other", field: null },
];
