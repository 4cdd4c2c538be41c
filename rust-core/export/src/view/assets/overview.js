// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
// The overview: what each thread did over time.

class OverviewTab extends Lanes {
  constructor(app) {
    super();
    this.app = app;
    this.past = [];
    this.idle = false;
    this.cursor = null;
  }
  build() {
    const o = D.overview;
    const box = el("section", { class: "pane column" }, this.cards());
    this.threads = o ? o.threads.map((t) => this.decode(t)) : [];
    if (!o || !o.buckets) {
      box.append(
        el(
          "p",
          { class: "empty" },
          "The threads over time are not in this page. The table has their totals.",
        ),
        this.table(),
      );
      return box;
    }
    this.range = [0, o.buckets];
    this.view = new Canvas("Threads over time. Arrows move, Enter zooms, Escape goes back.", {
      class: "lanes",
      draw: (...a) => this.draw(...a),
      contentHeight: () => AXIS + this.lanes().length * this.tall + 4,
      roleDescription: "timeline",
    });
    const canvas = this.view.box;
    canvas.addEventListener("mousemove", (e) => this.move(e));
    canvas.addEventListener("mouseleave", () => {
      tip.hide();
    });
    canvas.addEventListener("mousedown", (e) => {
      const x = this.bucketAt(e);
      if (x !== null && e.button === 0) {
        this.drag = [x, x];
        e.preventDefault();
        canvas.focus();
      }
    });
    addEventListener("mouseup", () => this.drop());
    canvas.addEventListener("dblclick", () => this.unzoom());
    canvas.addEventListener("keydown", (e) => this.key(e));
    const idle = this.threads.filter((t) => !t.bytecodes && !t.gapCount).length;
    this.back = el(
      "button",
      {
        type: "button",
        class: "plain",
        title: "Back (Escape)",
        disabled: true,
        onclick: () => this.unzoom(),
      },
      "← Back",
    );
    const all = el(
      "button",
      {
        type: "button",
        class: "plain",
        "aria-pressed": "false",
        onclick: () => {
          this.idle = !this.idle;
          all.setAttribute("aria-pressed", String(this.idle));
          this.view.paint();
        },
      },
      `${plural(idle, "thread")} without bytecodes`,
    );
    this.where = el("span", { class: "dim" });
    box.append(
      el(
        "div",
        { class: "bar-tools thin" },
        this.back,
        this.where,
        el("span", { class: "grow" }),
        idle > 0 && all,
        el(
          "span",
          { class: "legend" },
          TIERS.map(([key, name]) => el("span", {}, el("i", { class: "dot " + key }), name)),
          el("span", {}, el("i", { class: "dot lost" }), "Trace lost"),
          el("span", {}, el("i", { class: "dot inferred" }), "Inferred"),
          o.cores && el("span", {}, el("i", { class: "dot on" }), "On a core"),
        ),
      ),
      canvas,
      this.table(),
    );
    this.placed();
    return box;
  }
  cards() {
    const tiers = [0, 0, 0];
    for (const m of D.methods)
      m.tiers.forEach((n, i) => {
        tiers[i] += n;
      });
    const sum = (of) => D.threads.reduce((a, t) => a + Number(of(t)), 0);
    const gaps = sum((t) => t.gaps.reduce((a, g) => a + Number(g[1]), 0));
    const inexact = !D.meta.exact;
    const known = D.threads.length > 0;
    const card = (label, value, note) =>
      el(
        "div",
        { class: "card" },
        el("div", { class: "label" }, label),
        el("div", { class: "value" }, value),
        el("div", { class: "note dim" }, note || "\u00a0"),
      );
    const span = SPAN.to - SPAN.from;
    const t = tiers[0] + tiers[1] + tiers[2];
    return el(
      "div",
      { class: "cards" },
      card(
        "Bytecodes",
        known ? (inexact ? "≥ " : "") + brief(sum((x) => x.bytecodes[0])) : "unknown",
        known ? whole(sum((x) => x.bytecodes[0])) : "",
      ),
      card(
        "Calls",
        known ? (inexact ? "≥ " : "") + brief(sum((x) => x.calls)) : "unknown",
        known ? whole(sum((x) => x.calls)) : "",
      ),
      card(
        "Threads",
        known ? whole(D.threads.length) : "unknown",
        known ? `${D.threads.filter((x) => Number(x.bytecodes[0]) > 0).length} with bytecodes` : "",
      ),
      card("Methods executed", D.methods.length ? whole(D.methods.length) : "unknown", ""),
      card(
        "Duration",
        span > 1 ? duration(span) : "unknown",
        D.meta.hz ? `TSC at ${(D.meta.hz / 1e9).toPrecision(4)} GHz` : "in ticks of the TSC",
      ),
      card(
        "Gaps",
        known ? whole(gaps) : "unknown",
        known ? `${whole(sum((x) => x.unresolved))} unresolved stretches` : "",
      ),
      el(
        "div",
        { class: "card wide" },
        el("div", { class: "label" }, "Bytecodes by tier"),
        t ? tierBar(tiers) : el("div", { class: "value" }, "unknown"),
        el(
          "div",
          { class: "note dim" },
          t ? TIERS.map(([, name], i) => `${name} ${percent(tiers[i], t)}`).join("   ") : "\u00a0",
        ),
      ),
    );
  }
  table() {
    const number = (of) => (a, b) => of(a) - of(b);
    const gaps = (t) => t.gaps.reduce((a, g) => a + Number(g[1]), 0);
    const all = D.threads.reduce((a, t) => a + Number(t.bytecodes[0]), 0);
    const bound = (t) => gaps(t) + Number(t.unresolved) + Number(t.orphans) > 0;
    const grid = new Grid(
      "Threads",
      [
        {
          key: "name",
          title: "Thread",
          width: "minmax(160px, 2fr)",
          down: false,
          sort: (a, b) => a.name.localeCompare(b.name),
          cell: (t) => t.name || "(no name)",
        },
        {
          key: "tid",
          title: "tid",
          width: "70px",
          right: true,
          down: false,
          sort: number((t) => t.tid),
          cell: (t) => String(t.tid),
        },
        {
          key: "java",
          title: "Java id",
          width: "70px",
          right: true,
          down: false,
          sort: number((t) => Number(t.java)),
          cell: (t) => (Number(t.java) ? String(t.java) : "–"),
        },
        {
          key: "bytecodes",
          title: "Bytecodes",
          width: "150px",
          right: true,
          sort: number((t) => Number(t.bytecodes[0])),
          cell: (t) => least(Number(t.bytecodes[0]), bound(t)),
        },
        {
          key: "share",
          title: "Share",
          width: "80px",
          right: true,
          cell: (t) => percent(Number(t.bytecodes[0]), all),
        },
        {
          key: "calls",
          title: "Calls",
          width: "120px",
          right: true,
          sort: number((t) => Number(t.calls)),
          cell: (t) => least(Number(t.calls), bound(t)),
        },
        {
          key: "gaps",
          title: "Gaps",
          width: "minmax(80px, 1fr)",
          right: true,
          sort: number(gaps),
          cell: (t) =>
            gaps(t) ? t.gaps.map(([reason, n]) => `${whole(Number(n))} ${reason}`).join(", ") : "0",
        },
        {
          key: "unresolved",
          title: "Unresolved",
          width: "90px",
          right: true,
          sort: number((t) => Number(t.unresolved)),
          cell: (t) => whole(Number(t.unresolved)),
        },
        {
          key: "orphans",
          title: "Orphans",
          width: "80px",
          right: true,
          sort: number((t) => Number(t.orphans)),
          cell: (t) => whole(Number(t.orphans)),
          hint: "Bytecodes of unknown frames",
        },
        {
          key: "inferred",
          title: "Inferred",
          width: "90px",
          right: true,
          sort: number((t) => Number(t.bytecodes[1]) + Number(t.bytecodes[2])),
          cell: (t) => whole(Number(t.bytecodes[1]) + Number(t.bytecodes[2])),
          hint: "Bytecodes known by placing or filling",
        },
      ],
      { empty: "The totals of the threads are not in this page." },
    );
    grid.show(D.threads);
    grid.box.classList.add("below");
    grid.box.style.height = 30 + ROW * Math.min(Math.max(1, D.threads.length) + 0.5, 9) + "px";
    return grid.box;
  }
  move(e) {
    const b = this.bucketAt(e);
    const lane = Math.floor((this.view.at(e)[1] + this.view.box.scrollTop - AXIS) / this.tall);
    if (this.drag && b !== null) {
      this.drag[1] = b;
      this.view.redraw();
    }
    const t = this.lanes()[lane];
    if (b === null || !t) return tip.hide();
    tip.show(e.clientX, e.clientY, ...this.describe(t, b));
  }
  drop() {
    if (!this.drag) return;
    const [a, b] = [Math.min(...this.drag), Math.max(...this.drag) + 1];
    this.drag = null;
    if (b - a >= 4) this.zoom([a, b]);
    else this.view.redraw();
  }
  zoom(range) {
    this.past.push(this.range);
    this.range = range;
    this.placed();
    this.view.paint();
  }
  unzoom() {
    if (!this.past.length) return false;
    this.range = this.past.pop();
    this.placed();
    this.view.paint();
    return true;
  }
  placed() {
    const o = D.overview,
      bucket = Number(o.width),
      [a, b] = this.range.map((n) => Number(o.start) + n * bucket - SPAN.from);
    this.back.disabled = !this.past.length;
    this.where.textContent = `${duration(a)} to ${duration(b)} · ${duration(bucket)} per bucket · drag to zoom`;
    this.where.title = "A bytecode counts at the last known time before it.";
  }
  key(e) {
    const lanes = this.lanes(),
      [from, to] = this.range;
    if (!this.cursor) this.cursor = { lane: 0, bucket: Math.floor((from + to) / 2) };
    const k = this.cursor,
      by = Math.max(1, Math.round((to - from) / (e.shiftKey ? 20 : 200)));
    if (e.key === "ArrowRight") k.bucket += by;
    else if (e.key === "ArrowLeft") k.bucket -= by;
    else if (e.key === "ArrowDown") k.lane++;
    else if (e.key === "ArrowUp") k.lane--;
    else if (e.key === "Enter") {
      const half = Math.max(4, (to - from) / 8),
        low = clamp(Math.floor(k.bucket - half), 0, D.overview.buckets - 8);
      this.zoom([low, clamp(Math.ceil(low + 2 * half), low + 8, D.overview.buckets)]);
    } else if (e.key === "Escape") {
      if (!this.unzoom()) return;
    } else return;
    e.preventDefault();
    e.stopPropagation();
    k.lane = clamp(k.lane, 0, Math.max(0, lanes.length - 1));
    k.bucket = clamp(k.bucket, this.range[0], this.range[1] - 1);
    const tall = this.tall,
      y = AXIS + k.lane * tall,
      box = this.view.box;
    if (y - AXIS < box.scrollTop) box.scrollTop = y - AXIS;
    else if (y + tall > box.scrollTop + this.view.height) box.scrollTop = y + tall - this.view.height;
    const t = lanes[k.lane];
    if (t) {
      const r = box.getBoundingClientRect(),
        x0 = Math.min(NAMES, this.view.width / 3);
      const x =
        r.left +
        x0 +
        ((k.bucket - this.range[0]) / (this.range[1] - this.range[0])) * (this.view.width - x0 - 8);
      tip.show(x, r.top + y - box.scrollTop, ...this.describe(t, k.bucket));
      say(
        `${t.name}, ${duration(Number(D.overview.start) + k.bucket * Number(D.overview.width) - SPAN.from)}, ` +
          `${whole(t.tiers.reduce((sum, tier) => sum + tier[k.bucket], 0))} bytecodes`,
      );
    }
    this.view.redraw();
  }
}
