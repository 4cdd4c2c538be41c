// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
// A headless Chromium, driven over its debugging pipe. Needs nothing but Node and Chromium.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--remote-debugging-pipe",
];

/// One page of a browser. Everything that the page reports is in `reports`; requests other than for
/// the page itself are in `requests`.
export class Browser {
  constructor(chromium) {
    this.directory = mkdtempSync(join(tmpdir(), "jportal-view-"));
    this.child = spawn(chromium, [...FLAGS, `--user-data-dir=${this.directory}`, "about:blank"], {
      stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"],
    });
    this.waiting = new Map();
    this.listeners = [];
    this.reports = [];
    this.requests = [];
    this.next = 1;
    let rest = Buffer.alloc(0);
    this.child.stdio[4].on("data", (data) => {
      rest = Buffer.concat([rest, data]);
      for (let end = rest.indexOf(0); end >= 0; end = rest.indexOf(0)) {
        this.received(JSON.parse(rest.subarray(0, end).toString("utf8")));
        rest = rest.subarray(end + 1);
      }
    });
    this.child.on("exit", (code) => {
      for (const { reject } of this.waiting.values()) reject(new Error(`Chromium ended with status ${code}`));
    });
    this.child.on("error", (e) => {
      for (const { reject } of this.waiting.values()) reject(e);
    });
  }
  received(message) {
    if (message.id) {
      const { resolve, reject, method } = this.waiting.get(message.id);
      this.waiting.delete(message.id);
      if (message.error) reject(new Error(`${method}: ${message.error.message}`));
      else resolve(message.result);
      return;
    }
    const p = message.params;
    if (message.method === "Runtime.consoleAPICalled" && ["error", "warning", "assert"].includes(p.type)) {
      this.reports.push(`console.${p.type}: ${p.args.map((a) => a.value ?? a.description).join(" ")}`);
    } else if (message.method === "Runtime.exceptionThrown") {
      this.reports.push(`exception: ${p.exceptionDetails.exception?.description || p.exceptionDetails.text}`);
    } else if (message.method === "Log.entryAdded" && ["error", "warning"].includes(p.entry.level)) {
      this.reports.push(`${p.entry.source} ${p.entry.level}: ${p.entry.text}`);
    } else if (message.method === "Network.requestWillBeSent") this.requests.push(p.request.url);
    for (const listener of this.listeners) listener(message);
  }
  send(method, params = {}, session = this.session) {
    const id = this.next++;
    const text = JSON.stringify({ id, method, params, ...(session ? { sessionId: session } : {}) });
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject, method });
      this.child.stdio[3].write(text + "\0");
    });
  }
  async open(width, height) {
    const { targetId } = await this.send("Target.createTarget", { url: "about:blank" }, null);
    this.session = (await this.send("Target.attachToTarget", { targetId, flatten: true }, null)).sessionId;
    for (const domain of ["Runtime", "Log", "Page", "Network"]) await this.send(domain + ".enable");
    await this.send("Emulation.setDeviceMetricsOverride", {
      width,
      height,
      deviceScaleFactor: 1,
      mobile: false,
    });
  }
  media(scheme) {
    return this.send("Emulation.setEmulatedMedia", {
      features: [{ name: "prefers-color-scheme", value: scheme }],
    });
  }
  async go(url) {
    await this.send("Page.navigate", { url });
    await this.until("document.documentElement.dataset.ready === 'true'", "the page to be ready", 60000);
  }
  async evaluate(expression) {
    const r = await this.send("Runtime.evaluate", { expression, returnByValue: true, awaitPromise: true });
    if (r.exceptionDetails)
      throw new Error(
        `${expression}: ${r.exceptionDetails.exception?.description || r.exceptionDetails.text}`,
      );
    return r.result.value;
  }
  async until(expression, what, limit = 10000) {
    for (const end = Date.now() + limit; ; ) {
      const value = await this.evaluate(expression).catch(() => false);
      if (value) return value;
      if (Date.now() > end) throw new Error(`waited ${limit} ms for ${what}`);
      await new Promise((r) => setTimeout(r, 30));
    }
  }
  /// Waits until the page has painted what it was asked to.
  painted() {
    return this.evaluate(
      "new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(() => r(true))))",
    );
  }
  async click(x, y, count = 1) {
    const at = { x, y, button: "left", clickCount: count };
    await this.send("Input.dispatchMouseEvent", { type: "mouseMoved", x, y });
    await this.send("Input.dispatchMouseEvent", { type: "mousePressed", ...at });
    await this.send("Input.dispatchMouseEvent", { type: "mouseReleased", ...at });
    await this.painted();
  }
  async move(x, y) {
    await this.send("Input.dispatchMouseEvent", { type: "mouseMoved", x, y });
    await this.painted();
  }
  async drag(x, y, toX) {
    const to = { x: toX, y, button: "left" };
    await this.send("Input.dispatchMouseEvent", {
      type: "mousePressed",
      x,
      y,
      button: "left",
      clickCount: 1,
    });
    await this.send("Input.dispatchMouseEvent", { type: "mouseMoved", ...to, buttons: 1 });
    await this.send("Input.dispatchMouseEvent", { type: "mouseReleased", ...to, clickCount: 1 });
    await this.painted();
  }
  async key(key) {
    const code = {
      Enter: 13,
      Escape: 27,
      ArrowLeft: 37,
      ArrowUp: 38,
      ArrowRight: 39,
      ArrowDown: 40,
      Home: 36,
      End: 35,
      Tab: 9,
    }[key];
    const text = key.length === 1 ? key : key === "Enter" ? "\r" : undefined;
    const event = { key, code: key, windowsVirtualKeyCode: code ?? key.toUpperCase().charCodeAt(0) };
    await this.send("Input.dispatchKeyEvent", { type: text ? "keyDown" : "rawKeyDown", text, ...event });
    await this.send("Input.dispatchKeyEvent", { type: "keyUp", ...event });
    await this.painted();
  }
  async type(text) {
    await this.send("Input.insertText", { text });
    await this.painted();
  }
  async screenshot(path) {
    const { data } = await this.send("Page.captureScreenshot", { format: "png" });
    writeFileSync(path, Buffer.from(data, "base64"));
  }
  async close() {
    const ended = new Promise((r) => this.child.once("exit", r));
    this.send("Browser.close", {}, null).catch(() => {});
    const timer = setTimeout(() => this.child.kill("SIGKILL"), 5000);
    await ended;
    clearTimeout(timer);
    rmSync(this.directory, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  }
}
