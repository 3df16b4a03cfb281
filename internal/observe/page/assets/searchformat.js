/** Numbers and sentences of a search as people read them. */

import { known, UNKNOWN } from "./format.js";

/** figure writes five digits, which is what results are told apart by. */
export function figure(x) {
  if (!known(x)) return UNKNOWN;
  const a = Math.abs(x);
  if (a !== 0 && (a < 1e-3 || a >= 1e6)) return x.toExponential(2).replace(/\.?0+e/, "e");
  return String(Number(x.toPrecision(5)));
}

/** tick writes the value of an axis. */
export function tick(x) {
  const a = Math.abs(x);
  if (a !== 0 && (a < 1e-3 || a >= 1e5)) return x.toExponential(1).replace(/\.0e/, "e").replace("e+", "e");
  return String(Number(x.toPrecision(3)));
}

/** whyStopped says why a trial has ended as it did; "" where there is nothing to say. */
export function whyStopped(s, n) {
  const state = s.state(n);
  if (state === "failed") return s.word("failure", n) || "failed";
  const rule = s.word("rule", n);
  if (!rule) return "";
  const c = s.columns;
  let text = rule;
  if (!known(c.stop_value[n]) && known(c.stop_step[n])) return `at step ${c.stop_step[n]} by ${rule}`; // which has the values in it
  if (known(c.stop_value[n]) && known(c.stop_bound[n])) {
    text += `: ${figure(c.stop_value[n])} against ${figure(c.stop_bound[n])}`;
  } else if (known(c.stop_value[n])) {
    text += `: ${figure(c.stop_value[n])}`;
  }
  if (known(c.stop_step[n])) text += ` at step ${c.stop_step[n]}`;
  return text;
}

/** noteText is a sentence about what happened to a trial. */
export function noteText(note, metric) {
  const rule = note.rule ? ` (${note.rule})` : "";
  switch (note.kind) {
    case "start": {
      const where = note.location ? ` on ${note.location}` : "";
      const from = note.restore < 0 ? "" : ` from ${note.donor === undefined ? "its" : `trial ${note.donor}’s`} checkpoint of step ${note.restore}`;
      return `attempt ${note.attempt} started${where}${from}${rule}`;
    }
    case "decision": {
      let text = `step ${note.step}: ${metric} ${figure(note.value)}`;
      if (known(note.bound)) text += ` against ${figure(note.bound)}`;
      text += `: ${note.action}${rule}`;
      if (note.action === "exploit") text += `; goes on from trial ${note.donor}`;
      if (note.competitors?.length) {
        text += `; compared with trial${note.competitors.length > 1 ? "s" : ""} ${note.competitors.join(", ")}${note.more ? ` and ${note.more} more` : ""}`;
      }
      return text;
    }
    case "order": return `${note.action}: decided at the report of trial ${note.by}${rule}`;
    case "end": {
      let text = `attempt ${note.attempt} ${note.outcome}`;
      if (note.failure) text += ` (${note.failure})`;
      if (note.error) text += `: ${note.error.split("\n", 1)[0]}`;
      if (note.retry) text += "; tried again";
      return text;
    }
    case "requeue": return `taken up again${note.fresh ? ", from the start" : ""}`;
    case "abandon": return note.rule?.startsWith("deadline") ? `not continued: ${note.rule}` : "stopped: the search was resumed for new trials only";
    case "replicas": return note.action === "pause" ? `told to pause and give up its replicas${rule}` : `replicas: ${note.location}${rule}`;
    default: return note.kind;
  }
}

/** ramp is the colour of a score: 0 is the worst and 1 the best. It keeps its order in gray, and for all kinds of colour vision. */
export function ramp(x, dark) {
  const stops = dark ? DARK : LIGHT;
  const at = Math.max(0, Math.min(1, x)) * (stops.length - 1);
  const i = Math.min(stops.length - 2, Math.floor(at));
  const mix = stops[i].map((c, k) => Math.round(c + (stops[i + 1][k] - c) * (at - i)));
  return `rgb(${mix.join(" ")})`;
}

const LIGHT = [[206, 214, 224], [134, 190, 214], [44, 140, 178], [20, 90, 140], [44, 26, 96]];
const DARK = [[58, 66, 82], [48, 100, 134], [34, 150, 160], [110, 204, 130], [250, 231, 90]];
