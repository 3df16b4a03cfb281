/** The newest state of a job as the server sends it: internal/observe/page/snapshot.go has the fields. */

const MOST_EVENTS = 200;
const MOST_POINTS = 2048;

/** A State holds what was sent last. Its fields are those of an Update; curves and events grow. */
export class State {
  constructor() {
    this.phase = "";
    this.workers = [];
    this.servers = [];
    this.curves = { times: [], lines: new Map() };
    this.events = [];
    this.leftOut = 0;
  }

  /** replace takes a whole State. */
  replace(data) {
    this.members = { workers: data.worker_members, servers: data.server_members };
    this.details = null;
    this.leftOut = data.processes_left_out ?? 0;
    this.curves = { times: data.curves.times_ms ?? [], lines: new Map((data.curves.lines ?? []).map((l) => [l.id, l.values])) };
    this.events = data.event_list ?? [];
    this.#take(data);
  }

  /** add takes an Update. */
  add(data) {
    if (!this.members) return;
    if (data.point) this.#addPoint(data.point);
    if (data.events) this.events = this.events.concat(data.events).slice(-MOST_EVENTS);
    this.#take(data);
  }

  #take(data) {
    this.name = data.name;
    this.now = data.now_ms;
    this.generation = data.generation;
    this.incarnation = data.incarnation;
    this.since = data.since_ms;
    this.phase = data.phase;
    this.reason = data.reason ?? "";
    this.job = data.job;
    this.slow = data.slow ?? [];
    this.waits = data.waits ?? [];
    this.moreWaits = data.more_waits ?? 0;
    this.behind = data.behind ?? [];
    this.timelines = data.steps ?? [];
    this.details = data.workers.details ?? this.details;
    this.workers = rows(this.members.workers, [data.workers, this.details]);
    this.servers = rows(this.members.servers, [data.servers]);
    const slow = new Set(this.slow.map((s) => s.node));
    for (const w of this.workers) w.slow = slow.has(w.node);
    for (const w of this.workers) w.gpus = [];
    for (const g of this.details?.gpus ?? []) this.workers[g.worker]?.gpus.push(g);
  }

  #addPoint({ time_ms: time, values }) {
    const { times, lines } = this.curves;
    if (times.length === 0 || time > times.at(-1)) {
      times.push(time);
      for (const line of lines.values()) line.push(null);
    }
    for (const [id, value] of Object.entries(values)) {
      if (!lines.has(id)) lines.set(id, new Array(times.length).fill(null));
      lines.get(id)[times.length - 1] = value;
    }
    if (times.length <= MOST_POINTS) return;
    times.shift();
    for (const line of lines.values()) line.shift();
  }
}

/** rows turns columns of the same length into an object for each process. */
function rows(members, tables) {
  const columns = [members, ...tables].flatMap((t) => Object.entries(t ?? {})).filter(([, column]) => Array.isArray(column) && column.length === members.node?.length);
  return (members.node ?? []).map((_, i) => {
    const row = {};
    for (const [name, column] of columns) row[name] = column[i];
    return row;
  });
}

/** stateOf is the state of a process in a word: what is more than that it takes part. */
export function stateOf(process) {
  if (process.state !== "counts") return process.state;
  if (process.age_seconds === null || process.age_seconds > 5) return "silent";
  return process.slow ? "slow" : "ok";
}
