"use strict";
// The report of classes and other losses: the stop elsewhere, confusion at any threshold, reliability, effects.
const Report = (() => {
  const { data, open } = Page;
  const figure = (id) => document.getElementById(id);

  const left = open(data.left_out);
  const menu = figure("class"), slider = figure("threshold"), clock = data.clock, stop = figure("stop"), back = figure("back");
  let there = clock ? clock.home : 0;
  let shown = data.classes ? (data.classes.length === 2 ? 1 : 0) : 0;

  const percent = (v) => (Number.isFinite(v) ? (100 * v).toFixed(1) + "%" : "-");
  function fill(kind, read, text) {
    for (const cell of document.querySelectorAll(`[data-${kind}]`)) { const name = cell.dataset[kind], value = read(name); cell.textContent = text(name, value); cell.dataset.value = String(value); }
  }

  // ---- two classes at a threshold ---------------------------------------------------------------------------------
  function confusion(threshold) {
    const table = [[0, 0], [0, 0]];
    left.p.forEach((p, i) => { table[left.code[i]][p > threshold ? 1 : 0] += left.weight[i]; });
    const all = table.flat().reduce((a, b) => a + b), part = (a, b) => (b > 0 ? a / b : NaN);
    return { table, accuracy: (table[0][0] + table[1][1]) / all, recall: part(table[1][1], table[1][0] + table[1][1]),
      specificity: part(table[0][0], table[0][0] + table[0][1]), precision: part(table[1][1], table[0][1] + table[1][1]) };
  }

  let later = null;
  function threshold(tell) {
    const value = Number(slider.value), found = confusion(value);
    figure("threshold-value").textContent = slider.value;
    fill("rate", (name) => found[name], (name, value) => percent(value));
    for (const cell of document.querySelectorAll("[data-cell]")) { const [i, j] = cell.dataset.cell.split("-").map(Number); cell.textContent = Chart.short(found.table[i][j]); }
    if (tell) { clearTimeout(later); later = setTimeout(() => { figure("live").textContent = `${percent(found.accuracy)} right, ${percent(found.recall)} of ${data.classes[1]} found.`; }, 400); }
  }

  // ---- figures ----------------------------------------------------------------------------------------------------
  function reliability(place, label, [predicted, observed, counts], cls, behind) {
    const diagonal = [0, 1];
    const layers = [{ kind: "line", x: diagonal, y: diagonal, cls: "muted", name: "as it should be" }, ...(behind ? [{ kind: "line", x: behind[0], y: behind[1], cls: "muted dotted", name: "at the chosen stop" }] : []),
      { kind: "line", x: predicted, y: observed, cls, name: "left-out rows" },
      ...predicted.map((p, i) => ({ kind: "points", x: [p], y: [observed[i]], cls, radius: 2 + 6 * Math.sqrt(counts[i] / Math.max(...counts)) }))];
    Chart(figure(place), { label, x: { label: "predicted probability", domain: [-0.02, 1.02] }, y: { label: "observed share", domain: [-0.02, 1.02] }, layers });
  }

  // ---- the stop elsewhere -----------------------------------------------------------------------------------------
  function elsewhere() {
    const moved = there !== clock.home, share = new Set(["accuracy", "certainty"]);
    fill("clock", (name) => clock[name][there], (name, value) => (share.has(name) ? percent(value) : Chart.short(value)));
    stop.value = String(there);
    stop.setAttribute("aria-valuetext", `step_sum ${Chart.short(clock.at[there])}` + (moved ? "" : ", the chosen stop"));
    back.disabled = !moved;
    reliability("reliability-there", "Reliability of left-out probabilities at the slider", clock.reliability[there], moved ? "here" : "c1", moved ? clock.reliability[clock.home] : null);
  }
  function show(index) {
    there = index;
    elsewhere();
    decided();
    clearTimeout(later);
    later = setTimeout(() => { figure("live-clock").textContent = `step_sum ${Chart.short(clock.at[there])}: ${percent(clock.accuracy[there])} right, loss ${Chart.short(clock.loss[there])}.`; }, 400);
  }

  function predicted() {
    const both = [...left.predicted, ...left.y], ends = [Math.min(...both), Math.max(...both)];
    Chart(figure("predicted"), { label: "Left-out rows, predicted against observed", x: { label: "predicted without the row" }, y: { label: "observed: " + data.target }, layers: [
      { kind: "line", x: ends, y: ends, cls: "muted", name: "predicted = observed" }, { kind: "points", x: left.predicted, y: left.y, cls: "c1", name: "rows" } ] });
  }

  function decided() {
    const c = data.clock;
    if (!c) { figure("decided").hidden = true; return; }
    const layers = [{ kind: "line", x: c.at, y: c.loss, cls: "c1", name: "loss of a left-out row" }, { kind: "hline", at: c.lowest, cls: "zero", name: "the smallest" }, { kind: "vline", at: data.stop, cls: "stop", name: "chosen stop" },
      ...(there === c.home ? [] : [{ kind: "vline", at: c.at[there], cls: "here", name: "slider" }])];
    const top = Math.min(Math.max(...c.loss), 1.6 * c.loss[0]), low = Math.min(c.lowest, ...c.loss);
    Chart(figure("decided"), { label: "What decided: the loss of left-out rows along the clock", x: { label: "step_sum", log: true }, y: { label: data.loss + " loss", domain: [low - 0.1 * (top - low), top + 0.05 * (top - low)] }, layers });
  }

  function effects() {
    const what = data.classes ? "probability of " + data.classes[shown] : "mean fit";
    const all = data.effects.flatMap((part) => part.means[shown]), low = Math.min(...all), high = Math.max(...all), room = 0.1 * (high - low) || 0.1;
    const domain = [low - room, high + room];
    data.effects.forEach((part, i) => {
      const y = part.means[shown];
      const layers = part.labels ? [{ kind: "dots", y, cls: "c1" }] : [{ kind: "line", x: part.x, y, cls: "c1" }];
      Chart(figure("effect-" + i), { label: "Effect of " + part.name, height: 230, x: { label: part.name, labels: part.labels || undefined }, y: { label: what, domain }, layers });
    });
    if (!figure("heat")) return;
    figure("heat").hidden = !data.heat;
    if (data.heat) { const map = data.heat[shown]; Chart.heat(figure("heat"), { ...map, label: `${what} over ${map.x.name} and ${map.y.name}` }); }
  }

  function draw() {
    if (slider) threshold(false);
    if (figure("reliability")) reliability("reliability", "Reliability of left-out probabilities", data.reliability, "c1", null);
    if (stop) elsewhere();
    if (figure("predicted")) predicted();
    decided();
    if (data.effects.length) effects();
  }

  if (slider) slider.addEventListener("input", () => threshold(true));
  if (stop) {
    stop.max = String(clock.at.length - 1);
    stop.addEventListener("input", () => show(Number(stop.value)));
    back.addEventListener("click", () => { show(clock.home); stop.focus(); });
  }
  if (menu) menu.addEventListener("change", () => { shown = Number(menu.value); effects(); });
  draw();
  Page.ready(draw);
  return { confusion, data };
})();
