// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
// Elements, numbers as text, colours, the tooltip, canvases and tables.

/// An element. Strings among the children become text nodes: no string of the data is ever HTML.
function el(tag, properties, ...children) {
  const e = document.createElement(tag);
  for (const [key, value] of Object.entries(properties || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "class") e.className = value;
    else if (key.startsWith("on")) e.addEventListener(key.slice(2), value);
    else if (key === "style") Object.assign(e.style, value);
    else e.setAttribute(key, value === true ? "" : String(value));
  }
  e.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
  return e;
}
const byId = (id) => document.getElementById(id);
const clamp = (x, low, high) => Math.max(low, Math.min(high, x));

const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
/// All digits. A number that is too large to be exact is marked.
function whole(n) {
  return (Number.isSafeInteger(n) || n === 0 ? "" : "≈ ") + grouped.format(n);
}
/// `≥ 12` for a lower bound.
const least = (n, inexact) => (inexact ? "≥ " : "") + whole(n);
/// A short text of about three digits.
function brief(n) {
  if (n < 1000) return String(Math.round(n * 10) / 10);
  const units = ["k", "M", "G", "T", "P", "E"];
  let i = -1;
  while (n >= 999.5 && i < units.length - 1) {
    n /= 1000;
    i++;
  }
  return n.toFixed(n < 9.995 ? 2 : n < 99.95 ? 1 : 0) + units[i];
}
function percent(part, all) {
  if (!(all > 0)) return "–";
  const p = (100 * part) / all;
  if (p > 0 && p < 0.01) return "<0.01%";
  return p.toFixed(p < 10 ? 2 : 1) + "%";
}
/// A duration of ticks: in seconds if the rate of the ticks is known.
function duration(ticks, digits = 3) {
  const hz = D.meta.hz;
  if (!hz) return brief(ticks) + " ticks";
  const s = ticks / hz;
  if (s === 0) return "0";
  for (const [unit, factor] of [
    ["s", 1],
    ["ms", 1e3],
    ["µs", 1e6],
  ]) {
    if (Math.abs(s) * factor >= 1)
      return (s * factor).toPrecision(Math.max(digits, String(Math.floor(s * factor)).length)) + " " + unit;
  }
  return Math.round(s * 1e9) + " ns";
}
const plural = (n, one, more) => `${whole(n)} ${n === 1 ? one : more || one + "s"}`;

/// `java.util.HashMap.get(Ljava/lang/Object;)Ljava/lang/Object;` in parts.
function nameParts(name) {
  const open = name.indexOf("(", 1);
  const head = open < 0 ? name : name.slice(0, open);
  const descriptor = open < 0 ? "" : name.slice(open);
  const dot = head.lastIndexOf(".");
  const owner = dot < 0 ? "" : head.slice(0, dot);
  const simple = owner.lastIndexOf(".");
  return {
    package: simple < 0 ? "" : owner.slice(0, simple),
    class: owner.slice(simple + 1),
    method: head.slice(dot + 1),
    descriptor,
  };
}
const shortNames = new Map();
/// `HashMap.get`.
function shortName(name) {
  let text = shortNames.get(name);
  if (text === undefined) {
    const p = nameParts(name);
    text = p.class ? p.class + "." + p.method : p.method;
    shortNames.set(name, text);
  }
  return text;
}
/// `(Object, int) → Object` of a descriptor.
function signature(descriptor) {
  const basic = {
    B: "byte",
    C: "char",
    D: "double",
    F: "float",
    I: "int",
    J: "long",
    S: "short",
    V: "void",
    Z: "boolean",
  };
  const types = [];
  let i = 1,
    result = null,
    dims = "";
  while (i < descriptor.length) {
    const c = descriptor[i];
    if (c === ")") {
      result = types.length;
      i++;
      continue;
    }
    if (c === "[") {
      dims += "[]";
      i++;
      continue;
    }
    let type = basic[c];
    if (c === "L") {
      const end = descriptor.indexOf(";", i);
      if (end < 0) return descriptor;
      type = descriptor
        .slice(i + 1, end)
        .split("/")
        .pop();
      i = end;
    }
    if (!type) return descriptor;
    types.push(type + dims);
    dims = "";
    i++;
  }
  if (result === null || types.length !== result + 1) return descriptor;
  return `(${types.slice(0, result).join(", ")}) → ${types[result]}`;
}
/// The name of a method: package dim, class and method clear.
function nameElement(name) {
  const p = nameParts(name);
  return el(
    "span",
    { class: "name", title: name },
    p.package && el("span", { class: "pkg" }, p.package + "."),
    p.class && el("span", { class: "cls" }, p.class + "."),
    el("span", { class: "mth" }, p.method),
    p.descriptor && el("span", { class: "sig" }, " " + signature(p.descriptor)),
  );
}

const TIERS = [
  ["int", "Interpreter"],
  ["c1", "C1"],
  ["c2", "C2"],
];
/// A bar with the shares of the tiers.
function tierBar(tiers, width) {
  const sum = tiers[0] + tiers[1] + tiers[2];
  const title = TIERS.map(([, name], i) => `${name} ${percent(tiers[i], sum)}`).join(" · ");
  return el(
    "span",
    { class: "bar", role: "img", "aria-label": title, title, style: width ? { width } : {} },
    sum > 0 &&
      TIERS.map(([key], i) => tiers[i] > 0 && el("i", { class: key, style: { flexGrow: tiers[i] / sum } })),
  );
}

