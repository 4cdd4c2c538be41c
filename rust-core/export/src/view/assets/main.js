// SPDX-License-Identifier: GPL-2.0-only WITH Classpath-exception-2.0
// Tabs, keyboard, and what the page says about itself.

const TABS = [
  ["overview", "Overview", OverviewTab],
  ["flame", "Flame graph", Flame],
  ["methods", "Methods", MethodsTab],
  ["source", "Source & bytecode", SourceTab],
  ["coverage", "Coverage", CoverageTab],
  ["latency", "Latency", LatencyTab],
  ["jit", "JIT timeline", JitTab],
];

const app = {
  tabs: new Map(),
  chosen: "",
  start() {
    readPalette();
    this.about();
    const list = byId("tabs"),
      main = byId("main");
    main.replaceChildren();
    TABS.forEach(([key, title], i) => {
      const tab = el(
        "button",
        {
          type: "button",
          role: "tab",
          id: "tab-" + key,
          "aria-controls": "panel-" + key,
          "aria-selected": "false",
          tabindex: -1,
          onclick: () => this.open(key),
        },
        title,
        el("kbd", { "aria-hidden": true }, String(i + 1)),
      );
      const panel = el("div", {
        role: "tabpanel",
        id: "panel-" + key,
        "aria-labelledby": "tab-" + key,
        class: "panel",
        hidden: true,
      });
      list.append(tab);
      main.append(panel);
    });
    list.addEventListener("keydown", (e) => this.tabKey(e));
    document.addEventListener("keydown", (e) => this.key(e));
    byId("theme").addEventListener("click", () => this.theme());
    byId("exact").addEventListener("click", () => this.pop("about", "exact"));
    byId("help").addEventListener("click", () => this.pop("keys", "help"));
    this.themeShown();
    const wanted = location.hash.slice(1);
    this.open(TABS.some(([key]) => key === wanted) ? wanted : "overview");
    document.documentElement.dataset.ready = "true";
  },
  open(key) {
    if (this.chosen === key) return;
    tip.hide();
    for (const [k, , Tab] of TABS) {
      const on = k === key,
        tab = byId("tab-" + k),
        panel = byId("panel-" + k);
      tab.setAttribute("aria-selected", String(on));
      tab.tabIndex = on ? 0 : -1;
      panel.hidden = !on;
      if (on && !this.tabs.has(k)) {
        const content = new Tab(this);
        this.tabs.set(k, content);
        panel.append(content.build());
      }
    }
    this.chosen = key;
    history.replaceState(null, "", "#" + key);
  },
  /// Shows the code of a method.
  openMethod(m) {
    this.open("source");
    this.tabs.get("source").show(m);
    byId("tab-source").focus();
  },
  tabKey(e) {
    const i = TABS.findIndex(([key]) => key === this.chosen);
    const next = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: TABS.length - 1 }[e.key];
    if (next !== undefined) {
      const key = TABS[(next + TABS.length) % TABS.length][0];
      this.open(key);
      byId("tab-" + key).focus();
    } else if (e.key === "ArrowDown") this.focusPanel();
    else return;
    e.preventDefault();
    e.stopPropagation();
  },
  /// The focus to the main part of the tab.
  focusPanel() {
    const panel = byId("panel-" + this.chosen);
    const target = panel.querySelector(".canvas[role=application], .grid, .code");
    (target || byId("main")).focus();
  },
  key(e) {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName);
    if (e.key === "Escape") {
      if (!byId("about").hidden || !byId("keys").hidden) {
        this.close();
        return;
      }
      if (typing) {
        if (e.target.value && e.target.type === "search") {
          e.target.value = "";
          e.target.dispatchEvent(new Event("input"));
        } else this.focusPanel();
        return;
      }
      const tab = this.tabs.get(this.chosen);
      if (tab && tab.unzoom) tab.unzoom();
      return;
    }
    if (typing || e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.key === "/") {
      const field = byId("panel-" + this.chosen).querySelector("[data-search]");
      if (!field) return;
      field.focus();
      field.select();
    } else if (/^[1-7]$/.test(e.key)) {
      const key = TABS[Number(e.key) - 1][0];
      this.open(key);
      this.focusPanel();
    } else if (e.key === "?") this.pop("keys", "help");
    else if (e.key === "t") this.theme();
    else return;
    e.preventDefault();
  },
  pop(id, button) {
    const shown = !byId(id).hidden;
    this.close();
    byId(id).hidden = shown;
    byId(button).setAttribute("aria-expanded", String(!shown));
  },
  close() {
    for (const [id, button] of [
      ["about", "exact"],
      ["keys", "help"],
    ]) {
      byId(id).hidden = true;
      byId(button).setAttribute("aria-expanded", "false");
    }
  },
  theme() {
    const root = document.documentElement;
    root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
    try {
      localStorage.setItem("jportal-theme", root.dataset.theme);
    } catch {
      /* The page may have no storage. */
    }
    this.themeShown();
    readPalette();
    for (const tab of this.tabs.values()) if (tab.view) tab.view.paint();
  },
  themeShown() {
    byId("theme").setAttribute("aria-pressed", String(document.documentElement.dataset.theme === "dark"));
  },
  about() {
    const m = D.meta,
      left = D.left;
    document.title = (m.capture ? m.capture + " – " : "") + "JPortal";
    byId("title").textContent = m.capture || "JPortal";
    byId("subtitle").textContent = [m.jvm, m.recorded].filter(Boolean).join(" · ");
    const chip = byId("exact");
    chip.textContent = m.exact ? "exact" : "lower bounds";
    chip.classList.add(m.exact ? "good" : "bounds");
    chip.title = m.exact
      ? "All figures are complete"
      : "Some figures are lower bounds: they are marked with ≥";
    const cut = [
      left.folded &&
        `${plural(left.folded, "node")} of the call trees with the smallest weight are folded into nodes ` +
          "“(N more)”. Their sums are kept.",
      left.listings &&
        `${plural(left.listings, "bytecode listing")} of the methods with the fewest bytecodes left out.`,
      left.files && `${plural(left.files, "source file")} left out.`,
    ].filter(Boolean);
    byId("about").replaceChildren(
      ...[
        el("h2", {}, m.exact ? "All figures are exact" : "Some figures are lower bounds"),
        m.exact
          ? el("p", {}, "Nothing was lost, placed or filled, and no stretch of compiled code is unresolved.")
          : el(
              "p",
              {},
              "A figure with ≥ is the least: more may have happened. A share of such figures is marked with ≈. " +
                "What is unknown is neither 0 nor missed.",
            ),
        m.why.length > 0 &&
          el(
            "ul",
            {},
            m.why.map((w) => el("li", {}, w)),
          ),
        cut.length > 0 && el("h3", {}, "Left out to keep this page small"),
        cut.length > 0 &&
          el(
            "ul",
            {},
            cut.map((c) => el("li", {}, c)),
          ),
        m.notes.length > 0 && el("h3", {}, "Notes"),
        m.notes.length > 0 &&
          el(
            "ul",
            {},
            m.notes.map((n) => el("li", {}, n)),
          ),
        facts([
          ["Capture", m.capture || "–"],
          ["JVM", m.jvm || "unknown"],
          ["Recorded", m.recorded || "unknown"],
          m.producer && ["Written by", m.producer],
          m.command && ["Command", el("code", {}, m.command)],
        ]),
      ].filter(Boolean),
    );
    const keys = [
      ["1 … 7", "choose a tab"],
      ["/", "search or filter"],
      ["arrows", "move in a graph, a table or a list"],
      ["Enter", "zoom in, open the code"],
      ["Escape", "zoom out, leave a field"],
      ["Home", "flame graph: the whole thread"],
      ["?", "this list"],
      ["t", "light or dark"],
    ];
    byId("keys").replaceChildren(
      el("h2", {}, "Keyboard"),
      el(
        "dl",
        { class: "facts" },
        keys.map(([k, what]) => [el("dt", {}, el("kbd", {}, k)), el("dd", {}, what)]),
      ),
    );
  },
};
app.start();
