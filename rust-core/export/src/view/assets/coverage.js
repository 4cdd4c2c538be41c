// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
// The tree of coverage: packages, classes, methods, with three states.

class CoverageTab {
  constructor(app) {
    this.app = app;
    this.open = new Set();
    this.order = { key: "name", down: false };
    this.fits = () => true;
    this.filtering = false;
  }
  build() {
    const c = D.coverage;
    if (!c)
      return el(
        "section",
        { class: "pane" },
        el(
          "p",
          { class: "empty" },
          "Coverage is not in this page: it was not asked for. Unknown, not missed.",
        ),
      );
    this.root = this.tree(c);
    this.open.add(this.root);
    if (this.root.kids.length < 12) this.root.kids.forEach((k) => this.open.add(k));
    const figure = (title, at) => [
      {
        key: "n" + at,
        title,
        width: "178px",
        sort: (a, b) => this.rate(a, at) - this.rate(b, at),
        hint: `Sort by the share of executed ${title.toLowerCase()}`,
        cell: (n) => this.bar(n, at),
      },
      {
        key: "m" + at,
        title: c.certain ? "missed" : "not seen",
        width: "84px",
        right: true,
        sort: (a, b) => this.missed(a, at) - this.missed(b, at),
        cell: (n) => (this.missed(n, at) ? whole(this.missed(n, at)) : el("span", { class: "dim" }, "0")),
      },
    ];
    this.grid = new Grid(
      "Coverage",
      [
        {
          key: "name",
          title: "Name",
          width: "minmax(260px, 1fr)",
          down: false,
          sort: (a, b) => (a.text < b.text ? -1 : a.text > b.text ? 1 : 0),
          cell: (n) => this.name(n),
        },
        ...figure("Lines", 1),
        ...figure("Branches", 2),
        ...figure("Bytecodes", 0),
      ],
      {
        tree: true,
        order: this.order,
        sorted: (order) => {
          this.order = order;
          this.refresh();
        },
        attributes: (n) => ({
          "aria-level": n.level + 1,
          "aria-expanded": n.kids.length ? String(this.isOpen(n)) : null,
        }),
        rowClass: (n) => "level" + n.level,
        open: (n) => (n.kids.length ? this.toggle(n) : this.toCode(n)),
        key: (e, n) => this.key(e, n),
        empty: "No class or method matches.",
      },
    );
    // The tree sorts its rows level by level.
    this.grid.sort = () => {};
    const field = filterField("Filter classes and methods  ( / )", (fits) => {
      this.fits = fits;
      this.filtering = field.value.trim() !== "";
      this.refresh();
    });
    this.refresh();
    return el(
      "section",
      { class: "pane column" },
      el(
        "div",
        { class: "bar-tools" },
        field,
        el(
          "button",
          {
            type: "button",
            class: "plain",
            onclick: () => {
              this.open = new Set([this.root, ...this.root.kids]);
              this.refresh();
            },
          },
          "Packages",
        ),
        el(
          "button",
          {
            type: "button",
            class: "plain",
            onclick: () => {
              this.each(this.root, (n) => this.open.add(n));
              this.refresh();
            },
          },
          "Expand all",
        ),
        el(
          "button",
          {
            type: "button",
            class: "plain",
            onclick: () => {
              this.open = new Set([this.root]);
              this.refresh();
            },
          },
          "Collapse all",
        ),
        el("span", { class: "grow" }),
        stateLegend(),
      ),
      !c.certain &&
        el(
          "p",
          { class: "banner" },
          "Trace was lost: what counts as not seen may have been executed nevertheless. ",
          ...c.why.slice(0, 1),
        ),
      this.grid.box,
    );
  }
  tree(c) {
    const node = (text, level, parent) => ({ text, level, parent, kids: [], f: new Float64Array(12) });
    const root = node("All classes", 0, null);
    const packages = new Map();
    c.classes.forEach(([name, loader, , methods]) => {
      const full = D.text[name],
        dot = full.lastIndexOf("."),
        pack = dot < 0 ? "(default package)" : full.slice(0, dot);
      if (!packages.has(pack)) {
        const p = node(pack, 1, root);
        packages.set(pack, p);
        root.kids.push(p);
      }
      const p = packages.get(pack),
        k = node(full.slice(dot + 1), 2, p);
      k.full = full;
      k.loader = D.text[loader];
      p.kids.push(k);
      for (const [methodName, figures, missed, unknown, version] of methods) {
        const m = node(D.text[methodName], 3, k);
        m.f.set(figures.map(Number));
        [m.missed, m.unknown, m.version] = [missed, unknown, version];
        k.kids.push(m);
        for (const up of [k, p, root]) for (let i = 0; i < 12; i++) up.f[i] += m.f[i];
      }
    });
    return root;
  }
  each(n, f) {
    f(n);
    n.kids.forEach((k) => this.each(k, f));
  }
  rate(n, at) {
    return n.f[3 * at + 1] ? n.f[3 * at] / n.f[3 * at + 1] : -1;
  }
  missed(n, at) {
    return Math.max(0, n.f[3 * at + 1] - n.f[3 * at] - n.f[3 * at + 2]);
  }
  bar(n, at) {
    const [done, all, unknown] = [n.f[3 * at], n.f[3 * at + 1], n.f[3 * at + 2]],
      missed = this.missed(n, at);
    if (!all) return el("span", { class: "dim" }, "–");
    const range = unknown
      ? `${percent(done, all).replace("%", "")}–${percent(done + unknown, all)}`
      : percent(done, all);
    const inferred = n.f[9 + at];
    const title =
      `${unknown ? `${whole(done)}–${whole(done + unknown)}` : whole(done)} of ${whole(all)} executed` +
      (unknown ? `, ${whole(unknown)} unknown` : "") +
      (inferred ? `, ${whole(inferred)} of them inferred` : "");
    const part = (key, size) => size > 0 && el("i", { class: key, style: { flexGrow: size / all } });
    return el(
      "span",
      { class: "cover", title },
      el(
        "span",
        { class: "bar", role: "img", "aria-label": title },
        part("executed", done),
        part("unknown", unknown),
        part("missed", missed),
      ),
      el("span", { class: "rate" }, range),
    );
  }
  name(n) {
    const open = this.isOpen(n);
    const twist = n.kids.length
      ? el(
          "button",
          {
            type: "button",
            class: "twist" + (open ? " open" : ""),
            tabindex: -1,
            "aria-label": open ? "Collapse" : "Expand",
            onclick: () => this.toggle(n),
          },
          "▸",
        )
      : el("span", { class: "twist" });
    const parts = n.level === 3 ? nameParts("." + n.text) : null;
    return el(
      "span",
      {
        class: "clip",
        style: { paddingLeft: n.level * 16 + "px" },
        title: n.level === 2 ? n.full + (n.loader ? ` (${n.loader})` : "") : n.text,
      },
      twist,
      parts
        ? [
            parts.method,
            el("span", { class: "sig" }, " " + signature(parts.descriptor)),
            n.version && el("span", { class: "tag" }, n.version),
            this.lines(n),
          ]
        : n.text,
      n.level > 0 && n.level < 3 && el("span", { class: "dim" }, `  ${n.kids.length}`),
    );
  }
  /// The lines that were missed, if they are few.
  lines(n) {
    const missed = [...deltas(n.missed)],
      unknown = [...deltas(n.unknown)];
    const text = (label, list) =>
      list.length > 0 &&
      el("span", { class: "dim" }, `  ${label} ${list.slice(0, 6).join(", ")}${list.length > 6 ? " …" : ""}`);
    return [
      n.f[0] + n.f[2] > 0 && text(D.coverage.certain ? "missed" : "not seen", missed),
      text("unknown", unknown),
    ];
  }
  isOpen(n) {
    return this.open.has(n) || this.filtering;
  }
  toggle(n) {
    if (this.open.has(n)) this.open.delete(n);
    else this.open.add(n);
    this.refresh();
  }
  refresh() {
    const rows = [];
    const column = this.grid.columns.find((c) => c.key === this.order.key),
      sign = this.order.down ? -1 : 1;
    const kept = (n) => this.fits(n.level === 3 ? `${n.parent.full}.${n.text}` : n.full || n.text);
    const put = (n, all) => {
      const start = rows.length;
      rows.push(n);
      const hit = all || !this.filtering || (n.level > 0 && kept(n));
      let some = hit;
      if (this.isOpen(n))
        for (const k of n.kids.slice().sort((a, b) => sign * column.sort(a, b)))
          some = put(k, this.filtering && hit && n.level > 0) || some;
      if (this.filtering && !some) rows.length = start;
      return some;
    };
    put(this.root, false);
    this.grid.order = this.order;
    this.grid.show(rows);
  }
  toCode(n) {
    if (n.level !== 3) return;
    const full = `${n.parent.full}.${n.text}`;
    const m = D.methods.find((x) => x.name === full && x.loader === n.parent.loader);
    if (m) this.app.openMethod(m);
    else say("This method did not execute: there is no listing.");
  }
  key(e, n) {
    if (!n) return false;
    if (e.key === "ArrowRight") {
      if (n.kids.length && !this.isOpen(n)) this.toggle(n);
      else if (n.kids.length) this.grid.choose(this.grid.current + 1);
    } else if (e.key === "ArrowLeft") {
      if (n.kids.length && this.open.has(n) && !this.filtering) this.toggle(n);
      else if (n.parent) this.grid.choose(this.grid.rows.indexOf(n.parent));
    } else if (e.key === " ") {
      if (n.kids.length) this.toggle(n);
    } else return false;
    return true;
  }
}
