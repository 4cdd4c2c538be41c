// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
// A table of any length: only the rows in sight exist.

const ROW = 22;

/// `columns`: { key, title, width, right, cell(row) → node or text, sort(a, b), hint }.
/// `rows` are any objects. `open(row)` when a row is opened, `select(row)` when it is chosen.
class Grid {
  constructor(label, columns, options = {}) {
    this.columns = columns;
    this.options = options;
    this.rows = [];
    this.current = -1;
    this.order = options.order || null;
    this.id = "g" + Grid.made++;
    const template = columns.map((c) => c.width).join(" ");
    this.heads = columns.map((c) =>
      el(
        "div",
        { class: "th" + (c.right ? " right" : ""), role: "columnheader", "aria-sort": "none" },
        c.sort
          ? el(
              "button",
              { type: "button", tabindex: -1, title: c.hint || "Sort", onclick: () => this.sortBy(c) },
              c.title,
              el("span", { class: "arrow" }),
            )
          : el("span", { title: c.hint || "" }, c.title),
      ),
    );
    this.head = el(
      "div",
      { class: "tr head", role: "row", style: { gridTemplateColumns: template } },
      this.heads,
    );
    this.template = template;
    this.body = el("div", { class: "rows", role: "presentation" });
    this.scroller = el("div", { class: "scroll", role: "rowgroup", tabindex: -1 }, this.body);
    this.empty = el("p", { class: "empty", hidden: true }, options.empty || "Nothing to show.");
    this.box = el(
      "div",
      { class: "grid", role: options.tree ? "treegrid" : "grid", "aria-label": label, tabindex: 0 },
      this.head,
      this.scroller,
      this.empty,
    );
    this.scroller.addEventListener("scroll", () => this.redraw());
    this.box.addEventListener("keydown", (e) => this.key(e));
    this.body.addEventListener("mousedown", (e) => {
      const row = e.target.closest(".tr");
      if (row && !e.target.closest("button")) this.choose(Number(row.dataset.at));
    });
    this.body.addEventListener("dblclick", (e) => {
      if (!e.target.closest("button")) this.open();
    });
    new ResizeObserver(() => this.paint()).observe(this.scroller);
  }
  /// Replaces the rows. The chosen row stays chosen if it is still there.
  show(rows) {
    const chosen = this.rows[this.current];
    this.rows = rows.slice();
    if (this.order) this.sort();
    this.current = chosen === undefined ? -1 : this.rows.indexOf(chosen);
    this.box.setAttribute("aria-rowcount", String(rows.length + 1));
    this.empty.hidden = rows.length > 0;
    this.paint();
  }
  sortBy(column) {
    const down = this.order && this.order.key === column.key ? !this.order.down : column.down !== false;
    this.order = { key: column.key, down };
    const chosen = this.rows[this.current];
    if (this.options.sorted) this.options.sorted(this.order);
    else this.sort();
    this.current = this.rows.indexOf(chosen);
    this.scroller.scrollTop = 0;
    this.paint();
    say(`Sorted by ${column.title}, ${down ? "descending" : "ascending"}`);
  }
  sort() {
    const column = this.columns.find((c) => c.key === this.order.key);
    const sign = this.order.down ? -1 : 1;
    this.rows.sort((a, b) => sign * column.sort(a, b));
  }
  redraw() {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = 0;
      this.paint();
    });
  }
  paint() {
    this.columns.forEach((c, i) => {
      const on = this.order && this.order.key === c.key;
      this.heads[i].setAttribute("aria-sort", on ? (this.order.down ? "descending" : "ascending") : "none");
    });
    const height = this.scroller.clientHeight;
    this.body.style.height = this.rows.length * ROW + "px";
    if (!height) return;
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / ROW) - 4);
    const last = Math.min(this.rows.length, first + Math.ceil(height / ROW) + 8);
    const out = [];
    for (let i = first; i < last; i++) out.push(this.row(i));
    this.body.replaceChildren(...out);
    const active = this.current >= first && this.current < last;
    if (active) this.box.setAttribute("aria-activedescendant", `${this.id}-${this.current}`);
    else this.box.removeAttribute("aria-activedescendant");
  }
  row(i) {
    const row = this.rows[i];
    const attributes = this.options.attributes ? this.options.attributes(row) : {};
    return el(
      "div",
      {
        class:
          "tr" +
          (i === this.current ? " current" : "") +
          (this.options.rowClass ? " " + this.options.rowClass(row) : ""),
        role: "row",
        id: `${this.id}-${i}`,
        "aria-rowindex": i + 2,
        "aria-selected": i === this.current ? "true" : "false",
        "data-at": i,
        style: { top: i * ROW + "px", gridTemplateColumns: this.template },
        ...attributes,
      },
      this.columns.map((c) =>
        el("div", { class: "td" + (c.right ? " right" : ""), role: "gridcell" }, c.cell(row)),
      ),
    );
  }
  choose(i, quiet) {
    if (!this.rows.length) return;
    this.current = clamp(i, 0, this.rows.length - 1);
    const top = this.current * ROW,
      s = this.scroller;
    if (top < s.scrollTop) s.scrollTop = top;
    else if (top + ROW > s.scrollTop + s.clientHeight) s.scrollTop = top + ROW - s.clientHeight;
    this.paint();
    if (this.options.select && !quiet) this.options.select(this.rows[this.current]);
  }
  open() {
    const row = this.rows[this.current];
    if (row !== undefined && this.options.open) this.options.open(row);
  }
  key(e) {
    if (e.target !== this.box && e.target.tagName === "BUTTON" && e.key === "Enter") return;
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / ROW) - 1);
    const moves = {
      ArrowDown: 1,
      ArrowUp: -1,
      PageDown: page,
      PageUp: -page,
      Home: -Infinity,
      End: Infinity,
    };
    if (e.key in moves) this.choose(this.current < 0 ? 0 : this.current + moves[e.key]);
    else if (e.key === "Enter") this.open();
    else if (this.options.key && this.options.key(e, this.rows[this.current])) {
      /* The table of a tab has keys of its own. */
    } else return;
    e.preventDefault();
    e.stopPropagation();
  }
}
Grid.made = 0;

