#!/usr/bin/env node
// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
// Opens a page of `jportal view` in headless Chromium and uses it: mouse, keyboard, search, all
// tabs, light and dark. Fails on what does not work, on every error, warning and exception, and on
// every request.
//
// usage: check.mjs PAGE [--screenshots DIR] [--within MS]
//
// PAGE is the one that `cargo run -p jportal-export --example view -- PAGE` writes. --within is the
// greatest time of a processor from the navigation until the page can be used (2000). CHROMIUM
// names the browser (/usr/bin/chromium). The last line is "N passed, N failed". Exit status: 0 all
// passed, 1 something failed, 2 wrong use or no browser.

import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { Browser } from "./browser.mjs";

const options = { screenshots: null, within: "2000" };
const files = [];
for (let args = process.argv.slice(2); args.length; ) {
  const arg = args.shift();
  if (arg.startsWith("--") && arg.slice(2) in options && args.length) options[arg.slice(2)] = args.shift();
  else files.push(arg);
}
const chromium = process.env.CHROMIUM || "/usr/bin/chromium";
if (files.length !== 1 || files[0].startsWith("-") || !existsSync(files[0])) {
  console.error("usage: check.mjs PAGE [--screenshots DIR] [--within MS]");
  process.exit(2);
}
if (!existsSync(chromium)) {
  console.error(`error: no browser at ${chromium}: install chromium, or name it in CHROMIUM`);
  process.exit(2);
}
if (options.screenshots) mkdirSync(options.screenshots, { recursive: true });

// The data, read here independently of the page's own code.
const page = readFileSync(files[0], "utf8");
const MARK = '<script type="application/json" id="data">';
const dataFrom = page.indexOf(MARK) + MARK.length,
  dataTo = page.indexOf("</script>", dataFrom);
const data = JSON.parse(page.slice(dataFrom, dataTo));

const b = new Browser(chromium);
let passed = 0,
  failed = 0;
function check(what, ok, seen) {
  if (ok) passed++;
  else {
    failed++;
    console.log(`FAILED ${what}` + (seen === undefined ? "" : `: ${JSON.stringify(seen)}`));
  }
}
const shot = async (name) => {
  if (options.screenshots) await b.screenshot(join(options.screenshots, name + ".png"));
};
const text = (selector) =>
  b.evaluate(`document.querySelector(${JSON.stringify(selector)})?.textContent ?? null`);
const box = (selector) =>
  b.evaluate(
    `(() => { const r = document.querySelector(${JSON.stringify(selector)})?.getBoundingClientRect(); return r && { x: r.x, y: r.y, w: r.width, h: r.height }; })()`,
  );
const count = (selector) => b.evaluate(`document.querySelectorAll(${JSON.stringify(selector)}).length`);
const tab = () => b.evaluate("document.querySelector('[role=tab][aria-selected=true]')?.id.slice(4)");
const press = async (selector) => {
  const r = await box(selector);
  await b.click(r.x + r.w / 2, r.y + r.h / 2);
};
/// A number of colours of a canvas: more than a few if something was painted.
const colours = (panel) =>
  b.evaluate(`(() => {
  const c = document.querySelector("#panel-${panel} canvas");
  const copy = new OffscreenCanvas(c.width, c.height).getContext("2d", { willReadFrequently: true });
  copy.drawImage(c, 0, 0);
  const d = copy.getImageData(0, 0, c.width, c.height).data, seen = new Set();
  for (let i = 0; i < d.length; i += 4 * 37) seen.add((d[i] << 16) | (d[i + 1] << 8) | d[i + 2]);
  return seen.size;
})()`);

