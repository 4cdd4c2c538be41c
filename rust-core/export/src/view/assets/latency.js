// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
// Durations of calls.

class LatencyTab {
  constructor(app) {
    this.app = app;
  }
  build() {
    const l = D.latency;
    if (!l || !l.rows.length)
      return el(
        "section",
        { class: "pane" },
        el(
          "p",
          { class: "empty" },
          l ? "No call was measured." : "Durations of calls are not in this page: they were not asked for.",
        ),
      );
    this.rows = l.rows.map((r) => ({
      ...r,
      calls: Number(r.calls),
      unmeasured: Number(r.unmeasured),
      sum: Number(r.sum),
      q: column(r.quantiles),
      b: column(r.buckets),
      s: column(r.slowest),
    }));
    const by = (of) => (a, b) => of(a) - of(b);
    // Calls that were not measured may be longer than the others.
    const time = (key, title, of, mark) => ({
      key,
      title,
      width: "92px",
      right: true,
      sort: by(of),
      cell: (r) => (r.exact ? "" : mark + " ") + duration(of(r)),
    });
    this.grid = new Grid(
      "Durations of calls",
      [
        {
          key: "name",
          title: "Method",
          width: "minmax(200px, 1fr)",
          down: false,
          sort: (a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0),
          cell: (r) => el("span", { class: "clip" }, nameElement(r.name)),
        },
        {
          key: "calls",
          title: "Calls",
          width: "100px",
          right: true,
          sort: by((r) => r.calls),
          cell: (r) => least(r.calls, !r.exact),
        },
        time("min", "Min", (r) => r.q[0], "≤"),
        time("median", "Median", (r) => r.q[1], "≈"),
        time("p90", "90%", (r) => r.q[2], "≈"),
        time("p99", "99%", (r) => r.q[3], "≈"),
        time("max", "Max", (r) => r.q[4], "≥"),
        time("sum", "Sum", (r) => r.sum, "≥"),
      ],
      { order: { key: "sum", down: true }, select: (r) => this.choose(r), empty: "No method matches." },
    );
    this.view = new Canvas("Histogram of durations. Arrows move between buckets.", {
      class: "histogram",
      draw: (...a) => this.draw(...a),
      contentHeight: () => 0,
      roleDescription: "histogram",
    });
    this.view.box.addEventListener("mousemove", (e) => {
      const i = this.bucketAt(e);
      this.at = i;
      this.view.redraw();
      if (i < 0) tip.hide();
      else tip.show(e.clientX, e.clientY, ...this.describe(i));
    });
    this.view.box.addEventListener("mouseleave", () => {
      this.at = -1;
      tip.hide();
      this.view.redraw();
    });
    this.view.box.addEventListener("keydown", (e) => this.key(e));
    this.at = -1;
    this.head = el("div", {});
    this.slow = el("div", { class: "side-list" });
    const field = filterField("Filter methods  ( / )", (fits) =>
      this.grid.show(this.rows.filter((r) => fits(r.name))),
    );
    this.grid.show(this.rows);
    const pane = el(
      "section",
      { class: "pane column" },
      el(
        "div",
        { class: "bar-tools" },
        field,
        el("span", { class: "dim" }, `${l.measure || "Durations"}`),
        l.resolution !== null &&
          el("span", { class: "dim" }, `known times are ${duration(Number(l.resolution))} apart`),
      ),
      this.grid.box,
      el(
        "div",
        { class: "split lower" },
        el("div", { class: "column grow" }, this.head, this.view.box),
        el(
          "aside",
          { class: "side", "aria-label": "Slowest calls" },
          el("h2", {}, "Slowest calls"),
          this.slow,
        ),
      ),
    );
    this.grid.current = 0;
    this.choose(this.grid.rows[0]);
    return pane;
  }
  choose(r) {
    this.row = r;
    this.at = -1;
    this.head.replaceChildren(
      el(
        "div",
        { class: "code-head clip" },
        nameElement(r.name),
        el("span", { class: "dim" }, `  ${plural(r.calls, "call")}`),
        !r.exact &&
          el(
            "span",
            { class: "tag", title: "Their beginning or end is not known; they are in no figure" },
            `${plural(r.unmeasured, "call")} not measured`,
          ),
      ),
    );
    const rows = [];
    for (let i = 0; i < r.s.length; i += 3)
      rows.push(
        el(
          "tr",
          {},
          el("td", { class: "right" }, duration(r.s[i + 1])),
          el("td", { class: "right dim" }, "at " + duration(r.s[i] - SPAN.from)),
          el("td", { class: "dim" }, "tid " + r.s[i + 2]),
        ),
      );
    this.slow.replaceChildren(
      rows.length ? el("table", {}, el("tbody", {}, rows)) : el("p", { class: "dim" }, "Not in this page."),
    );
    this.view.redraw();
  }
  get bars() {
    const b = this.row.b,
      out = [];
    for (let i = 0; i < b.length; i += 2)
      out.push({
        low: b[i],
        n: b[i + 1],
        high: i + 2 < b.length ? b[i + 2] : Math.max(b[i] + 1, this.row.q[4]),
      });
    return out;
  }
  scale(width) {
    const bars = this.bars,
      low = Math.max(1, bars.length ? bars[0].low : 1),
      high = Math.max(low * 2, bars.length ? bars[bars.length - 1].high : 2);
    return {
      x: (t) =>
        56 + ((Math.log(Math.max(low, t)) - Math.log(low)) / (Math.log(high) - Math.log(low))) * (width - 72),
      low,
      high,
    };
  }
  draw(c, width, height) {
    if (!this.row) return;
    const bars = this.bars,
      { x, low, high } = this.scale(width),
      bottom = height - 26,
      top = 26;
    const most = Math.max(1, ...bars.map((b) => b.n));
    const y = (n) => bottom - ((bottom - top) * Math.log1p(n)) / Math.log1p(most);
    c.font = "11px " + FONT;
    c.textBaseline = "middle";
    c.textAlign = "right";
    for (let n = 1; n <= most * 1.01; n *= 10) {
      c.fillStyle = palette.line;
      c.fillRect(56, Math.round(y(n)), width - 72, 1);
      c.fillStyle = palette.dim;
      c.fillText(brief(n), 50, y(n));
    }
    bars.forEach((b, i) => {
      c.fillStyle = i === this.at ? palette.select : palette.accent;
      c.globalAlpha = i === this.at ? 1 : 0.72;
      if (b.n) c.fillRect(x(b.low) + 0.5, y(b.n), Math.max(1, x(b.high) - x(b.low) - 1), bottom - y(b.n));
      c.globalAlpha = 1;
    });
    c.textAlign = "center";
    const hz = D.meta.hz || 1;
    for (let e = Math.ceil(Math.log10(low / hz) - 1e-9); 10 ** e * hz <= high; e++) {
      const at = x(10 ** e * hz);
      c.fillStyle = palette.line;
      c.fillRect(Math.round(at), top, 1, bottom - top + 4);
      c.fillStyle = palette.dim;
      c.fillText(duration(10 ** e * hz, 1), clamp(at, 70, width - 30), bottom + 14);
    }
    let last = -100;
    [
      ["median", 1],
      ["90%", 2],
      ["99%", 3],
    ].forEach(([name, i]) => {
      const at = Math.round(x(this.row.q[i]));
      c.fillStyle = palette.lost;
      c.fillRect(at, top - 4, 1, bottom - top + 4);
      if (at - last > 44) {
        c.fillStyle = palette.dim;
        c.fillText(name, at, top - 12);
        last = at;
      }
    });
  }
  describe(i) {
    const b = this.bars[i];
    return [
      facts([
        ["Duration", `${duration(b.low)} to ${duration(b.high)}`],
        ["Calls", el("b", {}, whole(b.n))],
        ["Share", percent(b.n, this.row.calls)],
      ]),
    ];
  }
  bucketAt(e) {
    const [px] = this.view.at(e),
      { x } = this.scale(this.view.width);
    return this.bars.findIndex((b) => px >= x(b.low) && px < x(b.high));
  }
  key(e) {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    if (!by || !this.row) return;
    const bars = this.bars,
      r = this.view.box.getBoundingClientRect();
    this.at = clamp(this.at < 0 ? 0 : this.at + by, 0, bars.length - 1);
    const b = bars[this.at];
    tip.show(r.left + this.scale(this.view.width).x(b.low), r.top + 30, ...this.describe(this.at));
    say(`${duration(b.low)} to ${duration(b.high)}: ${plural(b.n, "call")}`);
    this.view.redraw();
    e.preventDefault();
    e.stopPropagation();
  }
}
