/** Tables of processes or trials: sorted by a column, filtered by text, in pages, with details of a row below it. */

import { el, reconcile, setAttribute, setText } from "./dom.js";
import { whole } from "./format.js";

/**
 * A Table shows rows. Each of columns has an id, a title, value(row) to sort by, and either text(row) or draw(cell, row); help explains it; numeric puts it to
 * the right; narrow is "hide" or "middle" for columns that narrow screens leave out; first is -1 where the largest value comes first; tip shows the whole text of a
 * cell that may be cut.
 *
 * key(row) stays the same as long as a row is the same thing. details(row), where given, returns pairs of what is shown below a row on Enter or a click.
 */
export class Table {
  constructor({ id, title, columns, key, what = "row", pageSize = 32, sort, search = null, details = null, rowClass = () => "", empty = "none yet" }) {
    Object.assign(this, { id, columns, key, what, pageSize, search, details, rowClass, empty });
    this.rows = [];
    this.page = 0;
    this.open = null;
    this.focused = null;
    this.column = columns.find((c) => c.id === sort);
    this.direction = this.column.first ?? 1;
    this.#build(title);
  }

  /** update shows other rows. The page, the order, the focus and the open details stay. */
  update(rows) {
    this.rows = rows;
    this.draw();
  }

  /** sortBy sorts by a column; once more by the same one turns the order round. */
  sortBy(id) {
    const column = this.columns.find((c) => c.id === id);
    this.direction = column === this.column ? -this.direction : column.first ?? 1;
    this.column = column;
    this.page = 0;
    this.draw();
  }

  /** nextSort sorts by the next column that can be sorted by. */
  nextSort() {
    const sortable = this.columns.filter((c) => c.value);
    this.sortBy(sortable[(sortable.indexOf(this.column) + 1) % sortable.length].id);
    return this.column.title;
  }

  /** find puts the focus into the field of the filter, or to the table where there is none. */
  find() {
    (this.field ?? this.body.querySelector("tr[tabindex]") ?? this.region).focus();
  }