/// The bytecodes of the roots' children by name and kind, over all threads or of one; heaviest
/// first.
function firstFrames(thread) {
  const t = data.trees[0],
    sums = new Map();
  let depth = 0,
    root = -1,
    at = "";
  for (let i = 0; i < t.kinds.length; i++) {
    depth += t.depth[i];
    if (depth === 0) {
      root++;
      at = "(root)";
    } else if (depth === 1) at = `${data.strings.all[data.strings.names[2 * t.name[i]]]} ${t.kinds[i]}`;
    if (thread === null || thread === root)
      sums.set(at, (sums.get(at) || 0) + t.interpreter[i] + t.c1[i] + t.c2[i]);
  }
  sums.delete("(root)");
  return [...sums].sort((x, y) => y[1] - x[1]);
}
const digits = (s) => Number(s.replace(/[^\d]/g, ""));

async function opens() {
  await b.open(1400, 900);
  await b.media("light");
  await b.send("Performance.enable", { timeDomain: "threadTicks" });
  await b.go(pathToFileURL(resolve(files[0])).href);
  await b.painted();
  const { metrics } = await b.send("Performance.getMetrics");
  const cpu = Math.round(metrics.find((m) => m.name === "TaskDuration").value * 1000);
  const wall = Math.round(await b.evaluate("performance.now()"));
  console.log(`opened in ${cpu} ms of a processor, ${wall} ms of time; ${statSync(files[0]).size} bytes`);
  check(`opens within ${options.within} ms`, cpu <= Number(options.within), cpu);
  check("below 20 MB", statSync(files[0]).size < 20e6);
  check("seven tabs", (await count("[role=tab]")) === 7);
  check(
    "each tab names its panel",
    await b.evaluate(
      "[...document.querySelectorAll('[role=tab]')].every((t) => document.getElementById(t.getAttribute('aria-controls'))?.getAttribute('role') === 'tabpanel')",
    ),
  );
  check("one tab is in the order of Tab", (await count("[role=tab][tabindex='0']")) === 1);
  check(
    "nothing wider than the page",
    await b.evaluate(
      "document.documentElement.scrollWidth <= innerWidth && document.documentElement.scrollHeight <= innerHeight",
    ),
  );
}

async function overview() {
  check("begins with the overview", (await tab()) === "overview");
  check("threads are painted", (await colours("overview")) > 8, await colours("overview"));
  const r = await box("#panel-overview .canvas");
  await b.move(r.x + r.w / 2, r.y + 50);
  check("tooltip with figures", /Bytecodes.*On a core/.test(await text("#tip")), await text("#tip"));
  await shot("1-overview");
  const before = await text("#panel-overview .bar-tools .dim");
  await b.drag(r.x + r.w * 0.4, r.y + 60, r.x + r.w * 0.6);
  const zoomed = await text("#panel-overview .bar-tools .dim");
  check("dragging zooms", zoomed !== before, zoomed);
  await b.key("Escape");
  check("Escape zooms out", (await text("#panel-overview .bar-tools .dim")) === before);
  await b.key("ArrowDown");
  await b.key("Enter");
  check("Enter zooms at the cursor", (await text("#panel-overview .bar-tools .dim")) !== before);
  await b.key("Escape");
}

