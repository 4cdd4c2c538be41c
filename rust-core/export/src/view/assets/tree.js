// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
// Call trees: the one in the data, threads merged, and callers below callees.

const WEIGHTS = [
  ["bytecodes", "Bytecodes"],
  ["calls", "Calls"],
  ["ticks", "Time"],
];
const KINDS = {
  r: "",
  c: "called by Java code",
  u: "called by the VM or native code",
  k: "frames whose callers are not known",
  o: "bytecodes of frames whose method is not known",
  s: "call without a frame: an intrinsic, or a call that a compiler removed",
  l: "frames outside of the scope",
  m: "nodes that were folded to keep this page small",
};

/// A tree of the data with its columns.
class Source {
  constructor(raw) {
    const n = raw.kinds.length;
    this.raw = raw;
    this.count = n;
    this.kinds = raw.kinds;
    this.name = raw.name;
    this.parent = new Int32Array(n);
    this.roots = [];
    const depth = deltas(raw.depth);
    const path = [];
    for (let i = 0; i < n; i++) {
      path.length = depth[i];
      this.parent[i] = depth[i] ? path[depth[i] - 1] : -1;
      path.push(i);
      if (!depth[i]) this.roots.push(i);
    }
    this.calls = column(raw.calls);
    this.tiers = [raw.interpreter, raw.c1, raw.c2].map(column);
    this.ticks = raw.ticks.length ? column(raw.ticks) : new Float64Array(n);
    this.hasTicks = raw.ticks.length > 0;
    for (const key of RARE) this[key] = sparse(Array.isArray(raw[key]) ? raw[key] : []);
    [this.hiddenMin, this.hiddenMax] = raw.hidden.map(sparse);
    [this.site, this.line] = raw.sites.map(sparse);
    this.entries = raw.roots.map(([name, tid, exact], i) => ({ name, tid, exact, root: this.roots[i] }));
  }
  /// The node after the subtree of a root.
  end(root) {
    const i = this.roots.indexOf(root);
    return i + 1 < this.roots.length ? this.roots[i + 1] : this.count;
  }
}
/// Figures that few nodes have. They add up.
const RARE = ["other", "inferred", "unstarted", "found", "inexact", "stretches", "blocks", "folded"];

