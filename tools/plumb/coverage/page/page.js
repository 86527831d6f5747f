"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const claims = new Map(data.claims.map((claim) => [claim.name, claim]));
  const $ = (id) => document.getElementById(id);
  const rows = [...document.querySelectorAll("#matrix tbody tr")];
  const body = document.querySelector("#matrix tbody");
  const dialog = $("detail");
  let reason = "";

  const element = (tag, attributes = {}, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children.filter((child) => child !== null));
    return made;
  };

  // Light or dark: as the system says, until the button is pressed.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const paint = (wanted) => { document.documentElement.dataset.theme = wanted ? "dark" : "light"; };
  paint(dark.matches);
  dark.addEventListener("change", (event) => paint(event.matches));
  $("theme").addEventListener("click", () => paint(document.documentElement.dataset.theme !== "dark"));

  // Which cells the filters take, and so which claims.
  const takes = (button) => {
    const state = $("state").value, arch = $("arch").value;
    return (!state || button.classList.contains(state)) && (!arch || button.dataset.arch === arch)
      && (!reason || button.dataset.reason === reason);
  };
  const filter = () => {
    const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const level = $("level").value;
    const byCell = $("state").value || $("arch").value || reason;
    let shown = 0;
    for (const row of rows) {
      let some = false;
      for (const button of row.querySelectorAll(".cell button")) {
        const taken = takes(button);
        some ||= taken;
        button.parentElement.classList.toggle("faded", Boolean(byCell) && !taken);
      }
      const visible = words.every((word) => row.dataset.text.includes(word))
        && (!level || row.dataset.level === level) && (!byCell || some);
      row.hidden = !visible;
      shown += visible;
    }
    $("count").textContent = shown === rows.length ? `${shown} claims` : `${shown} of ${rows.length} claims`;
    $("nothing").hidden = shown > 0;
    $("matrix").hidden = shown === 0;
    settle();
  };
  const sort = () => {
    const key = $("sort").value;
    const by = key === "name"
      ? (a, b) => (a.dataset.claim < b.dataset.claim ? -1 : 1)
      : (a, b) => b.dataset[key] - a.dataset[key] || (a.dataset.claim < b.dataset.claim ? -1 : 1);
    body.append(...rows.sort(by));
    settle();
  };
  const press = (wanted) => {
    reason = reason === wanted ? "" : wanted;
    for (const button of document.querySelectorAll(".reason")) {
      button.setAttribute("aria-pressed", String(button.dataset.reason === reason));
    }
    filter();
  };
  for (const button of document.querySelectorAll(".reason")) {
    button.addEventListener("click", () => press(button.dataset.reason));
  }
  $("search").addEventListener("input", filter);
  for (const id of ["state", "arch", "level"]) $(id).addEventListener("change", filter);
  $("sort").addEventListener("change", sort);
  $("reset").addEventListener("click", () => {
    for (const id of ["search", "state", "arch", "level"]) $(id).value = "";
    press(reason);
    $("search").focus();
  });

  // One stop for the Tab key; arrows move from there.
  let stop = null;
  const settle = () => {
    if (stop && !stop.closest("tr").hidden) return;
    if (stop) stop.tabIndex = -1;
    stop = rows.find((row) => !row.hidden)?.querySelector(".cell button") ?? null;
    if (stop) stop.tabIndex = 0;
  };
  const go = (button) => {
    if (!button) return;
    if (stop) stop.tabIndex = -1;
    stop = button;
    stop.tabIndex = 0;
    stop.focus();
  };
  const neighbour = (from, key) => {
    const cells = [...from.closest("tr").querySelectorAll(".cell button")];
    if (key === "ArrowLeft") return cells[cells.indexOf(from) - 1];
    if (key === "ArrowRight") return cells[cells.indexOf(from) + 1];
    if (key === "Home") return cells[0];
    if (key === "End") return cells.at(-1);
    const column = from.closest("td").cellIndex;
    const visible = rows.filter((row) => !row.hidden);
    const step = key === "ArrowDown" ? 1 : -1;
    for (let i = visible.indexOf(from.closest("tr")) + step; visible[i]; i += step) {
      const found = visible[i].cells[column].querySelector("button");
      if (found) return found;
    }
    return null;
  };
  const KEYS = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"];
  body.addEventListener("keydown", (event) => {
    const button = event.target.closest(".cell button");
    if (!button || !KEYS.includes(event.key)) return;
    event.preventDefault();
    go(neighbour(button, event.key));
  });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches("input, select, textarea");
    if (event.key === "/" && !typing && !dialog.open) {
      event.preventDefault();
      $("search").focus();
      $("search").select();
    }
    if (event.key === "Escape" && event.target === $("search")) {
      $("search").value = "";
      filter();
    }
  });

  // A cell's tests, and the chain of each to the line where it is written.
  const LACKS = data.lacks;
  const chips = (test, lacks) => {
    const said = [test.level ?? "level unknown", test.pool, test.gpus ? `${test.gpus} GPU${test.gpus > 1 ? "s" : ""}` : null,
      test.seconds === null ? "no seconds" : `${test.seconds} s`, test.gpus ? `${test.gpu_seconds} GPU-s` : null, test.cadence, test.suite];
    return element("ul", { class: "chips" }, ...said.filter(Boolean).map((text) => element("li", {}, text)),
      ...lacks.map((lack) => element("li", { class: "lack" }, LACKS[lack])));
  };
  const step = (depth, text, aside) => {
    const made = element("li", {}, text);
    made.style.setProperty("--depth", depth);
    if (aside) made.append(element("span", { class: "aside" }, ` ${aside}`));
    return made;
  };
  const chain = (claim, label, test) => {
    const steps = [step(0, claim.name, claim.label ?? "registered nowhere"), step(0, label, test.declared)];
    for (const source of test.sources) {
      const [first] = source.tests;
      steps.push(step(1, first ? `${source.path}:${first.line}` : source.path, first?.name));
    }
    const list = element("ol", { class: "chain" }, ...steps);
    const rest = test.sources.flatMap((source) => source.tests.slice(1).map((one) => step(1, `${source.path}:${one.line}`, one.name)));
    if (!rest.length) return [list];
    return [list, element("details", { class: "more" }, element("summary", {}, `${rest.length} more test functions`),
      element("ol", { class: "chain" }, ...rest))];
  };
  const card = (claim, label, lacks) => {
    const test = data.tests[label];
    const why = lacks.length ? test.idle ?? Object.values(test.skipped_on).find(Boolean) ?? null : null;
    return element("section", { class: "test" }, element("div", { class: "label" }, label), chips(test, lacks),
      why ? element("p", { class: "dim" }, why) : null, ...chain(claim, label, test));
  };
  const open = (button) => {
    const claim = claims.get(button.closest("tr").dataset.claim);
    const cell = claim.cells.find((one) => one.arch === button.dataset.arch && one.cadence === button.dataset.cadence);
    const close = element("button", { type: "button", class: "close", "aria-label": "Close" }, element("i", { class: "cross" }));
    close.addEventListener("click", () => dialog.close());
    const verdict = cell.covered ? (cell.demanded ? "covered" : "covered, though no claim demands it") : `missing: ${cell.because}`;
    const parts = [close, element("h2", { id: "detail-title" }, claim.name),
      element("p", {}, `on ${cell.arch}, ${cell.cadence}`), claim.sentence ? element("p", { class: "dim" }, claim.sentence) : null,
      element("p", { class: `verdict ${cell.covered ? (cell.demanded ? "covered" : "extra") : "missing"}` }, verdict)];
    if (!cell.covered) {
      parts.push(element("p", { class: "next" }, `To cover it: a test of level ${claim.level ?? "any"} that runs on ${cell.arch}, ${cell.cadence}, and names `,
        element("code", {}, `covers = ["${claim.name}"]`), "."));
    }
    if (cell.tests.length) {
      parts.push(element("h3", {}, cell.tests.length === 1 ? "Its test" : `Its ${cell.tests.length} tests`), ...cell.tests.map((label) => card(claim, label, [])));
    }
    if (cell.near.length) {
      parts.push(element("h3", {}, "Near it, and what each lacks"), ...cell.near.map((one) => card(claim, one.test, one.lacks)));
    }
    dialog.querySelector(".inner").replaceChildren(...parts.filter(Boolean));
    history.replaceState(null, "", `#${[claim.name, cell.arch, cell.cadence].map(encodeURIComponent).join("/")}`);
    go(button);
    dialog.showModal();
    dialog.scrollTop = 0;
  };
  body.addEventListener("click", (event) => {
    const button = event.target.closest(".cell button");
    if (button) open(button);
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("close", () => history.replaceState(null, "", location.pathname + location.search));

  // The table's head stays below the controls, however many lines they take.
  new ResizeObserver(([entry]) => {
    document.documentElement.style.setProperty("--controls", `${entry.target.offsetHeight}px`);
  }).observe(document.querySelector(".controls"));

  settle();
  const [name, arch, cadence] = location.hash.slice(1).split("/").map(decodeURIComponent);
  const linked = rows.find((row) => row.dataset.claim === name);
  const wanted = linked && [...linked.querySelectorAll(".cell button")].find((one) => one.dataset.arch === arch && one.dataset.cadence === cadence);
  if (wanted) open(wanted);
})();
