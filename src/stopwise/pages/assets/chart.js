"use strict";
// Small charts in SVG: lines, bands, points, dots with bars, heat maps. Text is set as text, never as markup.
// Every chart says what it shows in words, for those who listen to the page.
const Chart = (() => {
  const space = "http://www.w3.org/2000/svg";
  const margin = { left: 62, right: 14, bottom: 44, top: 12 };

  function node(name, attributes, text) {
    const made = document.createElementNS(space, name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function short(value) {
    if (value === null || !Number.isFinite(value)) return "-";
    const size = Math.abs(value);
    if (size !== 0 && (size >= 1e6 || size < 1e-3)) return value.toExponential(2).replace(/\.?0+e/, "e").replace("e+", "e");
    if (size >= 10000) return Math.round(value).toLocaleString("en");
    return String(Number(value.toPrecision(size >= 1000 ? 5 : 4))); // years keep their digits, and no comma
  }

  const usable = (value, log) => value !== null && Number.isFinite(value) && (!log || value > 0);

  function extent(layers, key, log) {
    let low = Infinity, high = -Infinity;
    for (const layer of layers) {
      const lists = key === "x" ? [layer.x] : [layer.y, layer.low, layer.high];
      for (const list of lists) for (const value of list || []) {
        if (!usable(value, log)) continue;
        if (value < low) low = value;
        if (value > high) high = value;
      }
    }
    if (low > high) return log ? [0.1, 10] : [0, 1];
    if (low === high) return log ? [low / 2, high * 2] : [low - 1, high + 1];
    return [low, high];
  }

  function scale(axis, range) {
    const f = axis.log ? Math.log : (v) => v;
    const [low, high] = axis.domain.map(f);
    return (value) => range[0] + ((f(value) - low) / (high - low)) * (range[1] - range[0]);
  }

  function ticks(axis, most) {
    const [low, high] = axis.domain, out = [];
    if (axis.log) {
      const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9);
      const every = Math.max(1, Math.ceil((last - first + 1) / most));
      for (let power = first; power <= last; power += every) out.push(Math.pow(10, power));
      if (out.length >= 2) return out;
    }
    const rough = (high - low) / most, unit = Math.pow(10, Math.floor(Math.log10(rough)));
    const step = [1, 2, 5, 10].map((m) => m * unit).find((s) => s >= rough);
    const found = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high * (1 + 1e-12) + 1e-300; i++) found.push(i * step);
    return found.filter((v) => usable(v, axis.log));
  }

  function trace(xs, ys, X, Y, axes) {
    let path = "", pen = false;
    for (let i = 0; i < xs.length; i++) {
      if (!usable(xs[i], axes.x.log) || !usable(ys[i], axes.y.log)) { pen = false; continue; }
      const y = Math.max(-1e4, Math.min(1e4, Y(ys[i])));
      path += (pen ? "L" : "M") + X(xs[i]).toFixed(2) + " " + y.toFixed(2);
      pen = true;
    }
    return path;
  }

  const draw = {
    line: (l, X, Y, axes) => [node("path", { d: trace(l.x, l.y, X, Y, axes), class: "line " + l.cls })],
    band: (l, X, Y, axes) => {
      const there = trace(l.x, l.high, X, Y, axes), back = trace([...l.x].reverse(), [...l.low].reverse(), X, Y, axes);
      return [node("path", { d: there + back.replace("M", "L") + "Z", class: "band " + l.cls })];
    },
    points: (l, X, Y, axes) => Array.from(l.x, (x, i) => [x, l.y[i]])
      .filter(([x, y]) => usable(x, axes.x.log) && usable(y, axes.y.log))
      .map(([x, y]) => node("circle", { cx: X(x).toFixed(2), cy: Y(y).toFixed(2), r: l.radius || 2.4, class: "point " + l.cls })),
    vline: (l, X, Y, axes, box) => usable(l.at, axes.x.log) && l.at >= axes.x.domain[0] && l.at <= axes.x.domain[1]
      ? [node("line", { x1: X(l.at), x2: X(l.at), y1: box.top, y2: box.bottom, class: "rule " + l.cls })] : [],
    dots: (l, X, Y, axes) => Array.from(l.y, (y, i) => {
      if (!usable(y, axes.y.log)) return [];
      const bar = l.low ? [node("line", { x1: X(i), x2: X(i), y1: Y(l.low[i]), y2: Y(l.high[i]), class: "whisker " + l.cls })] : [];
      return [...bar, node("circle", { cx: X(i).toFixed(2), cy: Y(y).toFixed(2), r: l.radius || 4.5, class: "point " + l.cls })];
    }).flat(),
    zone: (l, X, Y, axes, box) => {
      const a = Math.max(box.left, X(l.from)), b = Math.min(box.right, X(l.to));
      return b > a ? [node("rect", { x: a, y: box.top, width: b - a, height: box.bottom - box.top, class: "zone" })] : [];
    },
    hline: (l, X, Y, axes, box) => usable(l.at, axes.y.log)
      ? [node("line", { x1: box.left, x2: box.right, y1: Y(l.at), y2: Y(l.at), class: "rule " + l.cls })] : [],
  };

  function legend(figure, layers) {
    let list = figure.querySelector(".legend");
    if (!list) { list = document.createElement("ul"); list.className = "legend"; figure.querySelector(".plot").after(list); }
    const items = layers.filter((layer) => layer.name).map((layer) => {
      const item = document.createElement("li"), key = node("svg", { viewBox: "0 0 22 10", width: 22, height: 10, "aria-hidden": "true" });
      if (layer.kind === "points" || layer.kind === "dots") key.append(node("circle", { cx: 11, cy: 5, r: 3, class: "point " + layer.cls }));
      else if (layer.kind === "band") key.append(node("rect", { x: 0, y: 0, width: 22, height: 10, class: "band " + layer.cls }));
      else if (layer.kind === "zone") key.append(node("rect", { x: 0, y: 0, width: 22, height: 10, class: "zone" }));
      else key.append(node("line", { x1: 0, x2: 22, y1: 5, y2: 5, class: (layer.kind === "line" ? "line " : "rule ") + layer.cls }));
      item.append(key, document.createTextNode(" " + layer.name));
      return item;
    });
    list.replaceChildren(...items);
  }

  // ---- in words -----------------------------------------------------------------------------------------------------
  const number = (v) => (Number.isFinite(v) ? short(v) : "unknown");

  function along(layer, spec) {
    const seen = Array.from(layer.y, (y, i) => ({ x: layer.x[i], y })).filter((p) => usable(p.y) && usable(p.x));
    if (!seen.length) return "";
    const low = seen.reduce((a, b) => (b.y < a.y ? b : a)), high = seen.reduce((a, b) => (b.y > a.y ? b : a));
    const first = seen[0], last = seen.at(-1);
    return `${layer.name || "line"}: from ${number(first.y)} at ${number(first.x)} to ${number(last.y)} at ${number(last.x)}, ` +
      `lowest ${number(low.y)} at ${number(low.x)}, highest ${number(high.y)} at ${number(high.x)}`;
  }

  const say = {
    line: along,
    points: (l) => (l.x.length ? `${l.name || "points"}: ${l.x.length}` : ""),
    dots: (l, spec) => Array.from(l.y, (y, i) => `${spec.x.labels[i]} ${number(y)}` + (l.low ? ` (${number(l.low[i])} to ${number(l.high[i])})` : "")).join(", "),
    band: (l) => (l.name ? `${l.name} drawn as a band` : ""),
    vline: (l) => (l.name && Number.isFinite(l.at) ? `${l.name} at ${number(l.at)}` : ""),
    hline: (l) => (l.name && Number.isFinite(l.at) ? `${l.name} at ${number(l.at)}` : ""),
    zone: (l) => l.name || "",
  };

  const described = (spec) => `${spec.label}. Across: ${spec.x.label}; up: ${spec.y.label}. ` +
    spec.layers.map((layer) => say[layer.kind](layer, spec)).filter(Boolean).join("; ") + ".";

  // ---- heat maps ------------------------------------------------------------------------------------------------------
  function heat(figure, spec) {
    const wide = Math.max(260, Math.floor(figure.clientWidth || 640)), nx = spec.x.at.length, ny = spec.y.at.length;
    const left = 66 + (spec.y.labels ? 40 : 0), bottom = 58, top = 10, right = 84;
    const high = Math.round(Math.min(420, Math.max(260, wide * 0.55)));
    const across = (Math.min(wide, 760) - left - right) / nx, down = (high - top - bottom) / ny;
    const cells = spec.means.flat().filter((v) => v !== null), low = Math.min(...cells), most = Math.max(...cells);
    const svg = node("svg", { viewBox: `0 0 ${wide} ${high}`, class: "plot", role: "img" });
    // Two colours over the page's own paper: the same picture reads in light, dark and print.
    const fill = (v) => { const t = most > low ? (v - low) / (most - low) : 0.5; return t < 0.5 ? ["c2", 1 - 2 * t] : ["c1", 2 * t - 1]; };
    const cell = (x, y, w, h, v) => { const [cls, strength] = fill(v); return node("rect", { x, y, width: w + 0.5, height: h + 0.5, class: "cell " + cls, "fill-opacity": (0.9 * strength).toFixed(3) }); };
    let lowest = null, highest = null;
    for (let i = 0; i < ny; i++) for (let j = 0; j < nx; j++) {
      const v = spec.means[i][j], x = left + j * across, y = top + (ny - 1 - i) * down;
      if (v === null) continue;
      if (!lowest || v < lowest.v) lowest = { v, i, j };
      if (!highest || v > highest.v) highest = { v, i, j };
      svg.append(cell(x, y, across, down, v));
      if (spec.empty[i][j]) {
        const cx = x + across / 2, cy = y + down / 2, r = Math.min(across, down) / 7;
        svg.append(node("path", { d: `M${cx - r} ${cy - r}L${cx + r} ${cy + r}M${cx + r} ${cy - r}L${cx - r} ${cy + r}`, class: "cross" }));
      }
    }
    const every = (n, room) => Math.max(1, Math.ceil(n / room));
    // To the digits in which neighbouring places differ.
    const unit = (side) => Math.pow(10, Math.floor(Math.log10(Math.abs(side.at.at(-1) - side.at[0]) / side.at.length || 1)));
    const label = (side, k) => (side.labels ? side.labels[k] : short(Number((Math.round(side.at[k] / unit(side)) * unit(side)).toPrecision(9))));
    const fits = Math.max(2, Math.floor((nx * across) / (spec.x.labels ? 80 : 62)));
    for (let j = 0; j < nx; j += every(nx, fits)) svg.append(node("text", { x: left + (j + 0.5) * across, y: high - bottom + 17, class: "tick middle" }, label(spec.x, j).slice(0, 12)));
    for (let i = 0; i < ny; i += every(ny, 8)) svg.append(node("text", { x: left - 6, y: top + (ny - 0.5 - i) * down + 4, class: "tick end" }, label(spec.y, i).slice(0, 13)));
    svg.append(node("text", { x: left + (nx * across) / 2, y: high - 14, class: "title middle" }, spec.x.name));
    svg.append(node("text", { transform: `translate(13 ${top + (ny * down) / 2}) rotate(-90)`, class: "title middle" }, spec.y.name));
    const bar = left + nx * across + 14, steps = 20, tall = (high - top - bottom) / steps;
    for (let k = 0; k < steps; k++) svg.append(cell(bar, top + (steps - 1 - k) * tall, 12, tall, low + ((most - low) * (k + 0.5)) / steps));
    for (const [v, y] of [[most, top + 9], [(low + most) / 2, (top + high - bottom) / 2 + 4], [low, high - bottom]]) svg.append(node("text", { x: bar + 17, y, class: "tick" }, short(Number(v.toPrecision(3)))));
    const place = (c) => `${number(c.v)} at ${spec.x.name} ${label(spec.x, c.j)}, ${spec.y.name} ${label(spec.y, c.i)}`;
    svg.setAttribute("aria-label", `${spec.label}. Lowest ${place(lowest)}; highest ${place(highest)}.`);
    const old = figure.querySelector(".plot");
    if (old) old.replaceWith(svg); else figure.prepend(svg);
  }

  function chart(figure, spec) {
    const old = figure.querySelector(".plot");
    const wide = Math.max(260, Math.floor(figure.clientWidth || 640));
    const high = spec.height || Math.round(Math.min(360, Math.max(230, wide * 0.55)));
    const top = margin.top + (spec.top ? 34 : 0);
    const room = spec.x.labels && spec.x.labels.length * 66 > wide - margin.left - margin.right ? 22 : 0;
    const box = { left: margin.left, right: wide - margin.right, top, bottom: high - margin.bottom - room };
    const axes = { x: { ...spec.x }, y: { ...spec.y } };
    if (spec.x.labels) axes.x.domain = [-0.6, spec.x.labels.length - 0.4];
    if (!axes.x.domain) {
      const [a, b] = extent(spec.layers, "x", axes.x.log);
      axes.x.domain = axes.x.log ? [a, b] : [a - 0.015 * (b - a), b + 0.015 * (b - a)];
    }
    if (!axes.y.domain) {
      const [a, b] = extent(spec.layers, "y", axes.y.log);
      axes.y.domain = axes.y.log ? [a / 1.3, b * 1.3] : [a - 0.05 * (b - a), b + 0.05 * (b - a)];
    }
    const X = scale(axes.x, [box.left, box.right]), Y = scale(axes.y, [box.bottom, box.top]);
    const svg = node("svg", { viewBox: `0 0 ${wide} ${high}`, class: "plot", role: "img", "aria-label": described(spec) });
    const id = "clip-" + (figure.id || "chart");
    const clip = node("clipPath", { id });
    clip.append(node("rect", { x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top }));
    svg.append(clip);
    for (const value of ticks(axes.y, 6)) {
      svg.append(node("line", { x1: box.left, x2: box.right, y1: Y(value), y2: Y(value), class: "grid" }));
      svg.append(node("text", { x: box.left - 6, y: Y(value) + 4, class: "tick end" }, short(value)));
    }
    const names = spec.x.labels;
    if (names) names.forEach((name, i) => {
      const slanted = names.length * 66 > box.right - box.left, most = slanted ? 9 : 11;
      const where = slanted ? { transform: `translate(${X(i) + 3} ${box.bottom + 12}) rotate(-32)`, class: "tick end" } : { x: X(i), y: box.bottom + 17, class: "tick middle" };
      if (i % Math.max(1, Math.ceil(names.length / ((box.right - box.left) / 22))) === 0) svg.append(node("text", where, name.length > most ? name.slice(0, most - 1) + "…" : name));
    });
    for (const value of names ? [] : ticks(axes.x, Math.max(3, Math.floor(wide / 95)))) {
      svg.append(node("line", { x1: X(value), x2: X(value), y1: box.top, y2: box.bottom, class: "grid" }));
      svg.append(node("text", { x: X(value), y: box.bottom + 17, class: "tick middle" }, short(value)));
    }
    if (spec.top) {
      let last = -1e9;
      for (const tick of spec.top.ticks) {
        const at = X(tick.at);
        if (at < box.left || at > box.right || at - last < 26) continue;
        last = at;
        svg.append(node("line", { x1: at, x2: at, y1: box.top - 5, y2: box.top, class: "axis" }));
        svg.append(node("text", { x: at, y: box.top - 9, class: "tick middle" }, tick.text));
      }
      svg.append(node("line", { x1: box.left, x2: box.right, y1: box.top, y2: box.top, class: "axis" }));
      svg.append(node("text", { x: (box.left + box.right) / 2, y: 12, class: "title middle" }, spec.top.label));
    }
    const inside = node("g", { "clip-path": `url(#${id})` });
    for (const layer of spec.layers) inside.append(...draw[layer.kind](layer, X, Y, axes, box));
    svg.append(inside);
    svg.append(node("line", { x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom, class: "axis" }));
    svg.append(node("text", { x: (box.left + box.right) / 2, y: high - 8, class: "title middle" }, spec.x.label));
    const side = `translate(13 ${(box.top + box.bottom) / 2}) rotate(-90)`;
    svg.append(node("text", { transform: side, class: "title middle" }, spec.y.label));
    if (old) old.replaceWith(svg); else figure.prepend(svg);
    legend(figure, spec.layers);
  }

  return Object.assign(chart, { heat, short });
})();

// What every page has: its data, arrays packed in base64, and figures that are drawn again for another width or on paper.
const Page = (() => {
  function unpack(part) {
    if (!part) return null;
    const text = atob(part.base64), bytes = new Uint8Array(text.length), size = part.kind === "f4" ? 4 : 8;
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    const view = new DataView(bytes.buffer), out = new Float64Array(text.length / size);
    for (let i = 0; i < out.length; i++) out[i] = size === 4 ? view.getFloat32(4 * i, true) : view.getFloat64(8 * i, true);
    return out;
  }
  // Every packed array inside an object, unpacked.
  const open = (part) => part && Object.fromEntries(Object.entries(part).map(([k, v]) => [k, v && v.base64 !== undefined ? unpack(v) : v]));

  function ready(draw) {
    const root = document.documentElement;
    let width = root.clientWidth;
    window.addEventListener("resize", () => { if (root.clientWidth !== width) { width = root.clientWidth; draw(); } });
    window.addEventListener("beforeprint", () => { for (const part of document.querySelectorAll("details")) part.open = true; draw(); });
    root.classList.add("ready");
  }
  return { data: JSON.parse(document.getElementById("data").textContent), unpack, open, ready };
})();