async function flame() {
  const before = Date.now();
  await b.key("2");
  console.log(`flame graph in ${Date.now() - before} ms of time`);
  check("2 chooses the flame graph", (await tab()) === "flame");
  check(
    "the flame graph has the focus",
    await b.evaluate("document.activeElement.classList.contains('flame')"),
  );
  check("frames are painted", (await colours("flame")) > 8);
  await shot("2-flame");
  const r = await box("#panel-flame .canvas");
  const crumbs = () => count("#panel-flame .crumbs .link");
  await b.move(r.x + 40, r.y + 2 + 19 * 2 + 8);
  check("tooltip with figures", /Bytecodes.*Calls/.test(await text("#tip")), await text("#tip"));
  await b.click(r.x + 40, r.y + 2 + 19 * 2 + 8);
  check("a click zooms", (await crumbs()) === 3, await crumbs());
  const zoomed = await text("#panel-flame .crumbs [aria-current]");
  check(
    "the frame is selected",
    (await text("#panel-flame .side .name")).includes(zoomed.split(".").pop()),
    zoomed,
  );
  await shot("2-flame-zoomed");
  await b.key("Escape");
  check("Escape zooms out", (await crumbs()) === 1, await crumbs());
  const live = [];
  for (const key of ["Home", "ArrowDown", "ArrowDown", "ArrowRight", "ArrowLeft", "ArrowUp"]) {
    await b.key(key);
    live.push(await text("#live"));
  }
  check(
    "arrows move and say where",
    new Set(live.slice(1)).size >= 3 && live[2] === live[4] && live[1] === live[5],
    live,
  );
  await b.key("ArrowDown");
  await b.key("Enter");
  check("Enter zooms", (await crumbs()) > 1);
  const [heaviest, weight] = firstFrames(null)[0];
  check(
    "threads are merged: the heaviest first frame",
    live[1].startsWith(heaviest.slice(0, -2) + ", ") &&
      live[1].includes(` ${weight.toLocaleString("en")} bytecodes`),
    [live[1], heaviest, weight],
  );
  await b.key("Escape");
  await b.key("Escape");
  await b.key("/");
  check("/ goes to the search", await b.evaluate("document.activeElement.type === 'search'"));
  await b.type("hashcode");
  const found = await text("#panel-flame .found");
  check("search shows a share", /^[\d,]+ frames · (≈ )?\d.*%/.test(found), found);
  await shot("2-flame-search");
  await b.key("Enter");
  check(
    "Enter goes to the heaviest match",
    /hashCode/.test(await text("#panel-flame .side .name")),
    await text("#panel-flame .side"),
  );
  await b.key("/");
  await b.key("Escape");
  check("Escape clears the search", (await text("#panel-flame .found")) === "");
  await b.evaluate("document.querySelector('#panel-flame .flame').focus()");
  const option = (group, label) =>
    b.evaluate(
      `[...document.querySelectorAll('#panel-flame [aria-label="${group}"] button')].find((x) => x.textContent === '${label}').click()`,
    );
  await option("Order", "Callers");
  await option("Direction", "Flame");
  await option("Weight", "Calls");
  await b.painted();
  check("callers are painted", (await colours("flame")) > 8);
  await shot("2-flame-callers");
  await option("Colour", "Packages");
  await option("Order", "Callees");
  await b.painted();
  await shot("2-flame-up");
  await option("Direction", "Icicle");
  await option("Weight", "Bytecodes");
  await option("Colour", "Tiers");
  const total = () => b.evaluate("document.querySelector('#panel-flame .side .figures td').textContent");
  const merged = await total();
  await b.evaluate(
    "(() => { const s = document.querySelector('#panel-flame select'); s.selectedIndex = 1; s.dispatchEvent(new Event('change')); })()",
  );
  await b.painted();
  const sum = (frames) => frames.reduce((n, f) => n + f[1], 0);
  check("all threads have the sum of all", digits(merged) === sum(firstFrames(null)), [
    merged,
    sum(firstFrames(null)),
  ]);
  check("a thread has its own sum", digits(await total()) === sum(firstFrames(0)), [
    await total(),
    sum(firstFrames(0)),
  ]);
}

async function methods() {
  await b.key("3");
  check("3 chooses the methods", (await tab()) === "methods");
  const rows = "#panel-methods .rows .tr";
  check("only rows in sight exist", (await count(rows)) > 10 && (await count(rows)) < 80, await count(rows));
  await shot("3-methods");
  const first = () => text(rows + " .name");
  const hottest = await first();
  await press("#panel-methods .th button[title=Sort]");
  check("a click on the head sorts", (await first()) !== hottest);
  await press("#panel-methods .th button[title=Sort]");
  await b.key("/");
  await b.type("string compareto");
  check(
    "the filter keeps what has all words",
    await b.evaluate(
      `[...document.querySelectorAll('${rows} .name')].every((n) => /string/i.test(n.title) && /compareto/i.test(n.title))`,
    ),
  );
  await b.key("Escape");
  await b.evaluate("document.querySelector('#panel-methods .grid').focus()");
  await b.key("ArrowDown");
  check(
    "a row is chosen",
    (await b.evaluate(
      "document.getElementById(document.querySelector('#panel-methods .grid').getAttribute('aria-activedescendant'))?.getAttribute('aria-selected')",
    )) === "true",
  );
  await b.key("Enter");
  check("Enter opens the code", (await tab()) === "source");
}

