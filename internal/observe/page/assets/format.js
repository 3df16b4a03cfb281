/** Numbers and times as people read them. A number that is not known is null, or NaN after arithmetic. */

export const UNKNOWN = "–";

export const known = (x) => typeof x === "number" && !Number.isNaN(x);

/** amount writes three digits: 7, 12.5, 213, 4.1k, 13.6M. */
export function amount(x) {
  return known(x) ? scaled(x, 1000, ["", "k", "M", "G", "T"]) : UNKNOWN;
}

/** size writes bytes: 812 B, 4.1 KiB, 13.6 MiB. */
export function size(x) {
  return known(x) ? scaled(x, 1024, [" B", " KiB", " MiB", " GiB", " TiB"]) : UNKNOWN;
}

/** rate is a size per second. */
export function rate(x) {
  return known(x) ? `${size(x)}/s` : UNKNOWN;
}

function scaled(x, base, units) {
  if (!Number.isFinite(x)) return String(x);
  let i = 0;
  while (Math.abs(x) >= 999.5 && i < units.length - 1) {
    x /= base;
    i++;
  }
  const digits = Math.abs(x) >= 99.95 || (i === 0 && Number.isInteger(x)) ? 0 : Math.abs(x) >= 9.995 || i > 0 ? 1 : 2;
  return x.toFixed(digits) + units[i];
}

/** whole writes an integer with all its digits in groups of three. */
export function whole(x) {
  return known(x) && Number.isFinite(x) ? Math.round(x).toString().replace(/\B(?=(\d{3})+$)/g, "\u202f") : UNKNOWN;
}

/** loss writes four digits after the point as long as losses are below 10. */
export function loss(x) {
  if (!known(x)) return UNKNOWN;
  const a = Math.abs(x);
  if ((a !== 0 && a < 1e-4) || a >= 1e5) return x.toExponential(1);
  return x.toFixed(a < 10 ? 4 : a < 100 ? 3 : 1);
}

/** value writes four digits. */
export function value(x) {
  if (!known(x)) return UNKNOWN;
  const a = Math.abs(x);
  return a >= 1e5 || (a !== 0 && a < 1e-4) ? x.toExponential(1) : String(Number(x.toPrecision(4)));
}

/** percent writes a share. */
export function percent(x, digits = 0) {
  return known(x) ? `${(100 * x).toFixed(digits)} %` : UNKNOWN;
}

/** span writes a time in seconds: 41 µs, 4.10 ms, 213 ms, 1.25 s, 2m05s. */
export function span(x) {
  if (!known(x) || !Number.isFinite(x)) return UNKNOWN;
  if (x < 0.5e-6) return "0";
  if (x < 0.9995e-3) return `${(x * 1e6).toFixed(0)} µs`;
  if (x < 0.00995) return `${(x * 1e3).toFixed(2)} ms`;
  if (x < 0.0995) return `${(x * 1e3).toFixed(1)} ms`;
  if (x < 0.9995) return `${(x * 1e3).toFixed(0)} ms`;
  if (x < 99.5) return `${Number(x.toPrecision(3))} s`;
  return long(x);
}

/** long writes a time of minutes, hours and days: 12s, 4m12s, 3h07m, 2d05h. */
export function long(seconds) {
  if (!known(seconds)) return UNKNOWN;
  const s = Math.max(0, Math.round(seconds));
  const two = (n) => String(Math.floor(n)).padStart(2, "0");
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m${two(s % 60)}s`;
  if (s < 86400) return `${Math.floor(s / 3600)}h${two((s / 60) % 60)}m`;
  return `${Math.floor(s / 86400)}d${two((s / 3600) % 24)}h`;
}

/** clock is the local time of day of Unix milliseconds. */
export function clock(ms) {
  return new Date(ms).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
}

/** plural is "1 worker", "3 workers". */
export function plural(n, what) {
  return `${whole(n)} ${what}${n === 1 ? "" : "s"}`;
}

/** name is a process as people call it: worker 3, or worker at 4711 where it has no rank yet. */
export function name(role, process) {
  return process.rank >= 0 ? `${role} ${process.rank}` : `${role} (process ${process.pid})`;
}
