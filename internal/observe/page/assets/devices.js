/** Memory, processors and GPUs: a row for each process, or for each of its GPUs. */

import { drawShare } from "./bar.js";
import { known, percent, size, UNKNOWN, whole } from "./format.js";
import { section } from "./shell.js";
import { Table } from "./table.js";

const gpu = (f) => (r) => (r.gpu ? f(r.gpu) : null);

const COLUMNS = [
  { id: "process", title: "Process", value: (r) => r.name, text: (r) => r.name },
  { id: "memory", title: "Memory", first: -1, numeric: true, value: (r) => r.memory, text: (r) => size(r.memory), help: "Resident memory of the process" },
  { id: "cpu", title: "CPU", first: -1, numeric: true, value: (r) => r.cpu, text: (r) => (known(r.cpu) ? r.cpu.toFixed(2) : UNKNOWN), help: "Cores in use: CPU time per second" },
  { id: "load", title: "GPU load", first: -1, numeric: true, value: gpu((g) => g.load), draw: (cell, r) => drawShare(cell, r.gpu?.load, percent(r.gpu?.load)) },
  { id: "gpu-memory", title: "GPU memory", first: -1, numeric: true, narrow: "middle", value: gpu((g) => g.memory_used_bytes),
    draw: (cell, r) => drawShare(cell, r.gpu ? r.gpu.memory_used_bytes / r.gpu.memory_total_bytes : null, size(r.gpu?.memory_used_bytes)) },
  { id: "temperature", title: "°C", first: -1, numeric: true, value: gpu((g) => g.temperature_celsius), text: (r) => whole(r.gpu?.temperature_celsius), narrow: "hide" },
  { id: "power", title: "W", first: -1, numeric: true, value: gpu((g) => g.power_watts), text: (r) => whole(r.gpu?.power_watts), narrow: "hide" },
];

export class Devices {
  constructor() {
    this.table = new Table({ id: "devices", title: "Memory and GPUs", columns: COLUMNS, what: "row", pageSize: 8, sort: "memory", key: (r) => r.key, empty: "no process yet" });
    this.elements = [section("devices", "Memory and GPUs", { columns: 5 }, this.table.element)];
  }

  update({ workers, servers }) {
    const here = (process) => process.state !== "gone"; // what has ended uses nothing any more
    this.table.update([...workers.filter(here).flatMap((w) => rows("worker", w)), ...servers.filter(here).flatMap((s) => rows("server", s))]);
  }
}

function rows(role, process) {
  const row = { key: String(process.node), name: `${role} ${process.rank >= 0 ? process.rank : process.pid}`, memory: process.memory_bytes, cpu: process.cpu_cores };
  const gpus = process.gpus ?? [];
  if (gpus.length === 0) return [row];
  return gpus.map((g) => ({ ...row, key: `${row.key} ${g.index}`, name: gpus.length > 1 ? `${row.name}, GPU ${g.index}` : row.name, gpu: g }));
}
