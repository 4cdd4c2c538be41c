// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
// Source and bytecode of a method, with counts in the margin.

const LINE = 18;

class SourceTab {
  constructor(app) {
    this.app = app;
    this.method = D.methods.find((m) => listing(m.row)) || D.methods[0];
    this.line = 0;
  }
  build() {
    if (!this.method)
      return el("section", { class: "pane" }, el("p", { class: "empty" }, "This page has no methods."));
    this.names = new Grid(
      "Methods of the class",
      [
        {
          key: "name",
          title: "Method",
          width: "minmax(0, 1fr)",
          cell: (m) =>
            el(
              "span",
              { class: "clip", title: m.name },
              nameParts(m.name).method,
              el("span", { class: "sig" }, " " + signature(nameParts(m.name).descriptor)),
            ),
        },
        {
          key: "bytecodes",
          title: "Bytecodes",
          width: "84px",
          right: true,
          cell: (m) => (m.inexact ? "≥ " : "") + brief(m.bytecodes),
        },
      ],
      { select: (m) => this.show(m) },
    );
    this.field = el("input", {
      type: "search",
      list: "all-methods",
      placeholder: "Open a method  ( / )",
      "aria-label": "Open a method",
      "data-search": true,
      spellcheck: "false",
      autocomplete: "off",
    });
    this.matches = el("ul", {
      class: "matches",
      role: "listbox",
      "aria-label": "Matching methods",
      hidden: true,
    });
    this.field.removeAttribute("list");
    this.field.addEventListener("input", () => this.suggest());
    this.field.addEventListener("keydown", (e) => this.suggestKey(e));
    this.field.addEventListener("blur", () =>
      setTimeout(() => {
        this.matches.hidden = true;
      }, 150),
    );
    this.title = el("div", { class: "clip grow" });
    this.source = el("div", { class: "code", tabindex: 0, role: "region", "aria-label": "Source" });
    this.code = el("div", { class: "code", tabindex: 0, role: "region", "aria-label": "Bytecode" });
    this.sourceBody = el("div", { class: "lines" });
    this.codeBody = el("div", { class: "lines" });
    this.source.append(this.sourceBody);
    this.code.append(this.codeBody);
    for (const [box, paint] of [
      [this.source, () => this.paintSource()],
      [this.code, () => this.paintCode()],
    ]) {
      let pending = 0;
      box.addEventListener("scroll", () => {
        if (!pending)
          pending = requestAnimationFrame(() => {
            pending = 0;
            paint();
          });
      });
      new ResizeObserver(paint).observe(box);
      box.addEventListener("click", (e) => {
        const row = e.target.closest("[data-line]");
        if (row) this.choose(Number(row.dataset.line), box);
      });
      box.addEventListener("keydown", (e) => this.key(e, box));
    }
    this.sourceHead = el("div", { class: "code-head clip" });
    this.codeHead = el("div", { class: "code-head clip" });
    this.sourcePane = el("div", { class: "code-pane" }, this.sourceHead, this.source);
    const pane = el(
      "section",
      { class: "pane column" },
      el(
        "div",
        { class: "bar-tools" },
        el("span", { class: "suggest" }, this.field, this.matches),
        this.title,
        stateLegend(),
      ),
      el(
        "div",
        { class: "three" },
        this.names.box,
        this.sourcePane,
        el("div", { class: "code-pane" }, this.codeHead, this.code),
      ),
    );
    this.show(this.method);
    return pane;
  }
  suggest() {
    const fits = matcher(this.field.value);
    const found = this.field.value.trim() ? D.methods.filter((m) => fits(m.name)).slice(0, 40) : [];
    this.found = found;
    this.at = 0;
    this.matches.hidden = !found.length;
    this.matches.replaceChildren(
      ...found.map((m, i) =>
        el(
          "li",
          { role: "option", "aria-selected": i === 0 ? "true" : "false", onmousedown: () => this.open(m) },
          nameElement(m.name),
        ),
      ),
    );
  }
  suggestKey(e) {
    if (this.matches.hidden) return;
    if (e.key === "ArrowDown" || e.key === "ArrowUp") {
      this.at = clamp(this.at + (e.key === "ArrowDown" ? 1 : -1), 0, this.found.length - 1);
      [...this.matches.children].forEach((li, i) => li.setAttribute("aria-selected", String(i === this.at)));
      this.matches.children[this.at].scrollIntoView({ block: "nearest" });
    } else if (e.key === "Enter") this.open(this.found[this.at]);
    else return;
    e.preventDefault();
    e.stopPropagation();
  }
  open(m) {
    this.matches.hidden = true;
    this.field.value = "";
    this.show(m);
    this.code.focus();
  }
  show(m) {
    this.method = m;
    this.line = 0;
    if (!this.names) return;
    const same = D.methods.filter((x) => x.cls === m.cls && x.loader === m.loader);
    if (this.shownClass !== m.cls + "\n" + m.loader) {
      this.names.show(same);
      this.shownClass = m.cls + "\n" + m.loader;
    }
    this.names.choose(this.names.rows.indexOf(m), true);
    this.title.replaceChildren(
      nameElement(m.name),
      m.version && el("span", { class: "tag" }, m.version),
      el(
        "span",
        { class: "dim" },
        ` ${least(m.bytecodes, m.inexact)} bytecodes in ${least(m.calls, m.inexact)} calls`,
      ),
    );
    this.rows = this.codeRows(m);
    this.openFile(m);
    this.heat = Math.max(
      1,
      ...this.rows.map((r) => r.seen || 0),
      ...[...(this.lines ? this.lines.values() : [])].map((l) => l.seen),
    );
    this.paintSource();
    this.paintCode();
    this.code.scrollTop = 0;
    const first = this.rows.find((r) => r.line);
    if (first && this.text) this.source.scrollTop = Math.max(0, (first.line - 4) * LINE);
  }
  codeRows(m) {
    const code = listing(m.row);
    const rows = [];
    this.codeNote = "";
    if (!code)
      this.codeNote =
        "This page has no bytecode of this method: it is native, or its bytecodes were not counted.";
    else if (code === "left") this.codeNote = "The listing was left out to keep this page small.";
    else {
      const handlers = new Map();
      for (const [start, end, handler, type] of code.handlers)
        handlers.set(handler, [
          ...(handlers.get(handler) || []),
          `handler of ${type}, for ${start} to ${end}`,
        ]);
      const targets = new Set();
      for (const r of code.rows) for (const w of r.ways) targets.add(w.to);
      for (const r of code.rows) {
        for (const text of handlers.get(r.bci) || []) rows.push({ kind: "note", text, line: r.line });
        rows.push({ kind: "code", ...r, target: targets.has(r.bci) });
        const sum = r.ways.reduce((a, w) => a + w.seen, 0);
        for (const w of r.ways) rows.push({ kind: "way", ...w, sum, line: r.line, bci: undefined });
      }
      if (code.malformed) rows.push({ kind: "note", text: "The rest of the code could not be parsed." });
    }
    return rows;
  }
  openFile(m) {
    this.text = m.file >= 0 ? D.files.texts[m.file - 1] : undefined;
    const path = this.text === undefined ? "" : D.files.paths[m.file - 1];
    this.sourcePane.hidden = this.text === undefined;
    this.sourceHead.textContent = path;
    this.sourceHead.title = path;
    this.codeHead.textContent =
      "Bytecode" +
      (m.file === 0
        ? " · the source was left out to keep this page small"
        : this.text === undefined
          ? " · no source: jportal view --source DIR"
          : "");
    if (this.text === undefined) {
      this.lines = null;
      return;
    }
    if (this.openedFile !== m.file) {
      this.openedFile = m.file;
      this.textLines = this.text.split(/\r?\n/);
    }
    this.lines = linesOf(m.file);
  }
  paintSource() {
    if (!this.lines) return;
    this.sourceBody.style.height = this.textLines.length * LINE + "px";
    this.fill(this.source, this.sourceBody, this.textLines.length, (i) => {
      const n = i + 1,
        l = this.lines.get(n);
      return el(
        "div",
        {
          class: `ln ${l ? l.state : ""}${n === this.line ? " current" : ""}`,
          style: { top: i * LINE + "px" },
          "data-line": n,
        },
        el(
          "span",
          { class: "count", title: l ? timesTitle(l) : null, style: this.heatStyle(l) },
          l ? timesText(l) : "",
        ),
        el("span", { class: "no" }, String(n)),
        el("span", { class: "src" }, this.textLines[i].replace(/\t/g, "    ")),
      );
    });
  }
  paintCode() {
    if (!this.rows) return;
    if (this.codeNote) {
      this.codeBody.style.height = "auto";
      this.codeBody.replaceChildren(el("p", { class: "empty" }, this.codeNote));
      return;
    }
    this.codeBody.style.height = this.rows.length * LINE + "px";
    let before = 0;
    this.fill(this.code, this.codeBody, this.rows.length, (i) => {
      const r = this.rows[i];
      const attributes = {
        class: `ln ${r.state || ""} ${r.kind}${r.line && r.line === this.line ? " current" : ""}`,
        style: { top: i * LINE + "px" },
        "data-line": r.line || 0,
      };
      if (r.kind === "note")
        return el(
          "div",
          attributes,
          el("span", { class: "count" }),
          el("span", { class: "no" }),
          el("span", { class: "no" }),
          el("span", { class: "src dim" }, "// " + r.text),
        );
      if (r.kind === "way") {
        return el(
          "div",
          attributes,
          el("span", { class: "count", title: timesTitle(r) }, timesText(r)),
          el("span", { class: "no" }),
          el("span", { class: "no" }),
          el(
            "span",
            { class: "src" },
            el("span", { class: "dim" }, "   → "),
            String(r.to),
            el(
              "span",
              { class: "dim" },
              r.state === "executed"
                ? `  ${r.inexact ? "≈ " : ""}${percent(r.seen, r.sum)}`
                : r.state === "missed"
                  ? "  never"
                  : "  unknown",
            ),
          ),
        );
      }
      const line = r.line && r.line !== before ? String(r.line) : "";
      before = r.line;
      const space = r.text.indexOf(" ");
      return el(
        "div",
        attributes,
        el("span", { class: "count", title: timesTitle(r), style: this.heatStyle(r) }, timesText(r)),
        el("span", { class: "no", title: r.line ? `line ${r.line}` : null }, line),
        el("span", { class: "no" + (r.target ? " target" : "") }, String(r.bci)),
        el(
          "span",
          { class: "src", title: r.text },
          el("b", {}, space < 0 ? r.text : r.text.slice(0, space)),
          space < 0 ? "" : r.text.slice(space),
        ),
      );
    });
  }
  /// Fills a scrolling box with the rows in sight.
  fill(box, body, count, make) {
    const first = Math.max(0, Math.floor(box.scrollTop / LINE) - 10),
      last = Math.min(count, first + Math.ceil(box.clientHeight / LINE) + 20);
    const out = [];
    for (let i = first; i < last; i++) out.push(make(i));
    body.replaceChildren(...out);
  }
  heatStyle(t) {
    if (!t || !t.seen) return {};
    const heat = Math.log1p(t.seen) / Math.log1p(this.heat);
    return {
      background: `color-mix(in srgb, var(--heat) ${Math.round(6 + 44 * heat * heat)}%, transparent)`,
    };
  }
  choose(line, box) {
    if (!line) return;
    this.line = line;
    this.paintSource();
    this.paintCode();
    if (box !== this.source && this.text) this.into(this.source, line - 1);
    if (box !== this.code) {
      const i = this.rows.findIndex((r) => r.line === line);
      if (i >= 0) this.into(this.code, i);
    }
  }
  into(box, row) {
    const y = row * LINE;
    if (y < box.scrollTop || y + LINE > box.scrollTop + box.clientHeight)
      box.scrollTop = Math.max(0, y - box.clientHeight / 3);
  }
  key(e, box) {
    const by = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    if (!by) return;
    // The next line that has bytecode.
    const known =
      this.lines && box === this.source
        ? [...this.lines.keys()].sort((a, b) => a - b)
        : [...new Set(this.rows.map((r) => r.line).filter(Boolean))];
    if (!known.length) return;
    const i = known.indexOf(this.line);
    const next = i >= 0 ? known[clamp(i + by, 0, known.length - 1)] : known[0];
    this.choose(next, null);
    this.into(box, box === this.source ? next - 1 : this.rows.findIndex((r) => r.line === next));
    e.preventDefault();
    e.stopPropagation();
  }
}

const timesTitle = (t) =>
  ({
    executed: `${least(t.seen, t.inexact)} times`,
    missed: "Missed: present and not executed",
    unknown: "Unknown: not seen, but it may have been executed",
  })[t.state];

function stateLegend() {
  return el(
    "span",
    { class: "legend" },
    [
      ["executed", "Executed"],
      ["missed", D.coverage && !D.coverage.certain ? "Not seen" : "Missed"],
      ["unknown", "Unknown"],
    ].map(([key, name]) => el("span", {}, el("i", { class: "dot " + key }), name)),
  );
}