/// Colours of the style sheet, for canvases.
let palette = {};
function readPalette() {
  const style = getComputedStyle(document.documentElement);
  palette = {};
  for (const name of [
    "bg",
    "panel",
    "line",
    "soft",
    "text",
    "dim",
    "accent",
    "int",
    "c1",
    "c2",
    "native",
    "lost",
    "unknown",
    "int-f",
    "c1-f",
    "c2-f",
    "native-f",
    "none-f",
    "hit",
    "hit-text",
    "off",
    "on",
    "select",
    "mixed",
  ]) {
    palette[name] = style.getPropertyValue("--" + name).trim();
  }
}
const FONT = "ui-sans-serif, system-ui, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif";

/// The tooltip.
const tip = {
  show(x, y, ...content) {
    const t = byId("tip");
    t.replaceChildren(...content);
    t.hidden = false;
    const w = t.offsetWidth,
      h = t.offsetHeight;
    const left = x + 14 + w > innerWidth ? x - w - 10 : x + 14;
    const top = y + 16 + h > innerHeight ? y - h - 10 : y + 16;
    t.style.transform = `translate(${Math.max(4, left)}px, ${Math.max(4, top)}px)`;
  },
  hide() {
    byId("tip").hidden = true;
  },
};
/// Rows of a tooltip or a panel: label and value.
function facts(rows) {
  return el(
    "dl",
    { class: "facts" },
    rows.filter(Boolean).map(([label, value]) => [el("dt", {}, label), el("dd", {}, value)]),
  );
}
function say(text) {
  byId("live").textContent = text;
}

/// A canvas that fills a scrolling box. `draw(context, width, height, scroll)` paints the part in
/// sight; `contentHeight()` is the height of all.
class Canvas {
  constructor(label, options) {
    this.options = options;
    this.canvas = el("canvas", { "aria-hidden": true });
    this.spacer = el("div", { class: "spacer" });
    this.box = el(
      "div",
      {
        class: "canvas " + (options.class || ""),
        tabindex: 0,
        role: options.role || "application",
        "aria-label": label,
        "aria-roledescription": options.roleDescription,
      },
      this.canvas,
      this.spacer,
    );
    this.width = 0;
    this.height = 0;
    for (const event of ["scroll", "focus", "blur"]) this.box.addEventListener(event, () => this.redraw());
    new ResizeObserver(() => this.resize()).observe(this.box);
  }
  resize() {
    const w = this.box.clientWidth,
      h = this.box.clientHeight;
    if (!w || !h) return;
    const ratio = devicePixelRatio || 1;
    this.width = w;
    this.height = h;
    this.canvas.width = Math.round(w * ratio);
    this.canvas.height = Math.round(h * ratio);
    this.canvas.style.width = w + "px";
    this.canvas.style.height = h + "px";
    if (this.options.resized) this.options.resized();
    this.paint();
  }
  redraw() {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = 0;
      this.paint();
    });
  }
  paint() {
    if (!this.width) return;
    this.spacer.style.height = Math.max(0, this.options.contentHeight() - this.height) + "px";
    const c = this.canvas.getContext("2d");
    const ratio = this.canvas.width / this.width;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, this.width, this.height);
    this.options.draw(c, this.width, this.height, this.box.scrollTop);
    // The canvas covers an outline of the box.
    if (this.box.matches(":focus-visible")) {
      c.strokeStyle = palette.accent;
      c.lineWidth = 2;
      c.strokeRect(1, 1, this.width - 2, this.height - 2);
    }
  }
  /// The position of a mouse event inside of the box.
  at(event) {
    const r = this.box.getBoundingClientRect();
    return [event.clientX - r.left, event.clientY - r.top];
  }
}

/// A part of a text that fits a width. Widths are estimated by characters, which is fast.
const textWidths = new Map();
function clipText(c, text, width) {
  const key = c.font;
  let per = textWidths.get(key);
  if (!per) {
    per = c.measureText("abcdefghijklmnopqrstuvwxyz.ABCD").width / 31;
    textWidths.set(key, per);
  }
  const most = Math.floor(width / per);
  if (text.length <= most) return text;
  return most < 4 ? "" : text.slice(0, most - 1) + "…";
}

/// Round steps of an axis: about `count` of them in `span`.
function step(span, count) {
  const raw = span / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(raw || 1));
  return [1, 2, 5, 10].map((f) => f * power).find((s) => s >= raw) || raw;
}
/// Draws an axis of times and returns nothing: labels at round times since the beginning.
function timeAxis(c, from, to, origin, [x, y, width, height], grid) {
  const hz = D.meta.hz || 1;
  const size = step((to - from) / hz, width / 110) * hz;
  const first = Math.ceil((from - origin) / size) * size + origin;
  c.font = "11px " + FONT;
  c.textBaseline = "middle";
  c.textAlign = "left";
  for (let t = first, i = 0; t <= to && i < 200; t += size, i++) {
    const at = Math.round(x + ((t - from) / (to - from)) * width) + 0.5;
    c.fillStyle = palette.line;
    c.fillRect(at - 0.5, y, 1, grid);
    c.fillStyle = palette.dim;
    if (at + 60 < x + width + 20)
      c.fillText(t === origin ? "0" : duration(t - origin), at + 4, y + height / 2);
  }
}
