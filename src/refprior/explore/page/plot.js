// Elements, and charts as SVG. Names and texts only ever become text nodes: nothing in them is obeyed.

const SVG = "http://www.w3.org/2000/svg";
export const SERIES = ["blue", "orange", "green", "red", "purple", "sky"];
export const DASHES = ["", "7 3", "2 3", "9 3 2 3", "12 4", "4 2"];

/** An HTML element; attributes that are functions are listeners. */
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** An SVG element. */
export function mark(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== undefined && value !== null) node.setAttribute(name, value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}

/** A color of the style sheet, as it is now: light or dark. */
export function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// What is drawn is drawn again when its place or the light changes.
const drawings = new Map();
const resized = new ResizeObserver((entries) => entries.forEach(({ target }) => drawings.get(target)?.()));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawings.forEach((draw) => draw()));

/** Draw into a place now, and again whenever it changes. */
export function draw(host, make) {
  if (!drawings.has(host)) resized.observe(host);
  let width = 0;
  const again = (force) => {
    if (!host.isConnected) return resized.unobserve(host), drawings.delete(host);
    if (force !== true && host.clientWidth === width) return undefined;
    width = host.clientWidth;
    return host.replaceChildren(make(Math.max(240, width)));
  };
  drawings.set(host, () => again(true));
  again(true);
}

/** A number with few digits, without an exponent where it can be. */
export function number(value, digits = 4) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(1);
  return String(Number(value.toPrecision(digits)));
}

/** Round numbers from low to high, about as many as wanted. */
export function ticks(low, high, wanted = 5) {
  const rough = (high - low) / wanted || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i += 1) found.push(i * step);
  return found;
}

