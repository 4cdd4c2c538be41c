// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
// The flame graph.

const FRAME = 19;

class Flame {
  constructor(app) {
    this.app = app;
    this.sources = D.trees.map((raw) => new Source(raw));
    this.state = { source: 0, entry: null, weight: 0, callers: false, up: false, colour: "tier" };
    this.graphs = new Map();
    this.zoomed = 0;
    this.current = 0;
    this.past = [];
    this.query = "";
    this.rects = [];
    this.hovered = -1;
  }
  build() {
    if (!this.sources.length || !this.sources[0].count) {
      return el("section", { class: "pane" }, el("p", { class: "empty" }, "This page has no call tree: it was not asked for. Unknown, not empty."));
    }
    const s = this.state;
    const pick = el("select", { "aria-label": "Which calls", title: "Which thread or request" });
    this.sources.forEach((source, n) => {
      const group = el("optgroup", { label: source.raw.title });
      if (source.entries.length > 1) group.append(el("option", { value: `${n} all` }, `All ${source.raw.title.toLowerCase()}, merged`));
      source.entries.forEach((e, i) => group.append(el("option", { value: `${n} ${i}` }, e.name + (e.tid ? ` (${e.tid})` : "") + (e.exact ? "" : " ≥"))));
      pick.append(group);
    });
    pick.addEventListener("change", () => {
      const [n, entry] = pick.value.split(" ");
      s.source = Number(n);
      s.entry = entry === "all" ? null : Number(entry);
      this.reset();
    });
    if (this.sources[0].entries.length === 1) s.entry = 0;
    const weights = WEIGHTS.map(([key, title], i) => [i, title, key === "ticks" ? "The width of a frame is its time on a core" : `The width of a frame is its number of ${key}`])
      .filter(([i]) => i < 2 || this.sources.some((source) => source.hasTicks));
    this.search = el("input", { type: "search", placeholder: "Search methods  ( / )", "aria-label": "Search methods", "data-search": true, spellcheck: "false", autocomplete: "off" });
    this.search.addEventListener("input", () => this.find(this.search.value));
    this.search.addEventListener("keydown", (e) => { if (e.key === "Enter") { this.toHeaviestMatch(); e.preventDefault(); } });
    this.found = el("output", { class: "found dim", "aria-live": "polite" });
    this.upChoice = choices("Direction", [[false, "Icicle", "Callers above callees"], [true, "Flame", "Callers below callees"]], s.up, (v) => {
      s.up = v;
      this.view.paint();
      this.scrollTo(this.zoomed);
      this.view.paint();
    });
    this.back = el("button", { type: "button", class: "plain", title: "Back (Escape)", onclick: () => this.unzoom(), disabled: true }, "← Back");
    this.crumbs = el("div", { class: "crumbs", "aria-label": "Path of the zoom" });
    this.view = new Canvas("Flame graph. Arrows move, Enter zooms, Escape goes back.", {
      class: "flame", draw: (...a) => this.draw(...a), contentHeight: () => this.contentHeight(), roleDescription: "flame graph",
    });
    const box = this.view.box;
    box.addEventListener("mousemove", (e) => this.hover(e));
    box.addEventListener("mouseleave", () => { this.hovered = -1; tip.hide(); this.view.redraw(); });
    box.addEventListener("click", (e) => {
      const id = this.hit(e);
      if (id < 0) return;
      this.choose(id);
      this.zoom(id);
    });
    box.addEventListener("keydown", (e) => this.key(e));
    this.legend = legend();
    this.side = el("aside", { class: "side", "aria-label": "Selected frame" });
    this.reset();
    return el("section", { class: "pane column" },
      el("div", { class: "bar-tools" }, pick,
        choices("Weight", weights, 0, (w) => { s.weight = w; this.refresh(); }),
        choices("Order", [[false, "Callees", "Each frame above the methods that it called"], [true, "Callers", "Inverted: each method above its callers"]], false, (v) => { s.callers = v; this.reset(); }),
        this.upChoice,
        choices("Colour", [["tier", "Tiers", "Colour by the tier that executed most"], ["package", "Packages", "Colour by package"]], "tier", (v) => { s.colour = v; this.legend.hidden = v !== "tier"; this.view.redraw(); }),
        el("span", { class: "grow" }), this.found, this.search),
      el("div", { class: "bar-tools thin" }, this.back, this.crumbs, el("span", { class: "grow" }), this.legend),
      el("div", { class: "split" }, box, this.side));
  }
  get graph() {
    const s = this.state, key = `${s.source} ${s.entry}`;
    if (!this.graphs.has(key)) this.graphs.set(key, { down: graphOf(this.sources[s.source], s.entry) });
    const pair = this.graphs.get(key);
    if (!s.callers) return pair.down;
    if (!pair.up) pair.up = new Inverted(pair.down);
    return pair.up;
  }
  reset() {
    this.zoomed = 0;
    this.current = 0;
    this.past = [];
    this.find(this.query, true);
    this.refresh();
    if (this.view) this.view.box.scrollTop = this.state.up ? 1e9 : 0;
  }
  refresh() {
    this.hovered = -1;
    this.path();
    this.details(this.current);
    if (this.view) this.view.paint();
    this.share();
  }
  /// Deepest row drawn, from the last painting.
  contentHeight() { return ((this.depth || 1) + 1) * FRAME + 6; }
  ancestors(id) {
    const out = [];
    for (let p = id; p >= 0; p = this.graph.parent[p]) out.unshift(p);
    return out;
  }
  /// Computes the rectangles: x, width, row, node; node -1 for children that are too small.
  layout(width) {
    const g = this.graph, w = this.state.weight, total = g.total[w];
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
        let at = x, rest = 0;
        for (let i = 0; i < kids.length; i++) {
          const size = total[kids[i]] * scale;
          if (size < 0.6) { for (; i < kids.length; i++) rest += total[kids[i]] * scale; break; }
          rects.push({ x: at, w: size, row, id: kids[i] });
          deepest = Math.max(deepest, row);
          stack.push([kids[i], at, row + 1]);
          at += size;
        }
        if (rest >= 0.6) { rects.push({ x: at, w: rest, row, id: -1 }); deepest = Math.max(deepest, row); }
      }
    }
    this.depth = deepest + 1;
    return rects;
  }
  draw(c, width, height, scroll) {
    const key = [this.zoomed, this.state.weight, width, this.state.callers, this.state.source, this.state.entry].join(" ");
    if (key !== this.laidOut) {
      this.rects = this.layout(width);
      this.laidOut = key;
      this.view.spacer.style.height = Math.max(0, this.contentHeight() - height) + "px";
    }
    const up = this.state.up, bottom = Math.max(height, this.contentHeight());
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
    const g = this.graph, gap = r.w > 3 ? 1 : 0;
    const x = r.x, w = Math.max(0.6, r.w - gap), h = FRAME - 2;
    if (r.id < 0) { c.fillStyle = palette.soft; c.fillRect(x, y, w, h); return; }
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
        c.fillText((g.inexact(r.id) ? "≥ " : "") + (this.state.weight === 2 ? duration(value) : brief(value)), x + w - 5, y + h / 2 - 0.5);
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
  zoomRow() { return this.zoomRows === undefined ? 0 : this.zoomRows; }
  colours() {
    const g = this.graph;
    if (this.state.colour === "package") {
      const dark = document.documentElement.dataset.theme === "dark";
      this.hues = this.hues || new Map();
      return (id) => {
        const label = g.label(id);
        if (label[0] === "(" || id === 0) return palette["none-f"];
        const p = nameParts(label).package.split(".").slice(0, 3).join(".");
        if (!this.hues.has(p)) { let h = 7; for (const ch of p) h = (h * 31 + ch.codePointAt(0)) % 3607; this.hues.set(p, h % 360); }
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
    for (const r of this.rects) if (r.id >= 0 && y >= r.y && y < r.y + FRAME && x >= r.x && x < r.x + Math.max(1, r.w)) return r.id;
    return -1;
  }
  hover(e) {
    const id = this.hit(e);
    if (id !== this.hovered) { this.hovered = id; this.view.redraw(); }
    if (id < 0) return tip.hide();
    tip.show(e.clientX, e.clientY, ...this.describe(id));
  }
  /// The figures of a node as elements.
  describe(id) {
    const g = this.graph, inexact = g.inexact(id), own = (g.rareOf("inexact", id) || (D.meta.blind ? 1 : 0)) > 0;
    const figures = WEIGHTS.map(([, title], w) => {
      if (w === 2 && !g.source.hasTicks) return null;
      const text = w === 2 ? duration : whole;
      const row = (label, n, bound, extra) => el("tr", { class: extra }, el("th", { scope: "row" }, label), el("td", {}, (bound ? "≥ " : "") + text(n)), el("td", {}, (bound && g.total[w][0] > 0 ? "≈ " : "") + percent(n, g.total[w][0])));
      // A thread has no bytecodes of its own: they are those of its frames.
      return [row(title, g.total[w][id], inexact, "total"), id > 0 && row("own", g.own[w][id], own, "own")];
    });
    const table = el("table", { class: "figures" }, el("tbody", {}, figures));
    const rows = [];
    const tiers = [0, 1, 2].map((i) => g.totalTiers[i][id]);
    const sum = tiers[0] + tiers[1] + tiers[2];
    for (let i = 0; i < 3 && sum > 0; i++) rows.push([el("span", {}, el("i", { class: "dot " + TIERS[i][0] }), TIERS[i][1]), el("span", {}, whole(tiers[i]), el("small", {}, "  " + percent(tiers[i], sum)))]);
    const rare = (key) => g.rareOf(key, id);
    const max = g.rareOf("max", id);
    if (rare("stretches")) rows.push(["Unresolved", `${plural(rare("stretches"), "stretch").replace(/stretchs$/, "stretches")}, ${whole(rare("min"))} to ${max === Infinity ? "any number of" : whole(max)} bytecodes hidden`]);
    if (rare("found")) rows.push(["Found", `${plural(rare("found"), "activation")} whose beginning was not seen`]);
    if (rare("unstarted")) rows.push(["Unstarted", plural(rare("unstarted"), "activation")]);
    if (rare("inferred")) rows.push(["Inferred", `${plural(rare("inferred"), "bytecode")} by placing or filling`]);
    if (rare("blocks")) rows.push(["By whole blocks", whole(rare("blocks"))]);
    if (rare("folded")) rows.push(["Folded", `${plural(rare("folded"), "node")} of the tree; their sums are kept`]);
    const kind = g.kind(id), note = id === 0 ? "" : KINDS[kind];
    const site = g.source.site.get(g.sample[id]);
    if (site && !this.state.callers) rows.push(["Call site", `bci ${site - 1}` + (g.source.line.get(g.sample[id]) ? `, line ${g.source.line.get(g.sample[id])}` : "")]);
    const label = g.label(id);
    return [el("div", { class: "head" }, id === 0 || label[0] === "(" ? label : nameElement(label)), note && kind !== "c" && el("div", { class: "dim" }, note), table, rows.length > 0 && facts(rows)].filter(Boolean);
  }
  details(id) {
    if (!this.side) return;
    const g = this.graph, key = g.key(id);
    const method = key >= 0 ? methodByKey.get(key) : undefined;
    const loader = key >= 0 ? D.loader(key) : "";
    const parts = this.describe(id);
    const path = this.ancestors(id).slice(1, -1).reverse();
    this.side.replaceChildren(
      el("h2", {}, id === 0 ? "All frames" : "Selected frame"), ...parts,
      loader && el("p", { class: "dim" }, "Loader: " + loader),
      method ? el("p", {}, el("button", { type: "button", onclick: () => this.app.openMethod(method) }, "Source and bytecode")) : "",
      key >= 0 ? el("p", {}, el("button", { type: "button", onclick: () => { this.search.value = shortName(D.name(key)); this.find(this.search.value); } }, "Highlight this method")) : "",
      path.length ? el("h3", {}, this.state.callers ? "On the way to" : "Called from") : "",
      path.length ? el("ol", { class: "path" }, path.slice(0, 30).map((p) => el("li", {}, el("button", { type: "button", class: "link", title: g.label(p), onclick: () => { this.choose(p); this.view.redraw(); } }, g.label(p)[0] === "(" ? g.label(p) : shortName(g.label(p))))), path.length > 30 && el("li", { class: "dim" }, `… ${path.length - 30} more`)) : "",
    );
  }
  choose(id, spoken) {
    this.current = id;
    this.details(id);
    if (spoken) {
      const g = this.graph, w = this.state.weight;
      say(`${g.label(id)}, ${g.inexact(id) ? "at least " : ""}${whole(g.total[w][id])} ${WEIGHTS[w][0]}, ${percent(g.total[w][id], g.total[w][0])}`);
    }
    this.view.redraw();
  }
  zoom(id) {
    if (id === this.zoomed) return;
    this.past.push(this.zoomed);
    this.setZoom(id);
  }
  unzoom() {
    if (!this.past.length) return false;
    this.setZoom(this.past.pop());
    return true;
  }
  setZoom(id) {
    this.zoomed = id;
    this.path();
    this.view.paint();
    this.scrollTo(id);
    this.view.paint();
    this.share();
    tip.hide();
  }
  /// Brings the row of a node into sight.
  scrollTo(id) {
    const r = this.rects.find((rect) => rect.id === id);
    if (!r) return;
    const box = this.view.box, all = Math.max(this.view.height, this.contentHeight());
    const y = this.state.up ? all - (r.row + 1) * FRAME - 2 : r.row * FRAME + 2;
    if (y < box.scrollTop + FRAME) box.scrollTop = y - FRAME * 2;
    else if (y + FRAME * 2 > box.scrollTop + this.view.height) box.scrollTop = y + FRAME * 3 - this.view.height;
  }
  path() {
    if (!this.crumbs) return;
    const g = this.graph, chain = this.ancestors(this.zoomed);
    this.zoomRows = chain.length - 1;
    this.back.disabled = !this.past.length;
    const shown = chain.length > 6 ? [chain[0], null, ...chain.slice(-4)] : chain;
    this.crumbs.replaceChildren(...shown.map((id, i) => {
      if (id === null) return el("span", { class: "dim" }, "…");
      const label = g.label(id);
      return el("button", { type: "button", class: "link", "aria-current": i === shown.length - 1 ? "true" : null, title: label, onclick: () => this.zoom(id) }, label[0] === "(" || id === 0 ? label : shortName(label));
    }));
  }
  find(text, quiet) {
    this.query = text.trim();
    this.hits = null;
    if (this.query) {
      const fits = matcher(this.query);
      this.hits = new Set();
      for (let n = 0; n < D.nameCount; n++) if (fits(D.name(n))) this.hits.add(n);
    }
    if (!quiet) { this.share(); this.view.redraw(); }
  }
  /// The share of the outermost matching frames, below the frame that is zoomed to.
  share() {
    if (!this.found) return;
    if (!this.hits) { this.found.textContent = ""; return; }
    const s = this.state, inverted = s.callers;
    const g = inverted ? this.graph.graph : this.graph;
    const below = inverted ? 0 : this.zoomed;
    const inside = new Uint8Array(g.count);
    let sum = 0, nodes = 0, inexact = false;
    inside[below] = 1;
    // 1: below the zoomed frame, 2: a frame above matches already.
    for (let i = below; i < g.count; i++) {
      const p = g.parent[i];
      if (i !== below) { if (p < 0 || !inside[p]) continue; inside[i] = inside[p]; }
      if (!this.hits.has(g.key(i))) continue;
      nodes++;
      if (inside[i] === 1) { sum += g.total[s.weight][i]; inside[i] = 2; inexact = inexact || g.inexact(i); }
    }
    const text = `${plural(nodes, "frame")} · ${g.inexact(below) ? "≈ " : ""}${percent(sum, g.total[s.weight][below])} of ${WEIGHTS[s.weight][0]}`;
    this.found.textContent = text;
    this.found.title = `${inexact ? "≥ " : ""}${whole(sum)} ${WEIGHTS[s.weight][0]}`;
  }
  toHeaviestMatch() {
    if (!this.hits) return;
    const g = this.graph, total = g.total[this.state.weight];
    let best = -1;
    for (const r of this.rects) if (r.id >= 0 && r.id !== this.zoomed && this.hits.has(g.key(r.id)) && (best < 0 || total[r.id] > total[best])) best = r.id;
    if (best < 0) { say("No match in sight"); return; }
    this.choose(best, true);
    this.scrollTo(best);
    this.view.box.focus();
  }
  key(e) {
    const g = this.graph, w = this.state.weight, id = this.current;
    const siblings = () => (g.parent[id] < 0 ? [id] : Array.from(g.children(g.parent[id], w)));
    const down = this.state.up ? "ArrowUp" : "ArrowDown", up = this.state.up ? "ArrowDown" : "ArrowUp";
    const visible = (n) => n !== undefined && g.total[w][n] > 0;
    let next = id;
    if (e.key === down) { const k = g.children(id, w)[0]; if (visible(k)) next = k; }
    else if (e.key === up) next = g.parent[id] < 0 ? id : g.parent[id];
    else if (e.key === "ArrowRight" || e.key === "ArrowLeft") {
      const all = siblings(), n = all[all.indexOf(id) + (e.key === "ArrowRight" ? 1 : -1)];
      if (visible(n)) next = n;
    } else if (e.key === "Enter") this.zoom(id);
    else if (e.key === "Escape") { if (!this.unzoom()) return; }
    else if (e.key === "Home") { this.past.push(this.zoomed); this.setZoom(0); next = 0; }
    else return;
    e.preventDefault();
    e.stopPropagation();
    if (next !== id) {
      this.choose(next, true);
      if (!this.rects.some((r) => r.id === next)) this.zoom(g.parent[next] < 0 ? next : g.parent[next]);
      this.scrollTo(next);
    }
  }
}

function legend() {
  return el("span", { class: "legend", "aria-label": "Colours" },
    [...TIERS, ["native", "Native or no bytecode"]].map(([key, name]) => el("span", {}, el("i", { class: "dot " + key }), name)));
}