async function source() {
  await b.painted();
  check("bytecode with counts", (await count("#panel-source [aria-label=Bytecode] .ln.executed")) > 2);
  check("source with counts", (await count("#panel-source [aria-label=Source] .ln.executed")) > 2);
  check("branch ways", (await count("#panel-source .ln.way")) > 1);
  check(
    "source is text",
    (await count("#panel-source .src b i, #panel-source img, #panel-source [aria-label=Source] .src b")) ===
      0,
  );
  await press("#panel-source [aria-label=Source] .ln.executed");
  check("a line shows its bytecode", (await count("#panel-source [aria-label=Bytecode] .ln.current")) > 0);
  await shot("4-source");
  await b.key("/");
  await b.type("parser query");
  check("methods are suggested", (await count("#panel-source .matches li")) > 0);
  await b.key("Enter");
  check(
    "Enter opens the method",
    /Parser\d*\.query/.test(await text("#panel-source .bar-tools .name")),
    await text("#panel-source .bar-tools .name"),
  );
}

async function coverage() {
  await b.key("5");
  check("5 chooses the coverage", (await tab()) === "coverage");
  for (const state of ["executed", "missed", "unknown"])
    check(`coverage shows ${state}`, (await count(`#panel-coverage .bar .${state}`)) > 0);
  const rows = async () =>
    Number(await b.evaluate("document.querySelector('#panel-coverage .grid').getAttribute('aria-rowcount')"));
  const few = await rows();
  await b.key("ArrowDown");
  await b.key("ArrowDown");
  await b.key("ArrowLeft");
  const less = await rows();
  await b.key("ArrowRight");
  check("left closes, right opens", less < few && (await rows()) === few, [few, less, await rows()]);
  await b.key("ArrowRight");
  await b.key("ArrowRight");
  await shot("5-coverage");
  await b.key("/");
  await b.type("table compareto");
  check("the filter opens the tree", (await count("#panel-coverage .level3")) > 0);
  await b.key("Escape");
  await b.key("Escape");
  check("Escape leaves the field", await b.evaluate("document.activeElement.classList.contains('grid')"));
}

async function rest() {
  await b.key("6");
  await b.painted();
  check("6 chooses the latency", (await tab()) === "latency" && (await colours("latency")) > 4);
  const median = await text("#panel-latency .code-head");
  await b.evaluate("document.querySelector('#panel-latency .grid').focus()");
  await b.key("ArrowDown");
  check("another row is another histogram", (await text("#panel-latency .code-head")) !== median);
  await shot("6-latency");
  await b.key("7");
  await b.painted();
  check("7 chooses the JIT timeline", (await tab()) === "jit" && (await colours("jit")) > 6);
  await shot("7-jit");
  await b.key("/");
  await b.type("class_check");
  check(
    "events can be filtered",
    await b.evaluate(
      "[...document.querySelectorAll('#panel-jit .rows .tr')].every((r) => r.textContent.includes('Deoptimised'))",
    ),
  );
  await b.key("Escape");
  await b.key("Escape");
  await b.key("1");
  await b.evaluate("document.getElementById('tab-overview').focus()");
  await b.key("ArrowRight");
  check(
    "arrows move between tabs",
    (await tab()) === "flame" && (await b.evaluate("document.activeElement.id")) === "tab-flame",
  );
  await press("#exact");
  check(
    "the page says why figures are bounds",
    /lower bounds|exact/.test(await text("#about")) &&
      !(await b.evaluate("document.getElementById('about').hidden")),
  );
  await shot("8-about");
  await b.key("Escape");
  check("Escape closes it", await b.evaluate("document.getElementById('about').hidden"));
}