/** The lowest and highest of some numbers, apart; `at least` these. */
export function extent(values, ...least) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of [...values, ...least]) {
    if (value === null || !Number.isFinite(value)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (low > high) return [0, 1];
  return low === high ? [low - 0.5, high + 0.5] : [low, high];
}

/** The same length for the same distance along both axes: the shorter range is widened about its middle. */
function evenly(x, w, y, h) {
  const unit = Math.max((x.high - x.low) / w, (y.high - y.low) / h);
  const wider = (axis, length) => ({ ...axis, low: (axis.low + axis.high - unit * length) / 2, high: (axis.low + axis.high + unit * length) / 2 });
  return [wider(x, w), wider(y, h)];
}

/**
 * Axes with room for layers: x and y are {low, high, label}, `right` a second y; each layer is called with
 * {x, y, right}, functions from values to pixels, and gives SVG elements.
 */
export function chart(width, { name, x, y, right, height = 260, layers, square = false, even = false }) {
  const narrow = width < 420;
  const wide = (value) => 3.6 * number(value).length; // half a label, in pixels
  const longest = Math.max(...ticks(y.low, y.high, 4).map(wide));
  const box = { left: Math.max(narrow ? 46 : 56, 26 + 2 * longest), right: right ? (narrow ? 44 : 52) : 12, top: 12, bottom: 44 };
  if (square) height = Math.min(480, width - box.left - box.right) + box.top + box.bottom;
  const [w, h] = [width - box.left - box.right, height - box.top - box.bottom];
  if (even) [x, y] = evenly(x, w, y, h);
  const scale = ({ low, high }, start, length) => (value) => start + ((value - low) / (high - low)) * length;
  const place = { x: scale(x, box.left, w), y: scale(y, box.top + h, -h) };
  if (right) place.right = scale(right, box.top + h, -h);
  const [line, soft] = [color("line"), color("soft")];
  const words = { fill: soft, "font-size": 12, "font-family": "system-ui, sans-serif" };
  const across = ticks(x.low, x.high, narrow ? 4 : 6).map((value) => [
    mark("line", { x1: place.x(value), x2: place.x(value), y1: box.top + h, y2: box.top + h + 4, stroke: soft }),
    mark("text", { ...words, x: Math.min(place.x(value), width - wide(value) - 1), y: box.top + h + 17, "text-anchor": "middle" }, number(value)),
  ]);
  const up = ticks(y.low, y.high, 4).map((value) => [
    mark("line", { x1: box.left, x2: box.left + w, y1: place.y(value), y2: place.y(value), stroke: line }),
    mark("text", { ...words, x: box.left - 6, y: place.y(value) + 4, "text-anchor": "end" }, number(value)),
  ]);
  const beside = (right ? ticks(right.low, right.high, 4) : []).map((value) =>
    mark("text", { ...words, x: box.left + w + 6, y: place.right(value) + 4 }, number(value)),
  );
  const upright = (at, label) =>
    mark("text", { ...words, transform: `translate(${at} ${box.top + h / 2}) rotate(-90)`, "text-anchor": "middle" }, label);
  return mark(
    "svg",
    { xmlns: SVG, viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": name },
    mark("rect", { width, height, fill: color("back") }),
    up,
    mark("line", { x1: box.left, x2: box.left + w, y1: box.top + h, y2: box.top + h, stroke: soft }),
    across,
    beside,
    mark("text", { ...words, x: box.left + w / 2, y: height - 8, "text-anchor": "middle" }, x.label),
    upright(13, y.label),
    right ? upright(width - 6, right.label) : null,
    layers.map((layer) => layer(place)),
  );
}

/** A line through points; places that are not numbers interrupt it. */
export function path(xs, ys, toX, toY, attributes = {}) {
  let [d, pen] = ["", "M"];
  xs.forEach((x, i) => {
    if (ys[i] === null || !Number.isFinite(ys[i])) return (pen = "M");
    d += `${pen}${toX(x).toFixed(1)} ${toY(ys[i]).toFixed(1)}`;
    return (pen = "L");
  });
  return mark("path", { d, fill: "none", "stroke-width": 1.6, "stroke-linejoin": "round", ...attributes });
}

/** What colors and dashes mean, as text beside a sample of each. */
export function legend(entries) {
  return el(
    "ul",
    { class: "legend" },
    entries.map(({ name, ink, dash = "", dot = false, sign = null }) =>
      el(
        "li",
        {},
        mark(
          "svg",
          { class: `ink-${ink}`, width: 26, height: 12, "aria-hidden": "true" },
          sign
            ? mark("text", { x: 13, y: 11, "text-anchor": "middle" }, sign)
            : dot
            ? mark("circle", { cx: 13, cy: 6, r: 4.5 })
            : mark("line", { x1: 1, x2: 25, y1: 6, y2: 6, "stroke-width": 2.4, "stroke-dasharray": dash }),
        ),
        name,
      ),
    ),
  );
}

/** Numbers with their names. */
export function numbers(pairs) {
  return el("dl", { class: "numbers" }, pairs.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

/** A table; the first row is its head, and the first column names the rows. */
export function table([head, ...rows], attributes = {}) {
  const body = rows.map((row) =>
    el("tr", {}, row.map((cell, i) => (i ? el("td", {}, cell) : el("th", { scope: "row" }, cell)))),
  );
  const top = el("tr", {}, head.map((cell) => el("th", { scope: "col" }, cell)));
  return el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Table" }, el("table", attributes, el("thead", {}, top), el("tbody", {}, body)));
}

/** Hand a file to the person. */
export function download(name, content, type) {
  const address = URL.createObjectURL(new Blob([content], { type }));
  el("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** A drawing as a picture of twice its size. */
export async function asPng(svg) {
  const image = new Image();
  image.src = URL.createObjectURL(new Blob([asText(svg)], { type: "image/svg+xml" }));
  await image.decode();
  const { width, height } = svg.viewBox.baseVal;
  const canvas = el("canvas", { width: 2 * width, height: 2 * height });
  canvas.getContext("2d").drawImage(image, 0, 0, 2 * width, 2 * height);
  URL.revokeObjectURL(image.src);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

/** A drawing as the text of a file. */
export function asText(svg) {
  return new XMLSerializer().serializeToString(svg);
}
