/** A job's page: it keeps the newest state and shows it in the page's parts. */

import { byId } from "./dom.js";
import { clock } from "./format.js";
import { BlameOverTime } from "./blame.js";
import { Curves } from "./curves.js";
import { Devices } from "./devices.js";
import { Events } from "./events.js";
import { hint, shortcut } from "./keys.js";
import { Servers } from "./servers.js";
import { connection, live, notice, phase, stale, title } from "./shell.js";
import { State } from "./state.js";
import { openStream } from "./stream.js";
import { Summary } from "./summary.js";
import { Timeline } from "./timeline.js";
import { Waits } from "./waits.js";
import { Workers } from "./workers.js";

/** start builds the page in main and keeps it up to date. */
export function start(page, main) {
  const state = new State();
  const workers = new Workers();
  const parts = [new Summary(page), new Waits(), workers, new BlameOverTime(), new Timeline(), new Curves(), new Servers(), new Devices(), new Events()];
  main.classList.add("grid");
  main.append(...parts.flatMap((p) => p.elements));
  const detail = [page.command, page.host && `on ${page.host}`].filter(Boolean).join(" · ");

  let paused = false;
  const draw = () => {
    if (paused) return;
    const begun = performance.now();
    title(`job ${state.name}`, detail);
    for (const part of parts) part.update(state);
    phase(state.phase, { running: "good", finished: "good", failed: "bad" }[state.phase] ?? "");
    performance.measure("update", { start: begun });
  };
  const fresh = () => {
    stale(false);
    notice("gone");
    notice("failed", "bad", state.phase === "failed" ? `The job has failed${state.reason ? `: ${state.reason}` : ""}.` : "");
    live(paused ? "warn" : "good", paused ? "paused" : `live · ${clock(state.now)}`);
    draw();
  };
  openStream("/api/events", {
    on: {
      state: (data) => { state.replace(data); fresh(); },
      update: (data) => { state.add(data); fresh(); },
      gone: (data) => gone(data),
      end: (data) => end(data, state),
    },
    onConnection: connection,
  });

  shortcut("p", "pause and go on", () => {
    paused = !paused;
    live(paused ? "warn" : "good", paused ? "paused" : "live");
    draw();
  });
  shortcut("/", "filter the workers", () => workers.table.find());
  shortcut("s", "sort the workers by the next column", () => workers.table.nextSort());
  for (const [key, id, name] of [["w", "workers", "workers"], ["t", "timeline", "the last steps"], ["c", "curves", "curves"], ["v", "servers", "servers"], ["m", "devices", "memory and GPUs"], ["e", "events", "events"]]) {
    shortcut(key, `go to ${name}`, () => goTo(id));
  }
  hint("↑ ↓ j k", "in a table: the next row; in the last steps: the next worker");
  hint("enter", "in a table: details of the row; esc closes them");
  hint("page up, page down", "in a table: the next page");
  hint("← →", "in the last steps and in curves: one step or point before or after");
}

function goTo(id) {
  const node = byId(id);
  node.scrollIntoView({ block: "start", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  (node.querySelector("[tabindex='0']") ?? node).focus({ preventScroll: true });
}

/** gone says that the scheduler does not answer: what is shown is old. The sentence stays the same while it lasts, since screen readers say it whenever it changes. */
function gone({ since_ms: since, newest_ms: newest, error }) {
  stale(true);
  live("bad", "scheduler does not answer");
  if (newest === 0) {
    notice("gone", "warn", `The scheduler does not answer yet${error ? `: ${error}` : ""}.`);
    return;
  }
  notice("gone", "warn", `The scheduler has not answered since ${clock(since)}; numbers of ${clock(newest)} shown. Training goes on while it is started again.`);
}

/** end says how the job ended. No more numbers come. */
function end({ error, phase: last, newest_ms: newest }, state) {
  const how = last || state.phase;
  notice("failed");
  live("", "job ended");
  if (last) phase(last, last === "failed" ? "bad" : "good");
  const verb = { finished: "has finished", failed: "has failed" }[how] ?? "has ended";
  notice("gone", how === "failed" ? "bad" : "info", `The job ${verb}${error ? `: ${error}` : ""}.${newest ? ` Numbers of ${clock(newest)} shown.` : ""}`);
}
