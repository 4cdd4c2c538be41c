// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
// How the frames of a flame graph are placed, painted and described.

const FRAME = 19;

/// The painting half of the flame graph.
class Frames {
  /// Deepest row drawn, from the last painting.
  contentHeight() {
    return ((this.depth || 1) + 1) * FRAME + 6;
  }
  ancestors(id) {
    const out = [];
    for (let p = id; p >= 0; p = this.graph.parent[p]) out.unshift(p);
    return out;
  }
  /// Computes the rectangles: x, width, row, node; node -1 for children that are too small.
  layout(width) {
    const g = this.graph,
      w = this.state.weight,
      total = g.total[w];
    const rects = [];
    const chain = this.ancestors(this.zoomed);
    chain.forEach((id, row) => rects.push({ x: 0, w: width, row, id }));
    const whole = total[this.zoomed];
    let deepest = chain.length - 1;
    if (whole > 0) {
      const scale = width / whole;
      const stack = [[this.zoomed, 0, chain.length]];
      while (stack.length) {
        const [id, x, row] = stack.pop();
        const kids = g.children(id, w);
        let at = x,
          rest = 0;
        for (let i = 0; i < kids.length; i++) {
          const size = total[kids[i]] * scale;
          if (size < 0.6) {
            for (; i < kids.length; i++) rest += total[kids[i]] * scale;
            break;
          }
          rects.push({ x: at, w: size, row, id: kids[i] });
          deepest = Math.max(deepest, row);
          stack.push([kids[i], at, row + 1]);
          at += size;
        }
        if (rest >= 0.6) {
          rects.push({ x: at, w: rest, row, id: -1 });
          deepest = Math.max(deepest, row);
        }
      }
    }
    this.depth = deepest + 1;
    return rects;
  }
  draw(c, width, height, scroll) {
    const key = [
      this.zoomed,
      this.state.weight,
      width,
      this.state.callers,
      this.state.source,
      this.state.entry,
    ].join(" ");
    if (key !== this.laidOut) {
      this.rects = this.layout(width);
      this.laidOut = key;
      this.view.spacer.style.height = Math.max(0, this.contentHeight() - height) + "px";
    }
    const up = this.state.up,
      bottom = Math.max(height, this.contentHeight());
    c.textBaseline = "middle";
    c.textAlign = "left";
    c.font = "11.5px " + FONT;
    const colours = this.colours();
    for (const r of this.rects) {
      const y = (up ? bottom - (r.row + 1) * FRAME - 2 : r.row * FRAME + 2) - scroll;
      r.y = y;
      if (y > height || y < -FRAME) continue;
      this.frame(c, r, y, colours);
    }
  }
  frame(c, r, y, colours) {
    const g = this.graph,
      gap = r.w > 3 ? 1 : 0;
    const x = r.x,
      w = Math.max(0.6, r.w - gap),
      h = FRAME - 2;
    if (r.id < 0) {
      c.fillStyle = palette.soft;
      c.fillRect(x, y, w, h);
      return;
    }
    const dimmed = this.hits && !this.hits.has(g.key(r.id));
    const hit = this.hits && !dimmed;
    const above = this.zoomed !== r.id && r.row < this.zoomRow();
    c.globalAlpha = dimmed ? 0.32 : above ? 0.6 : 1;
    c.fillStyle = hit ? palette.hit : colours(r.id);
    c.fillRect(x, y, w, h);
    // The shares of the tiers, below the name.
    if (!hit && r.w > 24 && this.state.colour === "tier") {
      const t = [0, 1, 2].map((i) => g.totalTiers[i][r.id]);
      const sum = t[0] + t[1] + t[2];
      let at = x;
      for (let i = 0; sum > 0 && i < 3; i++) {
        const part = (t[i] / sum) * w;
        c.fillStyle = palette[TIERS[i][0]];
        c.fillRect(at, y + h - 2, part, 2);
        at += part;
      }
    }
    if (r.w > 28) {
      c.fillStyle = hit ? palette["hit-text"] : palette.text;
      const label = g.label(r.id);
      const text = label[0] === "(" || r.id === 0 ? label : shortName(label);
      const wide = w > text.length * 7 + 80;
      c.fillText(clipText(c, text, w - 8), x + 4, y + h / 2 - 0.5);
      if (wide) {
        const value = g.total[this.state.weight][r.id];
        c.textAlign = "right";
        c.globalAlpha *= 0.72;
        c.fillText(
          (g.inexact(r.id) ? "≥ " : "") + (this.state.weight === 2 ? duration(value) : brief(value)),
          x + w - 5,
          y + h / 2 - 0.5,
        );
        c.textAlign = "left";
      }
    }
    c.globalAlpha = 1;
    if (r.id === this.current || r.id === this.hovered) {
      c.lineWidth = r.id === this.current ? 2 : 1;
      c.strokeStyle = palette.select;
      c.strokeRect(x + c.lineWidth / 2, y + c.lineWidth / 2, Math.max(0, w - c.lineWidth), h - c.lineWidth);
    }
  }
  zoomRow() {
    return this.zoomRows === undefined ? 0 : this.zoomRows;
  }
  colours() {
    const g = this.graph;
    if (this.state.colour === "package") {
      const dark = document.documentElement.dataset.theme === "dark";
      this.hues = this.hues || new Map();
      return (id) => {
        const label = g.label(id);
        if (label[0] === "(" || id === 0) return palette["none-f"];
        const p = nameParts(label).package.split(".").slice(0, 3).join(".");
        if (!this.hues.has(p)) {
          let h = 7;
          for (const ch of p) h = (h * 31 + ch.codePointAt(0)) % 3607;
          this.hues.set(p, h % 360);
        }
        return dark ? `hsl(${this.hues.get(p)} 34% 33%)` : `hsl(${this.hues.get(p)} 58% 81%)`;
      };
    }
    return (id) => {
      const kind = g.kind(id);
      if (id === 0 || "rokm".includes(kind)) return palette["none-f"];
      const t = [0, 1, 2].map((i) => g.totalTiers[i][id]);
      const most = Math.max(...t);
      if (!most) return palette["native-f"];
      return palette[TIERS[t.indexOf(most)][0] + "-f"];
    };
  }
  hit(e) {
    const [x, y] = this.view.at(e);
    for (const r of this.rects)
      if (r.id >= 0 && y >= r.y && y < r.y + FRAME && x >= r.x && x < r.x + Math.max(1, r.w)) return r.id;
    return -1;
  }
  /// The figures of a node as elements.
  describe(id) {
    const g = this.graph,
      inexact = g.inexact(id),
      own = (g.rareOf("inexact", id) || (D.meta.blind ? 1 : 0)) > 0;
    const figures = WEIGHTS.map(([, title], w) => {
      if (w === 2 && !g.source.hasTicks) return null;
      const text = w === 2 ? duration : whole;
      const row = (label, n, bound, extra) =>
        el(
          "tr",
          { class: extra },
          el("th", { scope: "row" }, label),
          el("td", {}, (bound ? "≥ " : "") + text(n)),
          el("td", {}, (bound && g.total[w][0] > 0 ? "≈ " : "") + percent(n, g.total[w][0])),
        );
      // A thread has no bytecodes of its own: they are those of its frames.
      return [row(title, g.total[w][id], inexact, "total"), id > 0 && row("own", g.own[w][id], own, "own")];
    });
    const table = el("table", { class: "figures" }, el("tbody", {}, figures));
    const rows = [];
    const tiers = [0, 1, 2].map((i) => g.totalTiers[i][id]);
    const sum = tiers[0] + tiers[1] + tiers[2];
    for (let i = 0; i < 3 && sum > 0; i++)
      rows.push([
        el("span", {}, el("i", { class: "dot " + TIERS[i][0] }), TIERS[i][1]),
        el("span", {}, whole(tiers[i]), el("small", {}, "  " + percent(tiers[i], sum))),
      ]);
    const rare = (key) => g.rareOf(key, id);
    const max = g.rareOf("max", id);
    if (rare("stretches"))
      rows.push([
        "Unresolved",
        `${plural(rare("stretches"), "stretch", "stretches")}: ` +
          `${whole(rare("min"))} to ${max === Infinity ? "any number of" : whole(max)} bytecodes hidden`,
      ]);
    if (rare("found"))
      rows.push(["Found", `${plural(rare("found"), "activation")} whose beginning was not seen`]);
    if (rare("unstarted")) rows.push(["Unstarted", plural(rare("unstarted"), "activation")]);
    if (rare("inferred"))
      rows.push(["Inferred", `${plural(rare("inferred"), "bytecode")} by placing or filling`]);
    if (rare("blocks")) rows.push(["By whole blocks", whole(rare("blocks"))]);
    if (rare("folded"))
      rows.push(["Folded", `${plural(rare("folded"), "node")} of the tree; their sums are kept`]);
    const kind = g.kind(id),
      note = id === 0 ? "" : KINDS[kind];
    const site = g.source.site.get(g.sample[id]);
    if (site && !this.state.callers)
      rows.push([
        "Call site",
        `bci ${site - 1}` +
          (g.source.line.get(g.sample[id]) ? `, line ${g.source.line.get(g.sample[id])}` : ""),
      ]);
    const label = g.label(id);
    return [
      el("div", { class: "head" }, id === 0 || label[0] === "(" ? label : nameElement(label)),
      note && kind !== "c" && el("div", { class: "dim" }, note),
      table,
      rows.length > 0 && facts(rows),
    ].filter(Boolean);
  }
}
