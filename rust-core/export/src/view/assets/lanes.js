// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
// How the threads over time are painted.

const AXIS = 24,
  NAMES = 190;

/// The painting half of the overview.
class Lanes {
  decode(t) {
    const n = D.overview.buckets,
      at = deltas(t.at);
    const spread = (list, map) => {
      const out = new Float64Array(n);
      if (list && list.length) for (let i = 0; i < at.length; i++) out[at[i]] = Number(list[i]);
      if (map) for (const [row, value] of sparse(map)) out[at[row]] = value;
      return out;
    };
    const tiers = t.tiers.map((list) => spread(list));
    const sum = (list) => list.reduce((a, b) => a + b, 0);
    const gaps = spread(null, t.gaps);
    return {
      ...t,
      tiers,
      native: spread(t.native),
      lost: spread(t.lost),
      cores: spread(t.cores),
      gapsAt: gaps,
      inferred: spread(null, t.inferred),
      orphans: spread(null, t.orphans),
      unresolved: spread(null, t.unresolved),
      bytecodes: tiers.reduce((a, list) => a + sum(list), 0) + Number(t.before[0]),
      gapCount: sum(gaps) + Number(t.before[1]),
    };
  }
  /// The height of a lane: few threads share the room.
  get tall() {
    return clamp(Math.floor((this.view.height - AXIS - 4) / Math.max(1, this.lanes().length)), 46, 92);
  }
  lanes() {
    return this.idle ? this.threads : this.threads.filter((t) => t.bytecodes > 0 || t.gapCount > 0);
  }
  draw(c, width, height, scroll) {
    const [from, to] = this.range,
      o = D.overview,
      lanes = this.lanes(),
      tall = this.tall;
    const x0 = Math.min(NAMES, width / 3),
      w = width - x0 - 8;
    const start = Number(o.start),
      bucket = Number(o.width);
    const xOf = (b) => x0 + ((b - from) / (to - from)) * w;
    // As many columns as pixels, each with the sums of its buckets.
    const columns = Math.min(Math.floor(w), to - from);
    const axis = (grid) =>
      timeAxis(c, start + from * bucket, start + to * bucket, SPAN.from, [x0, 0, w, AXIS], grid);
    axis(height);
    lanes.forEach((t, n) => {
      const y = AXIS + n * tall - scroll;
      if (y > height || y < -tall) return;
      this.lane(c, t, [x0, y, w, tall], columns, n === (this.cursor ? this.cursor.lane : -1));
    });
    c.fillStyle = palette.panel;
    c.fillRect(0, 0, width, AXIS);
    axis(AXIS);
    c.fillStyle = palette.line;
    c.fillRect(0, AXIS - 1, width, 1);
    if (this.drag) {
      const [a, b] = [Math.min(...this.drag), Math.max(...this.drag) + 1].map(xOf);
      c.fillStyle = palette.accent;
      c.globalAlpha = 0.18;
      c.fillRect(a, AXIS, b - a, height);
      c.globalAlpha = 1;
    }
    if (this.cursor) {
      const x = xOf(this.cursor.bucket);
      c.strokeStyle = palette.select;
      c.lineWidth = 1.5;
      c.strokeRect(
        x - 1,
        AXIS + this.cursor.lane * tall - scroll + 3,
        Math.max(3, w / (to - from)) + 2,
        tall - 6,
      );
    }
  }
  lane(c, t, [x0, y, w, tall], columns, chosen) {
    const [from, to] = this.range,
      o = D.overview,
      top = y + 5,
      h = tall - 17;
    c.fillStyle = palette.line;
    c.fillRect(0, y + tall - 1, x0 + w + 8, 1);
    c.font = (chosen ? "600 " : "") + "12px " + FONT;
    c.textBaseline = "middle";
    c.textAlign = "left";
    c.fillStyle = palette.text;
    c.fillText(clipText(c, t.name || "(no name)", x0 - 16), 10, y + tall / 2 - 8);
    c.font = "11px " + FONT;
    c.fillStyle = palette.dim;
    c.fillText(
      clipText(c, `tid ${t.tid} · ${t.gapCount ? "≥ " : ""}${brief(t.bytecodes)} bytecodes`, x0 - 16),
      10,
      y + tall / 2 + 8,
    );
    const most = this.most();
    const step = (to - from) / columns,
      pixel = w / columns;
    for (let i = 0; i < columns; i++) {
      const a = Math.floor(from + i * step),
        b = Math.max(a + 1, Math.floor(from + (i + 1) * step));
      let sum = [0, 0, 0],
        lost = 0,
        cores = 0,
        inferred = 0,
        other = 0;
      for (let n = a; n < b; n++) {
        for (let k = 0; k < 3; k++) sum[k] += t.tiers[k][n];
        lost += t.lost[n];
        cores += t.cores[n];
        inferred += t.inferred[n];
        other += t.orphans[n];
      }
      const x = x0 + i * pixel,
        wide = Math.max(1, pixel + 0.3),
        ticks = (b - a) * Number(o.width);
      if (lost) {
        c.fillStyle = palette.lost;
        c.globalAlpha = 0.16 + 0.2 * Math.min(1, lost / ticks);
        c.fillRect(x, top, wide, h);
        c.globalAlpha = 1;
      }
      let base = top + h;
      for (let k = 0; k < 3; k++) {
        if (!sum[k]) continue;
        const high = Math.max(0.5, (sum[k] / ((b - a) * most)) * h);
        c.fillStyle = palette[TIERS[k][0]];
        c.fillRect(x, base - high, wide, high);
        base -= high;
      }
      if (other) {
        c.fillStyle = palette.unknown;
        c.fillRect(x, base - 2, wide, 2);
      }
      // The strip below: what is known of the time.
      const strip = top + h + 2;
      if (o.cores && cores) {
        c.fillStyle = palette.on;
        c.globalAlpha = 0.25 + 0.75 * Math.min(1, cores / ticks);
        c.fillRect(x, strip, wide, 4);
        c.globalAlpha = 1;
      }
      if (inferred) {
        c.fillStyle = palette.mixed;
        c.fillRect(x, strip, wide, 4);
      }
      if (lost) {
        c.fillStyle = palette.lost;
        c.fillRect(x, strip, wide, 4);
      }
    }
  }
  /// The most bytecodes of a bucket in sight: the height of a lane.
  most() {
    const key = this.range.join(" ");
    if (this.mostOf === key) return this.mostIs;
    const [from, to] = this.range,
      all = [];
    for (const t of this.threads)
      for (let n = Math.floor(from); n < to; n++) {
        const s = t.tiers[0][n] + t.tiers[1][n] + t.tiers[2][n];
        if (s) all.push(s);
      }
    all.sort((a, b) => a - b);
    // One extreme bucket must not flatten the others.
    this.mostIs = Math.max(1, all.length ? all[Math.floor((all.length - 1) * 0.995)] : 1);
    this.mostOf = key;
    return this.mostIs;
  }
  bucketAt(e) {
    const [x] = this.view.at(e),
      width = this.view.width,
      x0 = Math.min(NAMES, width / 3),
      w = width - x0 - 8;
    if (x < x0 || x > x0 + w) return null;
    return clamp(
      Math.floor(this.range[0] + ((x - x0) / w) * (this.range[1] - this.range[0])),
      0,
      D.overview.buckets - 1,
    );
  }
  describe(t, b) {
    const o = D.overview,
      bucket = Number(o.width),
      at = Number(o.start) + b * bucket - SPAN.from;
    const sum = t.tiers[0][b] + t.tiers[1][b] + t.tiers[2][b];
    const rows = [
      ["Time", `${duration(at)} + ${duration(bucket)}`],
      ["Bytecodes", el("b", {}, least(sum, t.lost[b] > 0 || t.unresolved[b] > 0 || t.orphans[b] > 0))],
    ];
    for (let i = 0; i < 3 && sum; i++)
      rows.push([
        TIERS[i][1],
        el(
          "span",
          {},
          el("i", { class: "dot " + TIERS[i][0] }),
          whole(t.tiers[i][b]),
          el("small", {}, " " + percent(t.tiers[i][b], sum)),
        ),
      ]);
    if (t.native[b]) rows.push(["Native calls", whole(t.native[b])]);
    rows.push(["On a core", o.cores ? percent(t.cores[b], bucket) : "unknown"]);
    if (t.lost[b]) rows.push(["Trace lost", percent(t.lost[b], bucket) + " of the time"]);
    if (t.gapsAt[b]) rows.push(["Gaps", whole(t.gapsAt[b])]);
    if (t.unresolved[b]) rows.push(["Unresolved", whole(t.unresolved[b])]);
    if (t.orphans[b]) rows.push(["Unknown frames", plural(t.orphans[b], "bytecode")]);
    if (t.inferred[b]) rows.push(["Inferred", plural(t.inferred[b], "bytecode")]);
    return [el("div", { class: "head" }, t.name || "(no name)"), facts(rows)];
  }
}
