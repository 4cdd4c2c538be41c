// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
// The table of methods.

class MethodsTab {
  constructor(app) {
    this.app = app;
  }
  build() {
    if (!D.methods.length)
      return el(
        "section",
        { class: "pane" },
        el("p", { class: "empty" }, "This page has no methods: none executed, or they were not asked for."),
      );
    const all = D.methods.reduce((sum, m) => sum + m.bytecodes, 0);
    const most = D.methods.reduce((high, m) => Math.max(high, m.bytecodes), 1);
    const bounds = D.methods.some((m) => m.inexact);
    const by = (of) => (a, b) => of(a) - of(b);
    const more = (m, i) =>
      m.inexact
        ? m.more[i] === undefined
          ? "any number more is possible"
          : `at most ${whole(m.more[i])} more`
        : null;
    const compiled = (m) => (m.bytecodes ? (m.tiers[1] + m.tiers[2]) / m.bytecodes : 0);
    this.grid = new Grid(
      "Methods",
      [
        {
          key: "bytecodes",
          title: "Bytecodes",
          width: "150px",
          right: true,
          sort: by((m) => m.bytecodes),
          cell: (m) => el("span", { title: more(m, 0) }, least(m.bytecodes, m.inexact)),
        },
        {
          key: "share",
          title: "Share",
          width: "150px",
          hint: "Of the bytecodes of all methods in this page",
          cell: (m) =>
            el(
              "span",
              { class: "meter" },
              el("i", { style: { width: (100 * m.bytecodes) / most + "%" } }),
              el("span", {}, (bounds ? "≈ " : "") + percent(m.bytecodes, all)),
            ),
        },
        {
          key: "tiers",
          title: "Tiers",
          width: "110px",
          sort: by(compiled),
          hint: "Sort by the share of compiled code",
          cell: (m) => tierBar(m.tiers),
        },
        {
          key: "calls",
          title: "Calls",
          width: "120px",
          right: true,
          sort: by((m) => m.calls),
          cell: (m) => el("span", { title: more(m, 1) }, least(m.calls, m.inexact)),
        },
        {
          key: "per",
          title: "Per call",
          width: "90px",
          right: true,
          sort: by((m) => (m.calls ? m.bytecodes / m.calls : 0)),
          hint: "Bytecodes per call",
          cell: (m) => (m.calls ? (m.inexact ? "≈ " : "") + brief(m.bytecodes / m.calls) : "–"),
        },
        {
          key: "method",
          title: "Method",
          width: "minmax(300px, 1fr)",
          down: false,
          sort: (a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0),
          cell: (m) =>
            el(
              "span",
              { class: "clip" },
              nameElement(m.name),
              m.version && el("span", { class: "tag" }, m.version),
              m.inferred > 0 &&
                el(
                  "span",
                  {
                    class: "tag",
                    title: `${whole(m.inferred)} bytecodes are known by placing or filling only`,
                  },
                  "inferred",
                ),
            ),
        },
      ],
      {
        order: { key: "bytecodes", down: true },
        open: (m) => this.app.openMethod(m),
        empty: "No method matches.",
      },
    );
    this.count = el("span", { class: "dim" });
    const field = filterField("Filter methods  ( / )", (fits) => this.filter(fits));
    this.filter(() => true);
    const lower = D.methods.filter((m) => m.inexact).length;
    return el(
      "section",
      { class: "pane column" },
      el(
        "div",
        { class: "bar-tools" },
        field,
        this.count,
        el("span", { class: "grow" }),
        lower > 0 && el("span", { class: "dim" }, `≥ marks lower bounds: ${plural(lower, "method")}`),
        el("span", { class: "dim" }, "Enter or double click opens the code"),
      ),
      this.grid.box,
    );
  }
  filter(fits) {
    const rows = D.methods.filter((m) => fits(m.name));
    this.grid.show(rows);
    const sum = rows.reduce((a, m) => a + m.bytecodes, 0);
    this.count.textContent = `${plural(rows.length, "method")} · ${brief(sum)} bytecodes`;
  }
}
