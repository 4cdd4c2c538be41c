// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
// The flame graph.

class Flame extends Frames {
  constructor(app) {
    super();
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
      return el(
        "section",
        { class: "pane" },
        el("p", { class: "empty" }, "This page has no call tree: it was not asked for. Unknown, not empty."),
      );
    }
    const s = this.state;
    const pick = el("select", { "aria-label": "Which calls", title: "Which thread or request" });
    this.sources.forEach((source, n) => {
      const group = el("optgroup", { label: source.raw.title });
      if (source.entries.length > 1)
        group.append(el("option", { value: `${n} all` }, `All ${source.raw.title.toLowerCase()}, merged`));
      source.entries.forEach((e, i) =>
        group.append(
          el("option", { value: `${n} ${i}` }, e.name + (e.tid ? ` (${e.tid})` : "") + (e.exact ? "" : " ≥")),
        ),
      );
      pick.append(group);
    });
    pick.addEventListener("change", () => {
      const [n, entry] = pick.value.split(" ");
      s.source = Number(n);
      s.entry = entry === "all" ? null : Number(entry);
      this.reset();
    });
    if (this.sources[0].entries.length === 1) s.entry = 0;
    const weights = WEIGHTS.map(([key, title], i) => [
      i,
      title,
      key === "ticks"
        ? "The width of a frame is its time on a core"
        : `The width of a frame is its number of ${key}`,
    ]).filter(([i]) => i < 2 || this.sources.some((source) => source.hasTicks));
    this.search = el("input", {
      type: "search",
      placeholder: "Search methods  ( / )",
      "aria-label": "Search methods",
      "data-search": true,
      spellcheck: "false",
      autocomplete: "off",
    });
    this.search.addEventListener("input", () => this.find(this.search.value));
    this.search.addEventListener("keydown", (e) => {
      if (e.key === "Enter") {
        this.toHeaviestMatch();
        e.preventDefault();
      }
    });
    this.found = el("output", { class: "found dim", "aria-live": "polite" });
    this.upChoice = choices(
      "Direction",
      [
        [false, "Icicle", "Callers above callees"],
        [true, "Flame", "Callers below callees"],
      ],
      s.up,
      (v) => {
        s.up = v;
        this.view.paint();
        this.scrollTo(this.zoomed);
        this.view.paint();
      },
    );
    this.back = el(
      "button",
      {
        type: "button",
        class: "plain",
        title: "Back (Escape)",
        onclick: () => this.unzoom(),
        disabled: true,
      },
      "← Back",
    );
    this.crumbs = el("div", { class: "crumbs", "aria-label": "Path of the zoom" });
    this.view = new Canvas("Flame graph. Arrows move, Enter zooms, Escape goes back.", {
      class: "flame",
      draw: (...a) => this.draw(...a),
      contentHeight: () => this.contentHeight(),
      roleDescription: "flame graph",
    });
    const box = this.view.box;
    box.addEventListener("mousemove", (e) => this.hover(e));
    box.addEventListener("mouseleave", () => {
      this.hovered = -1;
      tip.hide();
      this.view.redraw();
    });
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
    return el(
      "section",
      { class: "pane column" },
      el(
        "div",
        { class: "bar-tools" },
        pick,
        choices("Weight", weights, 0, (w) => {
          s.weight = w;
          this.refresh();
        }),
        choices(
          "Order",
          [
            [false, "Callees", "Each frame above the methods that it called"],
            [true, "Callers", "Inverted: each method above its callers"],
          ],
          false,
          (v) => {
            s.callers = v;
            this.reset();
          },
        ),
        this.upChoice,
        choices(
          "Colour",
          [
            ["tier", "Tiers", "Colour by the tier that executed most"],
            ["package", "Packages", "Colour by package"],
          ],
          "tier",
          (v) => {
            s.colour = v;
            this.legend.hidden = v !== "tier";
            this.view.redraw();
          },
        ),
        el("span", { class: "grow" }),
        this.found,
        this.search,
      ),
      el(
        "div",
        { class: "bar-tools thin" },
        this.back,
        this.crumbs,
        el("span", { class: "grow" }),
        this.legend,
      ),
      el("div", { class: "split" }, box, this.side),
    );
  }
  get graph() {
    const s = this.state,
      key = `${s.source} ${s.entry}`;
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
  hover(e) {
    const id = this.hit(e);
    if (id !== this.hovered) {
      this.hovered = id;
      this.view.redraw();
    }
    if (id < 0) return tip.hide();
    tip.show(e.clientX, e.clientY, ...this.describe(id));
  }
  details(id) {
    if (!this.side) return;
    const g = this.graph,
      key = g.key(id);
    const method = key >= 0 ? methodByKey.get(key) : undefined;
    const loader = key >= 0 ? D.loader(key) : "";
    const parts = this.describe(id);
    const path = this.ancestors(id).slice(1, -1).reverse();
    this.side.replaceChildren(
      el("h2", {}, id === 0 ? "All frames" : "Selected frame"),
      ...parts,
      loader && el("p", { class: "dim" }, "Loader: " + loader),
      method
        ? el(
            "p",
            {},
            el(
              "button",
              { type: "button", onclick: () => this.app.openMethod(method) },
              "Source and bytecode",
            ),
          )
        : "",
      key >= 0
        ? el(
            "p",
            {},
            el(
              "button",
              {
                type: "button",
                onclick: () => {
                  this.search.value = shortName(D.name(key));
                  this.find(this.search.value);
                },
              },
              "Highlight this method",
            ),
          )
        : "",
      path.length ? el("h3", {}, this.state.callers ? "On the way to" : "Called from") : "",
      path.length
        ? el(
            "ol",
            { class: "path" },
            path.slice(0, 30).map((p) =>
              el(
                "li",
                {},
                el(
                  "button",
                  {
                    type: "button",
                    class: "link",
                    title: g.label(p),
                    onclick: () => {
                      this.choose(p);
                      this.view.redraw();
                    },
                  },
                  g.label(p)[0] === "(" ? g.label(p) : shortName(g.label(p)),
                ),
              ),
            ),
            path.length > 30 && el("li", { class: "dim" }, `… ${path.length - 30} more`),
          )
        : "",
    );
  }
  choose(id, spoken) {
    this.current = id;
    this.details(id);
    if (spoken) {
      const g = this.graph,
        w = this.state.weight;
      say(
        `${g.label(id)}, ${g.inexact(id) ? "at least " : ""}${whole(g.total[w][id])} ${WEIGHTS[w][0]}, ` +
          percent(g.total[w][id], g.total[w][0]),
      );
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
    const box = this.view.box,
      all = Math.max(this.view.height, this.contentHeight());
    const y = this.state.up ? all - (r.row + 1) * FRAME - 2 : r.row * FRAME + 2;
    if (y < box.scrollTop + FRAME) box.scrollTop = y - FRAME * 2;
    else if (y + FRAME * 2 > box.scrollTop + this.view.height)
      box.scrollTop = y + FRAME * 3 - this.view.height;
  }
  path() {
    if (!this.crumbs) return;
    const g = this.graph,
      chain = this.ancestors(this.zoomed);
    this.zoomRows = chain.length - 1;
    this.back.disabled = !this.past.length;
    const shown = chain.length > 6 ? [chain[0], null, ...chain.slice(-4)] : chain;
    this.crumbs.replaceChildren(
      ...shown.map((id, i) => {
        if (id === null) return el("span", { class: "dim" }, "…");
        const label = g.label(id);
        return el(
          "button",
          {
            type: "button",
            class: "link",
            "aria-current": i === shown.length - 1 ? "true" : null,
            title: label,
            onclick: () => this.zoom(id),
          },
          label[0] === "(" || id === 0 ? label : shortName(label),
        );
      }),
    );
  }
  find(text, quiet) {
    this.query = text.trim();
    this.hits = null;
    if (this.query) {
      const fits = matcher(this.query);
      this.hits = new Set();
      for (let n = 0; n < D.nameCount; n++) if (fits(D.name(n))) this.hits.add(n);
    }
    if (!quiet) {
      this.share();
      this.view.redraw();
    }
  }
  /// The share of the outermost matching frames, below the frame that is zoomed to.
  share() {
    if (!this.found) return;
    if (!this.hits) {
      this.found.textContent = "";
      return;
    }
    const s = this.state,
      inverted = s.callers;
    const g = inverted ? this.graph.graph : this.graph;
    const below = inverted ? 0 : this.zoomed;
    const inside = new Uint8Array(g.count);
    let sum = 0,
      nodes = 0,
      inexact = false;
    inside[below] = 1;
    // 1: below the zoomed frame, 2: a frame above matches already.
    for (let i = below; i < g.count; i++) {
      const p = g.parent[i];
      if (i !== below) {
        if (p < 0 || !inside[p]) continue;
        inside[i] = inside[p];
      }
      if (!this.hits.has(g.key(i))) continue;
      nodes++;
      if (inside[i] === 1) {
        sum += g.total[s.weight][i];
        inside[i] = 2;
        inexact = inexact || g.inexact(i);
      }
    }
    const share = (g.inexact(below) ? "≈ " : "") + percent(sum, g.total[s.weight][below]);
    const text = `${plural(nodes, "frame")} · ${share} of ${WEIGHTS[s.weight][0]}`;
    this.found.textContent = text;
    this.found.title = `${inexact ? "≥ " : ""}${whole(sum)} ${WEIGHTS[s.weight][0]}`;
  }
  toHeaviestMatch() {
    if (!this.hits) return;
    const g = this.graph,
      total = g.total[this.state.weight];
    let best = -1;
    for (const r of this.rects)
      if (
        r.id >= 0 &&
        r.id !== this.zoomed &&
        this.hits.has(g.key(r.id)) &&
        (best < 0 || total[r.id] > total[best])
      )
        best = r.id;
    if (best < 0) {
      say("No match in sight");
      return;
    }
    this.choose(best, true);
    this.scrollTo(best);
    this.view.box.focus();
  }
  key(e) {
    const g = this.graph,
      w = this.state.weight,
      id = this.current;
    const siblings = () => (g.parent[id] < 0 ? [id] : Array.from(g.children(g.parent[id], w)));
    const down = this.state.up ? "ArrowUp" : "ArrowDown",
      up = this.state.up ? "ArrowDown" : "ArrowUp";
    const visible = (n) => n !== undefined && g.total[w][n] > 0;
    let next = id;
    if (e.key === down) {
      const k = g.children(id, w)[0];
      if (visible(k)) next = k;
    } else if (e.key === up) next = g.parent[id] < 0 ? id : g.parent[id];
    else if (e.key === "ArrowRight" || e.key === "ArrowLeft") {
      const all = siblings(),
        n = all[all.indexOf(id) + (e.key === "ArrowRight" ? 1 : -1)];
      if (visible(n)) next = n;
    } else if (e.key === "Enter") this.zoom(id);
    else if (e.key === "Escape") {
      if (!this.unzoom()) return;
    } else if (e.key === "Home") {
      this.past.push(this.zoomed);
      this.setZoom(0);
      next = 0;
    } else return;
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
  return el(
    "span",
    { class: "legend", "aria-label": "Colours" },
    [...TIERS, ["native", "Native or no bytecode"]].map(([key, name]) =>
      el("span", {}, el("i", { class: "dot " + key }), name),
    ),
  );
}
