/** The job's most important numbers, a tile each. */

import { el, setAttribute, setText } from "./dom.js";
import { amount, known, long, loss, percent, plural, span, UNKNOWN, value, whole } from "./format.js";

export class Summary {
  constructor(page) {
    this.started = page.started_ms;
    this.tiles = new Map();
    const tile = (id, title, help) => {
      const t = { number: el("dd", { class: "number" }, UNKNOWN), note: el("dd", { class: "note" }) };
      this.tiles.set(id, t);
      return el("div", { class: "tile", title: help }, el("dt", {}, title), t.number, t.note);
    };
    this.elements = [el("dl", { class: "tiles columns-12", "aria-label": "The job's newest numbers" },
      tile("examples", "Examples / s", "Examples per second, all workers together"),
      tile("step", "Step", "Steps of the worker that has done most"),
      tile("time", "Step time", "Mean of all workers over the last seconds"),
      tile("loss", "Loss", "Mean of the workers' newest training losses"),
      tile("accuracy", "Test accuracy", "Of the newest evaluation"),
      tile("elapsed", "Elapsed", "Since launch was started"),
      tile("checkpoint", "Checkpoint", "Age of the newest one"),
      tile("members", "Workers", "Workers and servers that take part"))];
  }

  update({ job, now, generation }) {
    this.#show("examples", amount(job.examples_per_second), known(job.global_batch) ? `global batch ${whole(job.global_batch)}` : "");
    this.#show("step", whole(job.step), known(job.epoch) ? `epoch ${whole(job.epoch)}` : "");
    this.#show("time", known(job.steps_per_second) && job.steps_per_second > 0 ? span(1 / job.steps_per_second) : UNKNOWN, known(job.steps_per_second) ? `${amount(job.steps_per_second)} steps/s` : "");
    this.#show("loss", loss(job.loss), known(job.learning_rate) ? `learning rate ${value(job.learning_rate)}` : "");
    this.#show("accuracy", percent(job.test_accuracy, 1), known(job.test_loss) ? `test loss ${loss(job.test_loss)}` : "no evaluation yet");
    this.#show("elapsed", this.started ? long((now - this.started) / 1000) : UNKNOWN, job.restarts ? `restarted ${plural(job.restarts, "time")}` : "");
    this.#show("checkpoint", known(job.checkpoint_age_seconds) ? `${long(job.checkpoint_age_seconds)} ago` : "none", known(job.checkpoint_seconds) ? `took ${span(job.checkpoint_seconds)}` : "");
    this.#show("members", whole(job.workers), `${plural(job.servers, "server")} · generation ${whole(generation)}`);
  }

  #show(id, number, note) {
    const t = this.tiles.get(id);
    setText(t.number, number);
    setText(t.note, note);
    setAttribute(t.note, "title", note || null);
  }
}