  #build(title) {
    this.heads = this.columns.map((c) => this.#head(c));
    this.body = el("tbody", { onkeydown: (e) => this.#pressed(e) });
    const table = el("table", { "aria-label": title }, el("thead", {}, el("tr", {}, ...this.heads)), this.body);
    this.region = el("div", { class: "scroll", role: "region", "aria-label": `${title}, table`, tabindex: 0 }, table);
    this.count = el("p", { class: "count muted", role: "status" });
    this.before = el("button", { type: "button", class: "quiet", onclick: () => this.#turn(-1) }, "‹ Previous");
    this.after = el("button", { type: "button", class: "quiet", onclick: () => this.#turn(1) }, "Next ›");
    this.pager = el("nav", { class: "pager", "aria-label": `Pages of ${title}` }, this.before, this.count, this.after);
    const tools = [];
    if (this.search) {
      this.field = el("input", { type: "search", id: `${this.id}-filter`, placeholder: `Filter ${this.what}s`, "aria-label": `Filter ${this.what}s`, autocomplete: "off", spellcheck: "false",
        oninput: () => { this.page = 0; this.draw(); } });
      tools.push(this.field);
    }
    this.element = el("div", { class: "table" }, el("div", { class: "tools" }, ...tools, this.pager), this.region);
  }

  #head(c) {
    const button = c.value ? el("button", { type: "button", class: "sort", onclick: () => this.sortBy(c.id), title: c.help }, c.title) : el("span", { title: c.help }, c.title);
    return el("th", { scope: "col", class: this.#class(c) }, button);
  }

  #class(c) {
    return [c.numeric && "numeric", c.narrow && `narrow-${c.narrow}`, `column-${c.id}`].filter(Boolean).join(" ");
  }

  /** draw brings the page of rows up to date. */
  draw() {
    const words = (this.field?.value ?? "").toLowerCase().split(/\s+/).filter(Boolean);
    const found = words.length ? this.rows.filter((r) => { const text = this.search(r).toLowerCase(); return words.every((w) => text.includes(w)); }) : this.rows;
    const sorted = this.#sorted(found);
    const pages = Math.max(1, Math.ceil(sorted.length / this.pageSize));
    this.page = Math.min(this.page, pages - 1);
    const first = this.page * this.pageSize;
    const shown = sorted.slice(first, first + this.pageSize);
    this.#pagerState(shown.length, first, found.length, pages);
    this.columns.forEach((c, i) => setAttribute(this.heads[i], "aria-sort", c !== this.column ? null : this.direction > 0 ? "ascending" : "descending"));
    if (!shown.some((r) => this.key(r) === this.focused)) this.focused = shown.length ? this.key(shown[0]) : null;
    const items = [];
    for (const row of shown) {
      items.push({ row, k: `row ${this.key(row)}` });
      if (this.open === this.key(row)) items.push({ row, k: `details ${this.key(row)}`, isDetails: true });
    }
    if (shown.length === 0) items.push({ row: null, k: "empty" });
    reconcile(this.body, items, (x) => x.k, (x) => this.#make(x), (node, x) => this.#fill(node, x));
  }

  #sorted(rows) {
    const { value } = this.column;
    const missing = (v) => v === null || v === undefined || Number.isNaN(v);
    return [...rows].sort((a, b) => {
      const x = value(a), y = value(b);
      if (missing(x) || missing(y)) return missing(x) - missing(y);
      const order = typeof x === "string" ? x.localeCompare(y, undefined, { numeric: true }) : x - y;
      return this.direction * order;
    });
  }

  #pagerState(shown, first, found, pages) {
    const all = this.rows.length;
    const range = shown < found ? `${whole(first + 1)}–${whole(first + shown)} of ${whole(found)}` : `${whole(found)}`;
    setText(this.count, found < all ? `${range} (${whole(all)} in all)` : `${range} ${this.what}${found === 1 ? "" : "s"}`);
    setAttribute(this.before, "hidden", pages === 1);
    setAttribute(this.after, "hidden", pages === 1);
    this.before.disabled = this.page === 0;
    this.after.disabled = this.page === pages - 1;
  }

  #turn(by) {
    this.page += by;
    this.draw();
  }

  #make(x) {
    if (x.k === "empty") return el("tr", {}, el("td", { colspan: this.columns.length, class: "empty" }, ""));
    if (x.isDetails) return el("tr", { class: "details" }, el("td", { colspan: this.columns.length }, el("dl", {})));
    const row = el("tr", { onclick: () => this.#toggle(this.key(row.row)), onfocus: () => this.#focus(this.key(row.row), false) });
    row.append(...this.columns.map((c, i) => el(i === 0 ? "th" : "td", { class: this.#class(c), scope: i === 0 ? "row" : null })));
    return row;
  }

  #fill(node, x) {
    if (x.k === "empty") {
      setText(node.firstChild, this.rows.length ? `no ${this.what} matches` : this.empty);
      return;
    }
    if (x.isDetails) {
      reconcile(node.firstChild.firstChild, this.details(x.row), (p) => p[0], (p) => el("div", {}, el("dt", {}, p[0]), el("dd", {})), (pair, p) => setText(pair.lastChild, p[1]));
      return;
    }
    node.row = x.row;
    setAttribute(node, "class", this.rowClass(x.row) || null);
    setAttribute(node, "tabindex", this.key(x.row) === this.focused ? 0 : -1);
    if (this.details) setAttribute(node, "aria-expanded", String(this.open === this.key(x.row)));
    this.columns.forEach((c, i) => {
      if (c.draw) c.draw(node.children[i], x.row);
      else setText(node.children[i], c.text(x.row));
      if (c.tip) setAttribute(node.children[i], "title", c.text(x.row));
    });
  }

  #toggle(key) {
    if (!this.details || String(getSelection()) !== "") return;
    this.open = this.open === key ? null : key;
    this.#focus(key, true);
  }

  #focus(key, draw) {
    if (this.focused === key && !draw) return;
    this.focused = key;
    this.draw();
  }

  #pressed(event) {
    const row = event.target.closest("tr[tabindex]");
    if (!row || event.target !== row) return;
    const rows = [...this.body.querySelectorAll("tr[tabindex]")];
    const at = rows.indexOf(row);
    const to = { ArrowDown: at + 1, j: at + 1, ArrowUp: at - 1, k: at - 1, Home: 0, End: rows.length - 1 }[event.key];
    if (to !== undefined) rows[Math.max(0, Math.min(rows.length - 1, to))].focus();
    else if (event.key === "Enter" || event.key === " ") this.#toggle(this.key(row.row));
    else if (event.key === "Escape" && this.open !== null) this.#toggle(this.open);
    else if (event.key === "PageDown" && !this.after.disabled) this.#turnAndFocus(1);
    else if (event.key === "PageUp" && !this.before.disabled) this.#turnAndFocus(-1);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  #turnAndFocus(by) {
    this.#turn(by);
    this.body.querySelector("tr[tabindex]")?.focus();
  }
}