/// A tree that can be shown. Parents have smaller numbers than their children. The totals of a
/// node include those of the nodes below it.
class Graph {
  constructor(source, capacity) {
    this.source = source;
    this.count = 0;
    this.parent = new Int32Array(capacity);
    this.sample = new Int32Array(capacity);
    this.own = [0, 1, 2].map(() => new Float64Array(capacity));
    this.tiers = [0, 1, 2].map(() => new Float64Array(capacity));
    this.rare = new Map();
    this.kids = null;
  }
  /// The text of a node.
  label(id) {
    const s = this.source,
      at = this.sample[id];
    const kind = s.kinds[at];
    if (kind === "m") return `(${whole(this.rareOf("folded", id))} more)`;
    if (kind === "r") return this.rootName || "(root)";
    return D.name(s.name[at]);
  }
  kind(id) {
    return this.source.kinds[this.sample[id]];
  }
  key(id) {
    return this.kind(id) === "m" || this.kind(id) === "r" ? -1 : this.source.name[this.sample[id]];
  }
  rareOf(key, id) {
    const r = this.rare.get(id);
    return (r && r[key]) || 0;
  }
  inexact(id) {
    return this.totalInexact[id] === 1;
  }
  /// Adds the node `at` of the source to a node, except for its rare figures.
  add(id, at) {
    const s = this.source;
    const t = s.tiers;
    this.own[0][id] += t[0][at] + t[1][at] + t[2][at];
    this.own[1][id] += s.calls[at];
    this.own[2][id] += s.ticks[at];
    for (let i = 0; i < 3; i++) this.tiers[i][id] += t[i][at];
  }
  /// Adds the rare figures. `place` has the node of each node of the source, or -1.
  addRare(place) {
    const s = this.source;
    for (const key of RARE) {
      for (const [at, value] of s[key]) {
        const id = place[at];
        if (id < 0) continue;
        if (key === "other") this.own[0][id] += value;
        let rare = this.rare.get(id);
        if (!rare) this.rare.set(id, (rare = {}));
        rare[key] = (rare[key] || 0) + value;
        if (key !== "stretches") continue;
        rare.min = (rare.min || 0) + (s.hiddenMin.get(at) || 0);
        rare.max = (rare.max || 0) + (s.hiddenMax.has(at) ? s.hiddenMax.get(at) - 1 : Infinity);
      }
    }
  }
  /// Computes the totals and the lists of children.
  finish() {
    const n = this.count;
    this.total = this.own.map((own) => own.slice(0, n));
    this.totalTiers = this.tiers.map((own) => own.slice(0, n));
    this.totalInexact = new Uint8Array(n);
    for (const [id, rare] of this.rare) if (rare.inexact) this.totalInexact[id] = 1;
    for (let i = n - 1; i > 0; i--) {
      const p = this.parent[i];
      if (p < 0) continue;
      for (let w = 0; w < 3; w++) {
        this.total[w][p] += this.total[w][i];
        this.totalTiers[w][p] += this.totalTiers[w][i];
      }
      this.totalInexact[p] |= this.totalInexact[i];
    }
    if (this.blind) this.totalInexact.fill(1);
    // Children as one array: those of node i are from start[i] to start[i + 1].
    this.start = new Int32Array(n + 2);
    for (let i = 0; i < n; i++) if (this.parent[i] >= 0) this.start[this.parent[i] + 2]++;
    for (let i = 2; i <= n + 1; i++) this.start[i] += this.start[i - 1];
    this.list = new Int32Array(n);
    for (let i = 0; i < n; i++) if (this.parent[i] >= 0) this.list[this.start[this.parent[i] + 1]++] = i;
    this.sorted = new Uint8Array(n);
    return this;
  }
  /// The children of a node, heaviest first.
  children(id, weight) {
    const all = this.list.subarray(this.start[id], this.start[id + 1]);
    if (this.sorted[id] !== weight + 1) {
      const total = this.total[weight];
      all.sort((a, b) => total[b] - total[a] || a - b);
      this.sorted[id] = weight + 1;
    }
    return all;
  }
}

/// A number for what makes two children of a node the same: name, kind and call site.
function identities(source) {
  if (!source.site.size) return (at) => 8 * source.name[at] + "rcukoslm".indexOf(source.kinds[at]);
  const numbers = new Map();
  return (at) => {
    const key = `${source.name[at]} ${source.kinds[at]} ${source.site.get(at) || 0}`;
    if (!numbers.has(key)) numbers.set(key, numbers.size);
    return numbers.get(key);
  };
}

/// One entry of a tree, or all of them merged.
function graphOf(source, entry) {
  const roots = entry === null ? source.entries : [source.entries[entry]];
  const capacity = roots.reduce((sum, e) => sum + source.end(e.root) - e.root, 0) || 1;
  const g = new Graph(source, capacity);
  const merged = `${source.raw.title} (${roots.length}, merged)`;
  g.rootName = roots.length === 1 ? roots[0].name : merged;
  g.blind = D.meta.blind;
  if (!roots.length) {
    g.count = 1;
    g.parent[0] = -1;
    return g.finish();
  }
  const place = new Int32Array(source.count).fill(-1);
  const identity = identities(source);
  const keys = new Int32Array(capacity);
  // Children as lists, until `finish` makes arrays of them.
  const first = new Int32Array(capacity).fill(-1);
  const next = new Int32Array(capacity).fill(-1);
  for (const e of roots) {
    const end = source.end(e.root);
    for (let at = e.root; at < end; at++) {
      const parent = at === e.root ? -1 : place[source.parent[at]];
      let id = parent < 0 ? (g.count ? 0 : -1) : -1;
      if (parent >= 0 && roots.length > 1) {
        const key = identity(at);
        id = first[parent];
        while (id >= 0 && keys[id] !== key) id = next[id];
        keys[g.count] = key;
      }
      if (id < 0) {
        id = g.count++;
        g.parent[id] = parent;
        g.sample[id] = at;
        if (parent >= 0) {
          next[id] = first[parent];
          first[parent] = id;
        }
      }
      place[at] = id;
      g.add(id, at);
    }
  }
  g.addRare(place);
  return g.finish();
}

