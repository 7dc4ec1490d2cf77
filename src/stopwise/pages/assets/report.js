"use strict";
// The slider: the fit at any stopping time, from eigenvalues, coefficients and basis rows embedded in the page.
const Report = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const short = (v) => Number.isFinite(v) ? (Math.abs(v) >= 1e6 || (v !== 0 && Math.abs(v) < 1e-3) ? v.toExponential(3) : Number(v.toPrecision(4)).toLocaleString("en", { maximumFractionDigits: 6 })) : "-";

  function unpack(part) {
    if (!part) return null;
    const text = atob(part.base64), bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    const view = new DataView(bytes.buffer), out = new Float64Array(text.length / 8);
    for (let i = 0; i < out.length; i++) out[i] = view.getFloat64(8 * i, true);
    return out;
  }

  const clocks = unpack(data.clocks), iterations = unpack(data.iterations);
  const pairs = unpack(data.pairs), coefficients = unpack(data.coefficients), gains = unpack(data.gains);
  const values = unpack(data.eigenvalues);
  const sums = data.sums && Object.fromEntries(Object.entries(data.sums).map(([k, v]) => [k, typeof v === "number" ? v : unpack(v)]));
  const open = (part) => part && { ...part, x: unpack(part.x), y: unpack(part.y), rows: unpack(part.rows), outside: unpack(part.outside) };
  const points = open(data.points), curve = open(data.curve), profiles = (data.profiles || []).map(open);

  // What a direction of this eigenvalue keeps of the residual and gives to the fit at a clock reading.
  const shrinkage = {
    descent: (v, eta, t) => (t === 0 ? 1 : Math.exp(t * Math.log1p(-Math.min(1, data.filter.step * v)))),
    flow: (v, eta) => Math.exp(-eta * v),
    ridge: (v, eta) => 1 / (1 + eta * v),
    cutoff: (v, eta) => (v * eta >= 1 ? 0 : 1),
  };
  const gain = {
    descent: (v, eta, t) => (t === 0 ? 0 : -Math.expm1(t * Math.log1p(-Math.min(1, data.filter.step * v)))),
    flow: (v, eta) => -Math.expm1(-eta * v),
    ridge: (v, eta) => (eta * v) / (1 + eta * v),
    cutoff: (v, eta) => (v * eta >= 1 ? 1 : 0),
  };

  function numbers(index) {
    const eta = clocks[index], t = iterations ? iterations[index] : null;
    const out = { step_sum: eta, iteration: t, rmse_loo: data.left_out ? data.left_out[index] : null };
    if (!sums) {
      for (const key in data.table) out[key] = data.table[key][index];
      return out;
    }
    const s = shrinkage[data.filter.name], g = gain[data.filter.name];
    let freedom = 0, residual = sums.unseen, norm = 0;
    for (let j = 0; j < sums.density.length; j++) freedom += sums.multiplicities[j] * g(sums.density[j], eta, t);
    for (let j = 0; j < sums.values.length; j++) {
      const v = sums.values[j], left = s(v, eta, t), got = g(v, eta, t);
      residual += left * left * sums.squares[j];
      if (v > 0) norm += (got * got / v) * sums.squares[j];
    }
    out.degrees_of_freedom = freedom;
    out.rmse_fit = data.scale * Math.sqrt(residual / data.n);
    out.hilbert_norm = data.scale * Math.sqrt(norm / data.n);
    return out;
  }

  function factors(index) {
    const eta = clocks[index], t = iterations ? iterations[index] : null, k = pairs.length;
    const got = new Float64Array(k), weight = new Float64Array(k);
    for (let j = 0; j < k; j++) {
      got[j] = gains ? gains[index * k + j] : gain[data.filter.name](pairs[j], eta, t);
      weight[j] = got[j] / pairs[j];
    }
    return { eta, got, weight };
  }

  function apply(part, by) {
    const k = pairs.length, count = part.rows.length / Math.max(k, 1), out = new Float64Array(count);
    for (let i = 0; i < count; i++) {
      let total = 0;
      for (let j = 0; j < k; j++) total += part.rows[i * k + j] * by[j] * coefficients[j];
      out[i] = data.offset + data.scale * total;
    }
    return out;
  }

  function band(f) {
    const k = pairs.length;
    return curve.x.map((_, i) => {
      let total = f.eta * f.eta * curve.outside[i] + (data.intercept ? 1 / data.n : 0);
      for (let j = 0; j < k; j++) total += (f.weight[j] * curve.rows[i * k + j]) ** 2;
      return data.noise * Math.sqrt(total);
    });
  }

  function at(index) {
    const f = factors(index), state = { index, numbers: numbers(index) };
    if (curve) { state.curve = apply(curve, f.weight); state.std = band(f); }
    if (points) { state.fitted = apply(points, points.by === "gain" ? f.got : f.weight); state.residuals = points.y.map((y, i) => y - state.fitted[i]); }
    state.profiles = profiles.map((part) => apply(part, f.weight));
    return state;
  }

  // ---- figures ----------------------------------------------------------------------------------------------------
  const figure = (id) => document.getElementById(id);
  const clock = { label: "step_sum", log: true };
  const readings = Array.from(clocks.slice(1));
  const home = data.chosen, chosenAt = clocks[home];
  const freedomTicks = () => {
    const out = [], f = data.freedom;
    for (const want of [0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 1e4]) {
      const i = f.findIndex((v) => v >= want);
      if (i > 0) {
        const part = (want - f[i - 1]) / (f[i] - f[i - 1]);
        out.push({ at: Math.exp(Math.log(readings[i - 1]) * (1 - part) + Math.log(readings[i]) * part), text: String(want) });
      }
    }
    return out;
  };
  const marks = (state) => [
    { kind: "vline", at: chosenAt, cls: "stop", name: "chosen stop" },
    ...(state.index === home ? [] : [{ kind: "vline", at: state.numbers.step_sum, cls: "here", name: "slider" }]),
  ];
  const RISKS = { "in sample": "muted dotted", SURE: "c3", GCV: "c4", "worst case": "c5 dashed", "leave-one-out": "c2", "leave-one-out of ridge": "c1" };

  function crossing(state) {
    const c = data.crossing;
    const name = c.decided ? "threshold" : "threshold with the fit's own norm (for comparison)";
    const layers = [
      { kind: "line", x: readings, y: c.complexity, cls: "c1", name: "local complexity" },
      { kind: "line", x: readings, y: c.threshold, cls: c.decided ? "c2" : "c2 dashed", name },
      ...marks(state),
    ];
    Chart(figure("crossing"), { label: "Local complexity against its threshold over step_sum", x: clock, y: { label: "complexity", log: true }, layers });
  }

  function risk(state) {
    const layers = Object.entries(data.risks).map(([name, y]) => ({ kind: "line", x: readings, y, cls: RISKS[name] || "c1", name }));
    layers.push({ kind: "hline", at: data.noise, cls: "noise", name: "noise level" }, ...marks(state));
    const first = data.risks["in sample"][0], floor = data.risks["in sample"].filter((v) => v !== null);
    const domain = [Math.max(0, Math.min(data.noise, Math.min(...floor)) * 0.85), Math.max(first, data.noise) * 1.25];
    Chart(figure("risk"), { label: "Estimates of the error along the path", x: clock, y: { label: "root mean squared error", domain: domain[0] < domain[1] ? domain : undefined }, top: { label: "degrees of freedom", ticks: freedomTicks() }, layers });
  }

  function spectrum(state) {
    const level = state.numbers.step_sum > 0 ? 1 / state.numbers.step_sum : Infinity, index = Array.from(values, (_, i) => i + 1);
    const pick = (keep) => ({ x: index.filter((_, i) => keep(values[i])), y: Array.from(values).filter(keep) });
    const layers = [
      { kind: "points", ...pick((v) => v >= level), cls: "c1", name: "mostly fitted" },
      { kind: "points", ...pick((v) => v < level && v > 0), cls: "muted", name: "mostly left" },
    ];
    if (data.critical) layers.push({ kind: "hline", at: data.critical ** 2, cls: "stop", name: `critical radius ${short(data.critical)}, squared` });
    if (state.index !== home && Number.isFinite(level)) layers.push({ kind: "hline", at: level, cls: "here", name: "1 / step_sum at the slider" });
    const top = values[0] * 2, low = Math.max(values.filter((v) => v > 0).at(-1), top * 1e-9) / 2;
    Chart(figure("spectrum"), { label: "Eigenvalues of the kernel matrix", x: { label: "index", log: true, domain: [0.9, values.length * 1.1] }, y: { label: "eigenvalue", log: true, domain: [low, top] }, layers });
  }

  const padded = (list, share = 0.08) => { const a = Math.min(...list), b = Math.max(...list), room = (b - a || 1) * share; return [a - room, b + room]; };
  const yRange = points ? padded(points.y) : undefined;

  function fit(state) {
    if (curve) {
      const layers = points && points.x ? [{ kind: "points", x: points.x, y: points.y, cls: "muted", name: "data" }] : [];
      const low = state.curve.map((v, i) => v - 2 * state.std[i]), high = state.curve.map((v, i) => v + 2 * state.std[i]);
      layers.push({ kind: "band", x: curve.x, low, high, cls: "c1", name: "± 2 standard deviations of the estimated mean" });
      layers.push({ kind: "line", x: curve.x, y: state.curve, cls: "c1", name: "fit" });
      Chart(figure("fit"), { label: "The fitted curve over the points", x: { label: curve.name }, y: { label: data.target, domain: yRange }, layers });
    } else if (points) {
      const layers = [{ kind: "line", x: yRange, y: yRange, cls: "muted" }, { kind: "points", x: state.fitted, y: points.y, cls: "c1", name: "rows" }];
      Chart(figure("fit"), { label: "Predicted against observed", x: { label: "predicted", domain: yRange }, y: { label: "observed: " + data.target, domain: yRange }, layers });
    }
    const all = start.profiles.flatMap((p) => Array.from(p)), range = all.length ? padded(all, 0.2) : undefined;
    profiles.forEach((part, i) => Chart(figure("profile-" + i), { label: "Partial dependence on " + part.name, height: 220, x: { label: part.name }, y: { label: "mean fit", domain: range }, layers: [
      { kind: "line", x: part.x, y: start.profiles[i], cls: "muted dotted", name: "at the chosen stop" },
      { kind: "line", x: part.x, y: state.profiles[i], cls: "c1", name: "fit" } ] }));
  }

  function quantile(p) { // of the normal distribution, by bisection on an erf series good to 1e-7
    let low = -8, high = 8;
    const cdf = (x) => { const t = 1 / (1 + 0.2316419 * Math.abs(x)), d = 0.3989422804 * Math.exp(-x * x / 2);
      const q = d * t * (0.31938153 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429)))); return x > 0 ? 1 - q : q; };
    for (let i = 0; i < 50; i++) { const m = (low + high) / 2; if (cdf(m) < p) low = m; else high = m; }
    return (low + high) / 2;
  }
  const normal = points ? Array.from(points.y, (_, i) => quantile((i + 0.5) / points.y.length)) : [];

  function residuals(state) {
    if (!points) return;
    const range = padded(Array.from(points.y, (y) => y - data.offset).concat([-2.5 * data.noise, 2.5 * data.noise]), 0);
    const reach = Math.max(3 * data.noise, Math.max(...state.residuals.map(Math.abs)) * 1.05) || Math.abs(range[1]);
    const lines = [{ kind: "hline", at: 0, cls: "zero" }, { kind: "hline", at: 2 * data.noise, cls: "noise", name: "± 2 noise levels" }, { kind: "hline", at: -2 * data.noise, cls: "noise" }];
    Chart(figure("residuals"), { label: "Residuals against fitted values", x: { label: "fitted", domain: yRange }, y: { label: "observed - fitted", domain: [-reach, reach] }, layers: [...lines, { kind: "points", x: state.fitted, y: state.residuals, cls: "c1", name: "rows" }] });
    const sorted = Array.from(state.residuals).sort((a, b) => a - b), ends = [-3, 3];
    Chart(figure("quantiles"), { label: "Ordered residuals against a normal distribution's", x: { label: "normal quantile", domain: ends }, y: { label: "ordered residuals", domain: [-reach, reach] }, layers: [
      { kind: "line", x: ends, y: ends.map((e) => e * data.noise), cls: "muted", name: "normal noise at the noise level" }, { kind: "points", x: normal, y: sorted, cls: "c1", name: "rows" } ] });
  }

  // ---- the slider ---------------------------------------------------------------------------------------------------
  const slider = figure("stop"), back = figure("back"), live = figure("live");
  const start = at(home);
  let now = start, later = null;

  const words = (n) => (n.iteration === null ? "" : `${n.iteration.toLocaleString("en")} steps, `) + `step_sum ${short(n.step_sum)}, ${short(n.degrees_of_freedom)} degrees of freedom`;

  function show(index, tell) {
    now = at(index);
    for (const cell of document.querySelectorAll("[data-number]")) {
      const value = now.numbers[cell.dataset.number];
      cell.textContent = value === null || value === undefined ? "-" : short(value);
      cell.dataset.value = value === null || value === undefined ? "" : String(value);
    }
    slider.value = String(index);
    slider.setAttribute("aria-valuetext", words(now.numbers) + (index === home ? ", the chosen stop" : ""));
    back.disabled = index === home;
    for (const draw of [fit, crossing, risk, spectrum, residuals]) if (readings.length || draw === fit || draw === residuals) draw(now);
    if (tell) {
      clearTimeout(later);
      later = setTimeout(() => { live.textContent = `${words(now.numbers)}; error in sample ${short(now.numbers.rmse_fit)}.`; }, 400);
    }
  }

  slider.max = String(clocks.length - 1);
  slider.addEventListener("input", () => show(Number(slider.value), true));
  back.addEventListener("click", () => { show(home, true); slider.focus(); });
  let width = document.documentElement.clientWidth;
  window.addEventListener("resize", () => { if (document.documentElement.clientWidth !== width) { width = document.documentElement.clientWidth; show(now.index, false); } });
  window.addEventListener("beforeprint", () => show(now.index, false));
  show(home, false);
  document.documentElement.classList.add("ready");
  return { at, home, clocks, current: () => now, curve };
})();