async function dark() {
  const background = () => b.evaluate("getComputedStyle(document.body).backgroundColor");
  const light = await background();
  await press("#theme");
  check(
    "the switch makes it dark",
    (await background()) !== light &&
      (await b.evaluate("document.getElementById('theme').getAttribute('aria-pressed')")) === "true",
  );
  for (const [key, name] of [
    "overview",
    "flame",
    "methods",
    "source",
    "coverage",
    "latency",
    "jit",
  ].entries()) {
    await b.key(String(key + 1));
    await b.painted();
    await shot(`dark-${key + 1}-${name}`);
  }
  await press("#theme");
  check("and light again", (await background()) === light);
  await b.evaluate("localStorage.clear()");
  await b.media("dark");
  await b.send("Page.reload");
  await b.until("document.documentElement.dataset.ready === 'true'", "the page after a reload", 60000);
  check("dark where the system is", (await background()) !== light);
  await b.send("Emulation.setDeviceMetricsOverride", {
    width: 800,
    height: 600,
    deviceScaleFactor: 2,
    mobile: false,
  });
  await b.key("2");
  await b.painted();
  check(
    "fits a small window",
    await b.evaluate(
      "document.documentElement.scrollWidth <= innerWidth && document.documentElement.scrollHeight <= innerHeight",
    ),
  );
  await shot("small-flame");
}

/// The same page with markup in each of its strings.
async function hostile() {
  const evil = (value, key) => {
    if (typeof value === "string")
      return key === "kinds" || key === "levels" || /^\d+$/.test(value)
        ? value
        : `<i data-evil onmouseover=alert(1)>${value}</i></script><script>throw 1</script>`;
    if (Array.isArray(value)) return value.map((v) => evil(v, key));
    if (value && typeof value === "object")
      return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, evil(v, k)]));
    return value;
  };
  const path = join(directory, "hostile.html");
  const small = { ...data, files: { ...data.files, texts: data.files.texts.map((t) => t.slice(0, 4000)) } };
  writeFileSync(
    path,
    page.slice(0, dataFrom) + JSON.stringify(evil(small)).replaceAll("<", "\\u003c") + page.slice(dataTo),
  );
  await b.send("Emulation.setDeviceMetricsOverride", {
    width: 1400,
    height: 900,
    deviceScaleFactor: 1,
    mobile: false,
  });
  await b.go(pathToFileURL(path).href);
  for (let i = 1; i <= 7; i++) {
    await b.key(String(i));
    for (const key of ["ArrowDown", "ArrowDown", "Enter"]) await b.key(key);
    await b.evaluate("document.getElementById('tab-overview').focus()");
  }
  check(
    "markup in names stays text",
    (await count("[data-evil]")) === 0 &&
      (await b.evaluate("document.body.textContent.includes('<i data-evil')")),
  );
}

const directory = mkdtempSync(join(tmpdir(), "jportal-view-"));
try {
  for (const part of [opens, overview, flame, methods, source, coverage, rest, dark, hostile]) {
    try {
      await part();
    } catch (e) {
      check(part.name, false, e.message);
    }
  }
  const own = [files[0], join(directory, "hostile.html")].map((f) => pathToFileURL(resolve(f)).href);
  const others = b.requests.filter((url) => !own.includes(url.split("#")[0]) && !url.startsWith("data:"));
  check("no request", others.length === 0, others.slice(0, 5));
  check("no error, no warning", b.reports.length === 0, b.reports.slice(0, 5));
} finally {
  await b.close();
  rmSync(directory, { recursive: true, force: true });
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
