// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
// What the compilers did, over time.

const EVENTS = [
  ["installed", "Installed"],
  ["not-entrant", "Made not entrant"],
  ["unloaded", "Unloaded"],
  ["deoptimised", "Deoptimised"],
];
const LEVELS = ["native wrapper", "C1, tier 1", "C1, tier 2", "C1, tier 3", "C2, tier 4"];
const DOTS = 58;

class JitTab {
  constructor(app) {
    this.app = app;
    this.on = [true, true, true, true];
    this.fits = () => true;
    this.chosen = -1;
  }
  build() {
    const j = D.jit;
    if (!j || !j.at.length)
      return el(
        "section",
        { class: "pane" },
        el(
          "p",
          { class: "empty" },
          j
            ? "No code was compiled."
            : "Events of compiled code are not in this page: they were not asked for.",
        ),
      );
    const at = deltas(j.at),
      id = deltas(j.id),
      osr = sparse(j.osr),
      detail = sparse(j.detail);
    this.events = Array.from(at, (t, i) => ({
      i,
      at: t,
      kind: Number(j.kinds[i]),
      level: Number(j.levels[i]),
      name: D.text[j.method[i]],
      id: id[i],
      osr: osr.has(i) ? osr.get(i) - 1 : -1,
      size: Number(j.size[i]),
      detail: detail.has(i) ? D.text[detail.get(i) - 1] : "",
    }));
    this.levels = [4, 3, 2, 1, 0].filter((l) => this.events.some((e) => e.level === l));
    const by = (of) => (a, b) => of(a) - of(b);
    this.grid = new Grid(
      "Events of compiled code",
      [
        {
          key: "at",
          title: "Time",
          width: "100px",
          right: true,
          down: false,
          sort: by((e) => e.at),
          cell: (e) => duration(e.at - SPAN.from, 4),
        },
        {
          key: "kind",
          title: "Event",
          width: "140px",
          down: false,
          sort: by((e) => e.kind),
          cell: (e) => el("span", {}, el("i", { class: "dot k-" + EVENTS[e.kind][0] }), EVENTS[e.kind][1]),
        },
        {
          key: "level",
          title: "Tier",
          width: "110px",
          sort: by((e) => e.level),
          cell: (e) => LEVELS[e.level] || String(e.level),
        },
        {
          key: "id",
          title: "Id",
          width: "64px",
          right: true,
          down: false,
          sort: by((e) => e.id),
          cell: (e) => String(e.id),
          hint: "The number that -XX:+PrintCompilation shows",
        },
        {
          key: "size",
          title: "Bytes",
          width: "80px",
          right: true,
          sort: by((e) => e.size),
          cell: (e) => (e.size ? whole(e.size) : "–"),
        },
        {
          key: "name",
          title: "Method",
          width: "minmax(240px, 1fr)",
          down: false,
          sort: (a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0),
          cell: (e) =>
            el(
              "span",
              { class: "clip" },
              nameElement(e.name),
              e.osr >= 0 && el("span", { class: "tag" }, `OSR @ ${e.osr}`),
              e.detail && el("span", { class: "dim" }, "  " + e.detail),
            ),
        },
      ],
      {
        order: { key: "at", down: false },
        empty: "No event matches.",
        select: (e) => {
          this.chosen = e.i;
          this.view.redraw();
        },
        open: (e) => {
          const m = D.methods.find((x) => x.name === e.name);
          if (m) this.app.openMethod(m);
        },
      },
    );
    this.view = new Canvas("Compilations over time. The table has all events.", {
      class: "jit",
      draw: (...a) => this.draw(...a),
      contentHeight: () => AXIS + this.levels.length * DOTS + 6,
      role: "img",
    });
    this.view.box.style.flexBasis = AXIS + this.levels.length * DOTS + 8 + "px";
    this.view.box.addEventListener("mousemove", (e) => this.hover(e));
    this.view.box.addEventListener("mouseleave", () => tip.hide());
    this.view.box.addEventListener("click", (e) => {
      const event = this.near(e);
      if (!event) return;
      this.chosen = event.i;
      const i = this.grid.rows.indexOf(event);
      if (i >= 0) this.grid.choose(i, true);
      this.view.redraw();
    });
    const counts = EVENTS.map((_, k) => this.events.filter((e) => e.kind === k).length);
    const toggles = EVENTS.map(([key, title], k) => {
      const unknown = j.unknown.includes(k);
      const b = el(
        "button",
        {
          type: "button",
          class: "plain",
          "aria-pressed": "true",
          disabled: unknown,
          title: unknown ? "The capture does not tell this" : null,
          onclick: () => {
            this.on[k] = !this.on[k];
            b.setAttribute("aria-pressed", String(this.on[k]));
            this.filter();
          },
        },
        el("i", { class: "dot k-" + key }),
        `${title} `,
        el("span", { class: "dim" }, unknown ? "unknown" : whole(counts[k])),
      );
      return b;
    });
    const field = filterField("Filter events  ( / )", (fits) => {
      this.fits = fits;
      this.filter();
    });
    this.count = el("span", { class: "dim" });
    this.filter();
    return el(
      "section",
      { class: "pane column" },
      el("div", { class: "bar-tools" }, field, this.count, el("span", { class: "grow" }), toggles),
      j.left > 0 &&
        el(
          "p",
          { class: "banner" },
          `${plural(j.left, "event")} were left out to keep this page small, deoptimised frames first.`,
        ),
      this.view.box,
      this.grid.box,
    );
  }
  filter() {
    this.shown = this.events.filter((e) => this.on[e.kind] && this.fits(e.name + " " + e.detail));
    this.grid.show(this.shown);
    this.count.textContent = plural(this.shown.length, "event");
    this.view.redraw();
  }
  place(e, width) {
    const x0 = Math.min(110, width / 4),
      row = this.levels.indexOf(e.level);
    const x = x0 + ((e.at - SPAN.from) / (SPAN.to - SPAN.from)) * (width - x0 - 12);
    // Spread over the lane by the compilation, so that its events share a height.
    const y = AXIS + row * DOTS + 8 + ((e.id * 37) % (DOTS - 16));
    return [x, y];
  }
  draw(c, width, height, scroll) {
    const x0 = Math.min(110, width / 4);
    c.font = "12px " + FONT;
    c.textBaseline = "middle";
    c.textAlign = "left";
    this.levels.forEach((l, i) => {
      const y = AXIS + i * DOTS - scroll;
      c.fillStyle = palette.line;
      c.fillRect(0, y + DOTS - 1, width, 1);
      c.fillStyle = palette.text;
      c.fillText(LEVELS[l] || `Level ${l}`, 10, y + DOTS / 2);
    });
    timeAxis(c, SPAN.from, SPAN.to, SPAN.from, [x0, 0, width - x0 - 12, AXIS], height);
    c.fillStyle = palette.line;
    c.fillRect(0, AXIS - 1, width, 1);
    const colours = [palette.c2, palette.int, palette.unknown, palette.lost];
    for (const e of this.shown) {
      const [x, y0] = this.place(e, width),
        y = y0 - scroll;
      c.fillStyle = colours[e.kind];
      c.globalAlpha = 0.75;
      if (e.kind === 0) c.fillRect(x - 1.5, y - 1.5, 3, 3);
      else if (e.kind === 3) {
        c.beginPath();
        c.moveTo(x, y - 4);
        c.lineTo(x + 4, y + 3);
        c.lineTo(x - 4, y + 3);
        c.fill();
      } else {
        c.beginPath();
        c.arc(x, y, 2, 0, 7);
        c.fill();
      }
    }
    c.globalAlpha = 1;
    const chosen = this.events[this.chosen];
    if (chosen) {
      const [x, y] = this.place(chosen, width);
      c.strokeStyle = palette.select;
      c.lineWidth = 1.5;
      c.strokeRect(x - 5, y - scroll - 5, 10, 10);
    }
  }
  near(event) {
    const [px, py] = this.view.at(event),
      scroll = this.view.box.scrollTop;
    let best = null,
      distance = 36;
    for (const e of this.shown) {
      const [x, y] = this.place(e, this.view.width),
        d = (x - px) ** 2 + (y - scroll - py) ** 2;
      if (d < distance) {
        distance = d;
        best = e;
      }
    }
    return best;
  }
  hover(event) {
    const e = this.near(event);
    if (!e) return tip.hide();
    tip.show(
      event.clientX,
      event.clientY,
      el("div", { class: "head" }, nameElement(e.name)),
      facts([
        ["Event", EVENTS[e.kind][1]],
        ["Time", duration(e.at - SPAN.from, 4)],
        ["Tier", LEVELS[e.level] || String(e.level)],
        ["Compilation", String(e.id)],
        e.osr >= 0 && ["OSR entry", `bci ${e.osr}`],
        e.size > 0 && ["Code", `${whole(e.size)} bytes`],
        e.detail && ["Reason", e.detail],
      ]),
    );
  }
}