/// A field that filters. Words that are separated by spaces must all occur.
function filterField(label, changed) {
  const input = el("input", {
    type: "search",
    placeholder: label,
    "aria-label": label,
    "data-search": true,
    spellcheck: "false",
    autocomplete: "off",
  });
  input.addEventListener("input", () => changed(matcher(input.value)));
  return input;
}
function matcher(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return words.length
    ? (s) => {
        const low = s.toLowerCase();
        return words.every((w) => low.includes(w));
      }
    : () => true;
}
/// A group of buttons of which one is pressed.
function choices(label, options, chosen, changed) {
  const buttons = options.map(([value, title, hint]) =>
    el(
      "button",
      {
        type: "button",
        role: "radio",
        title: hint,
        "aria-checked": value === chosen ? "true" : "false",
        tabindex: value === chosen ? 0 : -1,
        onclick: () => set(value, true),
      },
      title,
    ),
  );
  const set = (value, notify) => {
    options.forEach(([v], i) => {
      buttons[i].setAttribute("aria-checked", v === value ? "true" : "false");
      buttons[i].tabIndex = v === value ? 0 : -1;
    });
    if (notify) changed(value);
  };
  const box = el("span", { class: "choices", role: "radiogroup", "aria-label": label }, buttons);
  box.addEventListener("keydown", (e) => {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
    if (!by) return;
    const i = buttons.indexOf(document.activeElement);
    const next = buttons[(i + by + buttons.length) % buttons.length];
    next.focus();
    next.click();
    e.preventDefault();
    e.stopPropagation();
  });
  box.set = (value) => set(value, false);
  return box;
}