/// The inverted tree: below each method its callers. It grows where it is looked at. A node stands
/// for the nodes of the tree that have its path; each carries the own weight of the node on which
/// the path began.
class Inverted {
  constructor(graph) {
    this.graph = graph;
    this.source = graph.source;
    this.rootName = graph.rootName;
    this.parent = [-1];
    this.total = [0, 1, 2].map((w) => [graph.total[w][0]]);
    this.own = [[0], [0], [0]];
    this.totalTiers = graph.totalTiers.map((t) => [t[0]]);
    this.totalInexact = [graph.totalInexact[0]];
    this.sample = [graph.sample[0]];
    this.rare = new Map();
    this.members = [null];
    this.kids = [null];
    this.order = [0];
  }
  get count() {
    return this.parent.length;
  }
  kind(id) {
    return id === 0 ? "r" : this.source.kinds[this.sample[id]];
  }
  key(id) {
    return id === 0 ? -1 : this.kind(id) === "m" ? -1 : this.source.name[this.sample[id]];
  }
  label(id) {
    if (id === 0) return this.rootName;
    if (this.kind(id) === "m") return "(folded nodes)";
    return D.name(this.source.name[this.sample[id]]);
  }
  rareOf() {
    return 0;
  }
  inexact(id) {
    return this.totalInexact[id] === 1;
  }
  children(id, weight) {
    if (!this.kids[id]) this.kids[id] = this.grow(id);
    const kids = this.kids[id];
    if (this.order[id] !== weight + 1) {
      const total = this.total[weight];
      kids.sort((a, b) => total[b] - total[a] || a - b);
      this.order[id] = weight + 1;
    }
    return kids;
  }
  grow(id) {
    const g = this.graph;
    const groups = new Map();
    const put = (at, leaf) => {
      if (g.kind(at) === "r") return;
      const key = g.kind(at) === "m" ? -2 : g.source.name[g.sample[at]];
      let group = groups.get(key);
      if (!group) groups.set(key, (group = { at: [], leaf: [] }));
      group.at.push(at);
      group.leaf.push(leaf);
    };
    if (id === 0) {
      for (let i = 0; i < g.count; i++) if (g.own[0][i] || g.own[1][i] || g.own[2][i]) put(i, i);
    } else {
      const m = this.members[id];
      for (let i = 0; i < m.at.length; i++) put(g.parent[m.at[i]], m.leaf[i]);
    }
    return [...groups.values()].map((group) => this.push(id, group));
  }
  push(parent, group) {
    const g = this.graph,
      id = this.parent.length;
    const sums = [0, 0, 0],
      tiers = [0, 0, 0];
    let inexact = 0;
    for (const leaf of group.leaf) {
      for (let w = 0; w < 3; w++) {
        sums[w] += g.own[w][leaf];
        tiers[w] += g.tiers[w][leaf];
      }
      inexact |= g.rareOf("inexact", leaf) || g.blind ? 1 : 0;
    }
    this.parent.push(parent);
    this.sample.push(g.sample[group.at[0]]);
    for (let w = 0; w < 3; w++) {
      this.total[w].push(sums[w]);
      this.totalTiers[w].push(tiers[w]);
      this.own[w].push(parent === 0 ? sums[w] : 0);
    }
    this.totalInexact.push(inexact);
    this.members.push(group);
    this.kids.push(null);
    this.order.push(0);
    return id;
  }
}
