// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
// The data of the page: columns become arrays (`page.rs` writes them).

/// Numbers that JavaScript cannot hold exactly are strings in the data.
const column = (list) => Float64Array.from(list, Number);
function deltas(list) {
  const out = new Float64Array(list.length);
  let sum = 0;
  for (let i = 0; i < list.length; i++) {
    sum += Number(list[i]);
    out[i] = sum;
  }
  return out;
}
/// Pairs of a distance to the row before and a value, as a map from rows to values.
function sparse(list) {
  const out = new Map();
  let row = 0;
  for (let i = 0; i < list.length; i += 2) {
    row += Number(list[i]);
    out.set(row, Number(list[i + 1]));
  }
  return out;
}

const RAW = JSON.parse(byId("data").textContent);
/// The text of the element is as large as the page and no longer needed.
byId("data").textContent = "";

const D = (() => {
  const { rest, code, files, trees, left, strings } = RAW;
  const text = strings.all;
  const names = strings.names;
  const name = (n) => text[names[2 * n]];
  const loader = (n) => text[names[2 * n + 1]];
  return {
    meta: rest.meta,
    threads: rest.threads,
    left,
    text,
    name,
    loader,
    nameCount: names.length / 2,
    code,
    files,
    trees,
    methods: methods(rest.methods),
    coverage: rest.coverage,
    overview: rest.overview,
    latency: rest.latency,
    jit: rest.jit,
  };
  function methods(m) {
    const inexact = sparse(m.inexact),
      inferred = sparse(m.inferred);
    const more = m.more.map(sparse);
    const versions = new Map(m.version);
    const fileOf = sparse(files.methods);
    const [calls, bytecodes, i, c1, c2] = [m.calls, m.bytecodes, m.interpreter, m.c1, m.c2].map(column);
    return m.name.map((n, row) => ({
      row,
      key: n,
      name: name(n),
      loader: loader(n),
      version: versions.get(row) || "",
      calls: calls[row],
      bytecodes: bytecodes[row],
      tiers: [i[row], c1[row], c2[row]],
      inexact: inexact.has(row),
      inferred: inferred.get(row) || 0,
      // Most that may be missing: undefined means without limit.
      more: more.map((column) => (column.has(row) ? column.get(row) - 1 : undefined)),
      file: fileOf.has(row) ? fileOf.get(row) - 1 : -1,
      cls: classOf(name(n)),
    }));
  }
})();

function classOf(name) {
  const open = name.indexOf("(", 1);
  const head = open < 0 ? name : name.slice(0, open);
  const dot = head.lastIndexOf(".");
  return dot < 0 ? "" : head.slice(0, dot);
}

/// The first row of each method's name.
const methodByKey = new Map();
for (const m of D.methods) if (!methodByKey.has(m.key)) methodByKey.set(m.key, m);

/// The listing of a method: null if there is none, "left" if it was left out.
const listings = new Map();
function listing(row) {
  if (listings.has(row)) return listings.get(row);
  const raw = D.code.methods[row];
  let out = null;
  if (raw === 1) out = "left";
  else if (raw && typeof raw === "object") {
    const bci = deltas(raw.bci),
      line = deltas(raw.line),
      times = deltas(raw.times);
    const ways = new Map();
    for (let i = 0; i < raw.ways.length; i += 3) {
      const way = { to: raw.ways[i + 1], ...timesOf(Number(raw.ways[i + 2])) };
      const from = raw.ways[i];
      if (ways.has(from)) ways.get(from).push(way);
      else ways.set(from, [way]);
    }
    const rows = Array.from(bci, (b, i) => ({
      bci: b,
      line: line[i],
      text: D.code.texts.all[raw.text[i]],
      ways: ways.get(b) || [],
      ...timesOf(times[i]),
    }));
    out = { rows, handlers: raw.handlers, malformed: raw.malformed };
  }
  listings.set(row, out);
  return out;
}
function timesOf(n) {
  const inexact = n % 2 === 1;
  const seen = (n - (inexact ? 1 : 0)) / 2;
  return { seen, inexact, state: seen > 0 ? "executed" : inexact ? "unknown" : "missed" };
}
/// The text of a count: what is unknown is no zero.
const timesText = (t) => (t.state === "unknown" ? "?" : least(t.seen, t.inexact));

/// Beginning and end of all known times.
const SPAN = (() => {
  let from = Infinity,
    to = -Infinity;
  const o = D.overview;
  if (o && o.buckets > 0) {
    from = Number(o.start);
    to = from + Number(o.width) * o.buckets;
  }
  if (D.jit && D.jit.at.length) {
    const at = deltas(D.jit.at);
    from = Math.min(from, at[0]);
    to = Math.max(to, at[at.length - 1]);
  }
  return from < to ? { from, to } : { from: 0, to: 1 };
})();

/// The lines of a file: the greatest count of a line's bytecodes, over all methods of the file.
const fileLines = new Map();
function linesOf(file) {
  if (fileLines.has(file)) return fileLines.get(file);
  const lines = new Map();
  const add = (n, t) => {
    if (!n) return;
    const old = lines.get(n);
    if (!old) lines.set(n, { ...t });
    else {
      if (t.seen > old.seen || (t.seen === old.seen && t.inexact)) {
        old.seen = t.seen;
        old.inexact = t.inexact;
      }
      old.inexact = old.inexact || (t.inexact && t.seen >= old.seen);
      old.state =
        old.seen > 0 ? "executed" : old.state === "unknown" || t.state === "unknown" ? "unknown" : "missed";
    }
  };
  for (const m of D.methods) {
    if (m.file !== file) continue;
    const code = listing(m.row);
    if (code && code !== "left") for (const r of code.rows) add(r.line, r);
  }
  // Methods that never executed have no listing, but coverage knows their lines.
  if (D.coverage) {
    const fileOf = sparse(D.files.classes);
    D.coverage.classes.forEach((c, i) => {
      if (!fileOf.has(i) || fileOf.get(i) - 1 !== file) return;
      for (const m of c[3]) {
        for (const n of deltas(m[2]))
          if (!lines.has(n)) add(n, { seen: 0, inexact: !D.coverage.certain, state: "missed" });
        for (const n of deltas(m[3])) if (!lines.has(n)) add(n, { seen: 0, inexact: true, state: "unknown" });
      }
    });
  }
  fileLines.set(file, lines);
  return lines;
}
