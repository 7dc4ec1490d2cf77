"use strict";
// The slider: the fit at any stopping time, from tables over its positions that are embedded in the page.
const Report = (() => {
  const { data, unpack, open } = Page;
  const short = (v) => Number.isFinite(v) ? (Math.abs(v) >= 1e6 || (v !== 0 && Math.abs(v) < 1e-3) ? v.toExponential(3) : (Number.isInteger(v) ? v : Number(v.toPrecision(4))).toLocaleString("en", { maximumFractionDigits: 6 })) : "-";


  let values = null, points = null, curve = null, percent = ""; // of all responses that share the kernel of the one shown
  function openShared(shared) {
    values = unpack(shared.eigenvalues);
    points = open(shared.points);
    curve = open(shared.curve);
    percent = shared.level === null ? "" : `${Math.round(100 * shared.level)}%`;
  }

  let R = null; // the response that is shown
  function openResponse(part) {
    openShared(part.shared || data);
    const made = open(part);
    made.points = open(part.points);
    made.curve = open(part.curve);
    made.effects = part.effects.map(open);
    made.readings = Array.from(made.clocks.slice(1));
    made.home = part.chosen;
    made.chosenAt = made.clocks[part.chosen];
    if (points && made.points) {
      made.yRange = padded(made.points.y);
      made.normal = Array.from(made.points.y, (_, i) => quantile((i + 0.5) / made.points.y.length));
    }
    return made;
  }

  function numbers(index) {
    const out = { step_sum: R.clocks[index], iteration: R.iterations ? R.iterations[index] : null };
    for (const key in R.numbers) out[key] = R.numbers[key] ? R.numbers[key][index] : null;
    return out;
  }

  // One position of a table of fits, in the units of the response.
  function fits(table, index) {
    const count = table.length / R.clocks.length;
    return table.slice(index * count, (index + 1) * count).map((v) => R.offset + R.scale * v);
  }

  function at(index) {
    const state = { index, numbers: numbers(index) };
    if (curve) state.curve = fits(R.curve.fits, index);
    if (points && R.points) {
      state.fitted = fits(R.points.fits, index);
      state.residuals = R.points.y.map((y, i) => y - state.fitted[i]);
    }
    state.effects = R.effects.map((part) => fits(part.fits, index));
    return state;
  }

  // ---- figures ----------------------------------------------------------------------------------------------------
  const figure = (id) => document.getElementById(id);
  const clock = { label: "step_sum", log: true };
  function padded(list, share = 0.08) { const a = Math.min(...list), b = Math.max(...list), room = (b - a || 1) * share; return [a - room, b + room]; }
  const freedomTicks = () => {
    const out = [], f = R.freedom;
    for (const want of [0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 1e4]) {
      const i = f.findIndex((v) => v >= want);
      if (i > 0) {
        const part = (want - f[i - 1]) / (f[i] - f[i - 1]);
        out.push({ at: Math.exp(Math.log(R.readings[i - 1]) * (1 - part) + Math.log(R.readings[i]) * part), text: String(want) });
      }
    }
    return out;
  };
  const marks = (state) => [
    ...(R.chosenAt > 0 ? [{ kind: "vline", at: R.chosenAt, cls: "stop", name: "chosen stop" }] : []),
    ...(state.index === R.home ? [] : [{ kind: "vline", at: state.numbers.step_sum, cls: "here", name: "slider" }]),
  ];
  const RISKS = { "in sample": "muted dotted", SURE: "c3", GCV: "c4", "worst case": "c5 dashed", "leave-one-out": "c2", "leave-one-out of ridge": "c1" };
  const WORDS = { "leave-one-out of ridge": "error on left-out rows (ridge on the same clock)", "leave-one-out": "error on left-out rows", "in sample": "error in sample" };

  function crossingLayers(state) {
    const c = R.crossing;
    const name = c.decided ? "threshold" : "threshold with the fit's own norm (did not decide)";
    return [
      { kind: "line", x: R.readings, y: c.complexity, cls: "c1", name: "local complexity" },
      { kind: "line", x: R.readings, y: c.threshold, cls: c.decided ? "c2" : "c2 dashed", name },
      ...marks(state),
    ];
  }
  const crossing = (state) => Chart(figure("crossing"), { label: "Local complexity against its threshold", x: clock, y: { label: "complexity", log: true }, layers: crossingLayers(state) });

  function riskDomain() {
    const inside = R.risks["in sample"].filter((v) => v !== null);
    const domain = [Math.max(0, Math.min(R.noise, Math.min(...inside)) * 0.85), Math.max(inside[0], R.noise) * 1.25];
    return domain[0] < domain[1] ? domain : undefined;
  }

  function risk(state) {
    const layers = Object.entries(R.risks).map(([name, y]) => ({ kind: "line", x: R.readings, y, cls: RISKS[name] || "c1", name }));
    layers.push({ kind: "hline", at: R.noise, cls: "noise", name: "noise level" }, ...marks(state));
    Chart(figure("risk"), { label: "Estimates of the error along the path", x: clock, y: { label: "root mean squared error", domain: riskDomain() }, top: { label: "degrees of freedom", ticks: freedomTicks() }, layers });
  }

  // The curve that the deciding rule reads, with the numbers it compared.
  function decided(state) {
    const d = R.decided, top = { label: "degrees of freedom", ticks: freedomTicks() };
    if (d.curve === "crossing") {
      Chart(figure("decided"), { label: "What decided: local complexity against its threshold", x: clock, y: { label: "complexity", log: true }, top, layers: crossingLayers(state) });
      return;
    }
    const name = d.curve && R.risks[d.curve] ? d.curve : R.risks["leave-one-out"] ? "leave-one-out" : "GCV";
    const layers = [{ kind: "line", x: R.readings, y: R.risks[name], cls: "c1", name: WORDS[name] || name }];
    if (d.lowest !== null && d.curve === name) {
      layers.push({ kind: "hline", at: d.lowest, cls: "zero", name: "the smallest" });
      if (d.lowest_step_sum) layers.push({ kind: "points", x: [d.lowest_step_sum], y: [d.lowest], cls: "mark", radius: 5, name: "where it is smallest" });
    }
    layers.push({ kind: "hline", at: R.noise, cls: "noise", name: "noise level" }, ...marks(state));
    const seen = R.risks[name].filter((v) => v !== null), least = Math.min(...seen, R.noise), most = Math.min(Math.max(...seen), 1.5 * Math.min(...seen)); // the bottom of the curve is what decides
    const domain = most > least ? [least - 0.08 * (most - least), most] : undefined;
    Chart(figure("decided"), { label: "What decided: " + (WORDS[name] || name), x: clock, y: { label: "root mean squared error", domain }, top, layers });
  }

  function spectrum(state) {
    const level = state.numbers.step_sum > 0 ? 1 / state.numbers.step_sum : Infinity, index = Array.from(values, (_, i) => i + 1);
    const pick = (keep) => ({ x: index.filter((_, i) => keep(values[i])), y: Array.from(values).filter(keep) });
    const layers = [
      { kind: "points", ...pick((v) => v >= level), cls: "c1", name: "mostly fitted" },
      { kind: "points", ...pick((v) => v < level && v > 0), cls: "muted", name: "mostly left" },
    ];
    if (R.critical) layers.push({ kind: "hline", at: R.critical ** 2, cls: "stop", name: `critical radius ${short(R.critical)}, squared` });
    if (state.index !== R.home && Number.isFinite(level)) layers.push({ kind: "hline", at: level, cls: "here", name: "1 / step_sum at the slider" });
    const top = values[0] * 2, low = Math.max(values.filter((v) => v > 0).at(-1), top * 1e-9) / 2;
    Chart(figure("spectrum"), { label: "Eigenvalues of the kernel matrix", x: { label: "index", log: true, domain: [0.9, values.length * 1.1] }, y: { label: "eigenvalue", log: true, domain: [low, top] }, layers });
  }

  // Rows that are outliers are drawn apart.
  function rowLayers(xs, ys, name, cls) {
    const out = R.points.outlying, keep = (flag) => ({ x: Array.from(xs).filter((_, i) => out[i] === flag), y: Array.from(ys).filter((_, i) => out[i] === flag) });
    const apart = keep(true);
    return [{ kind: "points", ...keep(false), cls, name }, ...(apart.x.length ? [{ kind: "points", ...apart, cls: "outlier", radius: 4.5, name: "outliers" }] : [])];
  }

  function curveFigure(state) {
    const [from, to] = curve.inside, beyond = (side) => Array.from(curve.x, (x, i) => (side(x) ? state.curve[i] : null));
    const layers = [];
    if (curve.x[0] < from) layers.push({ kind: "zone", from: curve.x[0] - 1e9, to: from, name: "beyond the data: extrapolation" }, { kind: "zone", from: to, to: curve.x.at(-1) + 1e9 });
    if (R.curve.new) {
      const ends = (half) => ({ low: start.curve.map((v, i) => v - half[i]), high: start.curve.map((v, i) => v + half[i]) });
      layers.push({ kind: "band", x: curve.x, ...ends(R.curve.new), cls: "c1 faint", name: `${percent} of new observations (chosen stop)` });
      layers.push({ kind: "band", x: curve.x, ...ends(R.curve.mean), cls: "c1", name: `${percent} interval of the curve (chosen stop)` });
    }
    if (points && points.x && R.points) layers.push(...rowLayers(points.x, R.points.y, "data", "muted"));
    layers.push({ kind: "line", x: curve.x, y: beyond((x) => x >= from && x <= to), cls: "c1", name: "fit" });
    if (curve.x[0] < from) layers.push({ kind: "line", x: curve.x, y: beyond((x) => x <= from), cls: "c1 dashed" }, { kind: "line", x: curve.x, y: beyond((x) => x >= to), cls: "c1 dashed" });
    Chart(figure("fit"), { label: "The fitted curve over the points", x: { label: curve.name }, y: { label: R.target, domain: R.yRange }, layers });
  }

  function fit(state) {
    if (curve) curveFigure(state);
    else if (points && R.points) {
      const layers = [{ kind: "line", x: R.yRange, y: R.yRange, cls: "muted", name: "predicted = observed" }, ...rowLayers(state.fitted, R.points.y, "rows", "c1")];
      Chart(figure("fit"), { label: "Predicted against observed", x: { label: "predicted", domain: R.yRange }, y: { label: "observed: " + R.target, domain: R.yRange }, layers });
    }
  }

  function effects(state) {
    const ends = R.effects.flatMap((part, i) => Array.from(start.effects[i], (v, k) => (part.half ? [v - part.half[k], v + part.half[k]] : [v])).flat());
    const range = ends.length ? padded(ends, 0.1) : undefined;
    for (let i = 0; figure("effect-" + i); i++) figure("effect-" + i).hidden = i >= R.effects.length;
    R.effects.forEach((part, i) => {
      const here = state.effects[i], then = start.effects[i], moved = state.index !== R.home;
      const band = part.half && { low: Array.from(then, (v, k) => v - part.half[k]), high: Array.from(then, (v, k) => v + part.half[k]) };
      const layers = part.labels
        ? [{ kind: "dots", y: then, ...(band || {}), cls: "c1", name: moved ? "at the chosen stop" : undefined }, ...(moved ? [{ kind: "dots", y: here, cls: "here", radius: 3.5, name: "at the slider" }] : [])]
        : [...(band ? [{ kind: "band", x: part.x, ...band, cls: "c1" }] : []), ...(moved ? [{ kind: "line", x: part.x, y: then, cls: "muted dotted", name: "at the chosen stop" }] : []), { kind: "line", x: part.x, y: here, cls: moved ? "here" : "c1", name: moved ? "at the slider" : undefined }];
      Chart(figure("effect-" + i), { label: "Effect of " + part.name, height: 230, x: { label: part.name, labels: part.labels || undefined }, y: { label: "mean fit", domain: range }, layers });
    });
    if (figure("heat")) {
      figure("heat").hidden = !R.heat;
      if (R.heat) Chart.heat(figure("heat"), { ...R.heat, label: `Mean fit of ${R.target} over ${R.heat.x.name} and ${R.heat.y.name}` });
    }
  }

  function quantile(p) { // of the normal distribution, by bisection on an erf series good to 1e-7
    let low = -8, high = 8;
    const cdf = (x) => { const t = 1 / (1 + 0.2316419 * Math.abs(x)), d = 0.3989422804 * Math.exp(-x * x / 2);
      const q = d * t * (0.31938153 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429)))); return x > 0 ? 1 - q : q; };
    for (let i = 0; i < 50; i++) { const m = (low + high) / 2; if (cdf(m) < p) low = m; else high = m; }
    return (low + high) / 2;
  }

  function residuals(state) {
    if (!points || !R.points) return;
    const range = padded(Array.from(R.points.y, (y) => y - R.offset).concat([-2.5 * R.noise, 2.5 * R.noise]), 0);
    const reach = Math.max(3 * R.noise, Math.max(...state.residuals.map(Math.abs)) * 1.05) || Math.abs(range[1]);
    const lines = [{ kind: "hline", at: 0, cls: "zero" }, { kind: "hline", at: 2 * R.noise, cls: "noise", name: "± 2 noise levels" }, { kind: "hline", at: -2 * R.noise, cls: "noise" }];
    Chart(figure("residuals"), { label: "Residuals against fitted values", x: { label: "fitted", domain: R.yRange }, y: { label: "observed - fitted", domain: [-reach, reach] }, layers: [...lines, ...rowLayers(state.fitted, state.residuals, "rows", "c1")] });
    const sorted = Array.from(state.residuals).sort((a, b) => a - b), ends = [-3, 3];
    Chart(figure("quantiles"), { label: "Ordered residuals against a normal distribution's", x: { label: "normal quantile", domain: ends }, y: { label: "ordered residuals", domain: [-reach, reach] }, layers: [
      { kind: "line", x: ends, y: ends.map((e) => e * R.noise), cls: "muted", name: "normal noise at the noise level" }, { kind: "points", x: R.normal, y: sorted, cls: "c1", name: "rows" } ] });
  }

  // ---- the slider and the menu ----------------------------------------------------------------------------------------
  const slider = figure("stop"), back = figure("back"), live = figure("live"), menu = figure("response"), others = figure("others");
  let start = null, now = null, later = null;

  const words = (n) => (n.iteration === null ? "" : `${n.iteration.toLocaleString("en")} step${n.iteration === 1 ? "" : "s"}, `) + `step_sum ${short(n.step_sum)}, ${short(n.degrees_of_freedom)} degrees of freedom`;

  function draw() {
    fit(now);
    effects(now);
    residuals(now);
    if (!R.readings.length) return;
    decided(now);
    if (others.open) for (const each of [risk, crossing, spectrum]) each(now);
  }

  function show(index, tell) {
    now = at(index);
    for (const cell of document.querySelectorAll("[data-number]")) {
      const value = now.numbers[cell.dataset.number];
      cell.textContent = value === null || value === undefined ? "-" : short(value);
      cell.dataset.value = value === null || value === undefined ? "" : String(value);
    }
    slider.value = String(index);
    slider.setAttribute("aria-valuetext", words(now.numbers) + (index === R.home ? ", the chosen stop" : ""));
    back.disabled = index === R.home;
    draw();
    if (tell) {
      clearTimeout(later);
      later = setTimeout(() => { live.textContent = `${words(now.numbers)}; error in sample ${short(now.numbers.rmse_fit)}.`; }, 400);
    }
  }

  function select(response) {
    R = openResponse(data.responses[response]);
    for (const part of document.querySelectorAll("[data-response]")) part.hidden = Number(part.dataset.response) !== response;
    slider.max = String(R.clocks.length - 1);
    start = at(R.home);
    show(R.home, false);
  }

  slider.addEventListener("input", () => show(Number(slider.value), true));
  back.addEventListener("click", () => { show(R.home, true); slider.focus(); });
  others.addEventListener("toggle", draw);
  if (menu) menu.addEventListener("change", () => select(Number(menu.value)));
  select(0);
  Page.ready(draw);
  return { at, select, current: () => now, response: () => R, get curve() { return curve; } };
})();
