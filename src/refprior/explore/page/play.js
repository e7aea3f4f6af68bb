// Play with a prior: drag a setting, and the atoms, their weights and the gain follow.

import { ask, live, post } from "./ask.js";
import { remember, say, settings } from "./page.js";
import { asPng, asText, chart, color, download, draw, el, extent, legend, mark, number, numbers, path, table } from "./plot.js";

const REST = 120; // milliseconds that a slider rests before its prior is solved
const DEEPEST = 1.5; // nats below J at which the map of the gain is as dark as it gets, or less where the gain is

export function play(host, about) {
  const given = settings();
  const model = about.models.find(({ name }) => name === given.model) ?? about.models[0];
  const typed = about.code && given.model === "typed";
  const values = Object.fromEntries((typed ? TYPED : model.sliders).map((s) => [s.name, within(s, Number(given[s.name] ?? s.value))]));
  const two = { stages: given.two === "1", jeffreys: given.jeffreys === "1" };
  const first = panel("One stage");
  const second = panel("Two stages");
  const panels = el("div", { class: "panels" }, first.node, second.node);
  const code = el("textarea", { id: "code", spellcheck: "false", rows: 12, "aria-describedby": "code-note" });
  code.value = sessionStorage.getItem("code") ?? about.example ?? "";
  const controls = el("form", { class: "controls", submit: (event) => event.preventDefault() });
  host.append(el("h2", { class: "hidden" }, "Play with a prior"), el("div", { class: "side" }, controls, panels));

  const choose = (name) => {
    remember("play", { model: name });
    dispatchEvent(new HashChangeEvent("hashchange"));
    document.querySelector(`input[value="${CSS.escape(name)}"]`)?.focus();
  };
  const choices = [...about.models, ...(about.code ? [{ name: "typed", title: "Custom model" }] : [])];
  const stages = (typed ? TYPED : model.sliders).some(({ name, marks }) => name === "m" && (marks?.length ?? 2) > 1);
  controls.append(
    el(
      "fieldset",
      { class: "choices" },
      el("legend", {}, "Model"),
      choices.map(({ name, title }) =>
        el(
          "label",
          {},
          el("input", { type: "radio", name: "model", value: name, checked: name === (typed ? "typed" : model.name), change: () => choose(name) }),
          el("span", {}, title),
        ),
      ),
    ),
    el("p", { class: "note" }, typed ? "A custom likelihood. It runs on this machine, with your permissions." : `${model.about}.`),
  );
  if (typed) {
    const run = el("button", { type: "button", id: "run", click: () => follow() }, "Solve (Ctrl + Enter)");
    code.addEventListener("input", () => sessionStorage.setItem("code", code.value));
    code.addEventListener("keydown", (event) => event.ctrlKey && event.key === "Enter" && follow());
    controls.append(
      el("label", { for: "code" }, "log p(z | w) in Python"),
      code,
      el("p", { class: "note", id: "code-note" }, "The code must define log_likelihood, bounds and outcomes. Limits: 20 seconds and 2 GB."),
      run,
    );
  }
  for (const slider of (typed ? TYPED : model.sliders).filter(({ marks }) => (marks?.length ?? 2) > 1)) {
    controls.append(
      dragged(slider, values[slider.name], (value, done) => {
        values[slider.name] = value;
        if (!typed || done) follow();
      }),
    );
  }
  const check = (name, words, shown) =>
    shown ? el("label", { class: "check" }, el("input", { type: "checkbox", id: name, checked: two[name], change: ({ target }) => tick(name, target.checked) }), words) : null;
  function tick(name, on) {
    two[name] = on;
    const m = controls.querySelector("#m");
    if (two.stages && !values.m) m.stepUp(), m.dispatchEvent(new Event("input")); // of m = 0 samples there is no first stage
    follow();
  }
  controls.append(
    ...[
      check("stages", "two stages, side by side", stages),
      check("jeffreys", "compare with Jeffreys", !typed && model.jeffreys),
      live || typed ? null : el("p", { class: "note" }, "Answers on this page are precomputed; run refprior explore on your machine for all others."),
    ].filter(Boolean),
  );
  const inTwo = new Set(["m", "beta"]);

  function follow() {
    for (const input of controls.querySelectorAll(".slider")) input.hidden = inTwo.has(input.dataset.name) && !two.stages;
    second.node.hidden = !two.stages;
    panels.classList.toggle("two", two.stages);
    const one = Object.fromEntries(Object.entries(values).filter(([name]) => !inTwo.has(name)));
    const both = { ...one, ...(values.m ? { m: values.m, beta: values.beta } : {}) };
    const name = typed ? "typed" : model.name;
    remember("play", { model: name, ...one, ...(two.stages ? { m: values.m, beta: values.beta, two: 1 } : {}), ...(two.jeffreys ? { jeffreys: 1 } : {}) });
    const question = (wanted) => (typed ? () => post("typed", { code: code.value, n: wanted.n, m: wanted.m ?? 0, beta: wanted.beta ?? 1 }) : () => ask("play", { model: name, ...wanted }));
    const sketch = (wanted) => (typed || !live ? null : () => ask("draft", { model: name, ...wanted }));
    const smooth = two.jeffreys && !typed && model.jeffreys ? () => ask("play", { model: name, ...one, jeffreys: 1 }) : null;
    first.follow({ name, settings: one, ask: question(one), sketch: sketch(one), smooth });
    if (two.stages) second.follow({ name, settings: both, ask: question(both), sketch: sketch(both), smooth: null });
  }
  follow();
}

// Typed likelihoods are solved when a slider is let go: each takes a second or more.
const TYPED = [
  { name: "n", label: "samples n", low: 1, high: 50, step: 1, value: 1 },
  { name: "m", label: "samples m of the first stage", low: 0, high: 50, step: 1, value: 1 },
  { name: "beta", label: "β, weight of the first stage", low: 0, high: 1, step: 0.05, value: 1 },
];

function within({ low, high, step, marks }, value) {
  const inside = Math.min(high, Math.max(low, Number.isFinite(value) ? value : low));
  if (marks) return marks.reduce((best, at) => (Math.abs(at - inside) < Math.abs(best - inside) ? at : best));
  return Number((low + Math.round((inside - low) / step) * step).toPrecision(10));
}

/** A slider with its value; where only some values have answers, it has those marks. */
function dragged({ name, label, low, high, step, marks }, value, moved) {
  const output = el("output", { for: name }, String(value));
  const read = (input) => (marks ? marks[input.valueAsNumber] : within({ low, high, step }, input.valueAsNumber));
  const heard = (done) => ({ target }) => {
    output.textContent = String(read(target));
    target.setAttribute("aria-valuetext", `${label}: ${read(target)}`);
    moved(read(target), done);
  };
  const range = marks ? { min: 0, max: marks.length - 1, step: 1, value: marks.indexOf(value) } : { min: low, max: high, step, value };
  const input = el("input", { type: "range", id: name, ...range, "aria-valuetext": `${label}: ${value}`, input: heard(false), change: heard(true) });
  return el("div", { class: "slider", "data-name": name }, el("label", { for: name }, label), output, input);
}

/**
 * One prior: its picture, its numbers, and what can be done with it. It asks the newest question only. While a slider
 * moves, drafts follow it: the nearest prior that is known, with a new certificate; at rest the prior is solved.
 */
function panel(title) {
  const [plot, facts, key, rows] = [el("div", { class: "plot" }), el("div"), el("div"), el("div")];
  const problem = el("p", { class: "error", role: "alert", hidden: true });
  const heading = el("h3", {}, title);
  let [shown, wanted, busy, wake] = [null, null, false, () => {}];
  const file = () => `prior-${shown.name}-${Object.entries(shown.settings).map(([n, v]) => `${n}${v}`).join("-")}`;
  const button = (words, act) => el("button", { type: "button", disabled: true, click: act }, words);
  const buttons = el(
    "div",
    { class: "buttons" },
    button("Copy as code", async () => {
      await copy(shown.answer.code);
      say("The code was copied to the clipboard.");
    }),
    button("Save PNG", async () => download(`${file()}.png`, await asPng(plot.querySelector("svg")), "image/png")),
    button("Save SVG", () => download(`${file()}.svg`, asText(plot.querySelector("svg")), "image/svg+xml")),
    button("Save JSON", () => download(`${file()}.json`, JSON.stringify({ model: shown.name, settings: shown.settings, ...shown.answer }, null, 2), "application/json")),
  );
  const node = el("section", { class: "panel" }, heading, problem, facts, plot, key, buttons, el("details", {}, el("summary", {}, "Atoms and weights"), rows));

  async function follow(question) {
    wanted = { ...question, at: performance.now() };
    wake();
    if (busy) return;
    busy = true;
    node.setAttribute("aria-busy", "true");
    while (wanted) {
      const now = wanted;
      wanted = null;
      const newer = new Promise((resolve) => (wake = resolve));
      try {
        const [sketch, smooth] = await Promise.all([shown ? now.sketch?.() : null, now.smooth?.()]);
        if (sketch) show({ ...now, answer: sketch, smooth });
        if (!sketch || sketch.draft) {
          if (sketch) await Promise.race([newer, new Promise((rest) => setTimeout(rest, REST))]);
          if (wanted && sketch) continue;
          show({ ...now, answer: await now.ask(), smooth });
        }
      } catch (error) {
        problem.textContent = error.message;
        problem.hidden = false;
        node.classList.add("old");
      }
    }
    node.removeAttribute("aria-busy");
    busy = false;
  }

  function show(now) {
    shown = now;
    problem.hidden = true;
    for (const each of buttons.children) each.disabled = false;
    node.classList.remove("old");
    const { answer, smooth } = now;
    heading.textContent = `${title}: ${said(now.settings)}`;
    const line = answer.axes.length === 1;
    draw(plot, (width) => (line ? stems(width, answer, smooth) : map(width, answer)));
    key.replaceChildren(legend(line ? LINE.concat(smooth ? JEFFREYS : []) : MAP));
    const milliseconds = performance.now() - now.at;
    facts.replaceChildren(
      numbers([
        ["information J", `${number(answer.information, 6)} nats`],
        ...(smooth ? [["Jeffreys' information", `${number(smooth.information, 6)} nats`]] : []),
        ["gap", `${answer.gap_in_words.replace("gap ", "")} nats${answer.draft ? ", being refined" : ""}`],
        ["evidence", answer.evidence],
        ["atoms", `${answer.count}${answer.atoms_certified && !answer.draft ? ", certified number" : ""}`],
      ]),
      answer.reason ? el("p", { class: "note" }, answer.reason) : "",
    );
    node.dataset.settings = JSON.stringify(now.settings);
    node.dataset.milliseconds = milliseconds.toFixed(0);
    node.toggleAttribute("data-draft", Boolean(answer.draft));
    const digits = (value) => Number(value.toPrecision(8));
    rows.replaceChildren(
      answer.atoms
        ? table([[...answer.axes, "weight"], ...answer.atoms.map((atom, k) => [...[atom].flat(), answer.weights[k]].map((value) => String(digits(value))))])
        : el("p", {}, "The gap is too large to show digits."),
    );
  }
  return { node, follow };
}

const LINE = [
  { name: "weight of the atom", ink: "blue", dot: true },
  { name: "gain G(w), which touches J at the atoms", ink: "red" },
  { name: "information J", ink: "soft", dash: "2 3" },
];
const JEFFREYS = [{ name: "Jeffreys' density, on a separate scale", ink: "purple", dash: "7 3" }];
const MAP = [{ name: "atoms, with area proportional to weight; lighter background: gain closer to J", ink: "blue", dot: true }];

function said(given) {
  return Object.entries(given).map(([name, value]) => `${name === "beta" ? "β" : name === "sigma" ? "σ" : name === "time" ? "t" : name} = ${value}`).join(", ");
}

function stems(width, answer, smooth) {
  const { atoms, weights, w, gain, information } = answer;
  const [low, high] = [answer.low[0], answer.high[0]];
  const pad = 0.015 * (high - low);
  const tallest = Math.max(...(weights ?? [1]));
  const right = { low: 0, high: 1.2 * Math.max(information, 1e-9), label: "gain (nats)" };
  const density = smooth?.density?.filter((value) => value !== null).sort((a, b) => a - b) ?? [];
  const cap = 2.2 * (density[Math.floor(density.length / 2)] ?? 1); // it may be infinite at the ends
  return chart(width, {
    name: `Atoms and gain: ${answer.count} atoms, ${number(information)} nats`,
    height: width < 420 ? 260 : 320,
    x: { low: low - pad, high: high + pad, label: answer.axes[0] },
    y: { low: 0, high: 1.2 * tallest, label: "weight of the atom" },
    right,
    layers: [
      ({ x, right: up }) => path([low, high], [information, information], x, up, { stroke: color("soft"), "stroke-dasharray": "2 3" }),
      ({ x, right: up }) => path(w, gain.map((value) => (value === null ? null : Math.max(0, value))), x, up, { class: "gain", stroke: color("red") }),
      ({ x, y }) => (smooth ? path(smooth.w, smooth.density.map((value) => (value === null || value > cap ? null : (value / cap) * 1.15 * tallest)), x, y, { class: "jeffreys", stroke: color("purple"), "stroke-dasharray": "7 3" }) : null),
      ({ x, y }) =>
        (atoms ?? []).map((atom, k) =>
          mark(
            "g",
            { class: "atom", "data-w": atom, "data-weight": weights[k] },
            mark("title", {}, `w = ${number(atom, 6)}, weight ${number(weights[k], 6)}`),
            mark("line", { x1: x(atom), x2: x(atom), y1: y(0), y2: y(weights[k]), stroke: color("blue"), "stroke-width": 2 }),
            mark("circle", { cx: x(atom), cy: y(weights[k]), r: 4, fill: color("blue") }),
          ),
        ),
    ],
  });
}

function map(width, answer) {
  const { side, gain, information, atoms, weights, low, high, axes } = answer;
  const heaviest = Math.max(...(weights ?? [1]));
  const depth = Math.min(DEEPEST, Math.max(0.02, information - Math.min(...gain.filter((value) => value !== null))));
  const axis = (i) => ({ low: low[i] - 0.03 * (high[i] - low[i]), high: high[i] + 0.03 * (high[i] - low[i]), label: axes[i] });
  return chart(Math.min(width, 560), {
    name: `Atoms on the map of the gain: ${answer.count} atoms, ${number(information)} nats`,
    square: true,
    x: axis(0),
    y: axis(1),
    layers: [
      ({ x, y }) => {
        const [left, top, right, bottom] = [x(low[0]), y(high[1]), x(high[0]), y(low[1])];
        const href = shades(side, gain.map((value) => Math.max(0, 1 - (information - (value ?? -Infinity)) / depth)));
        return mark("image", { href, x: left, y: top, width: right - left, height: bottom - top, preserveAspectRatio: "none" });
      },
      ({ x, y }) =>
        (atoms ?? []).map((atom, k) =>
          mark(
            "circle",
            { class: "atom", cx: x(atom[0]), cy: y(atom[1]), r: Math.max(1.5, 34 * Math.sqrt(weights[k] / heaviest / Math.sqrt(atoms.length)) / 2), fill: color("blue"), "fill-opacity": 0.85, stroke: color("back") },
            mark("title", {}, `w = (${number(atom[0], 6)}, ${number(atom[1], 6)}), weight ${number(weights[k], 6)}`),
          ),
        ),
    ],
  });
}

/** A picture of shades from 0 (dark) to 1 (light), the first row at the bottom. */
function shades(side, values) {
  const canvas = el("canvas", { width: side, height: side });
  const context = canvas.getContext("2d");
  const image = context.createImageData(side, side);
  values.forEach((value, i) => {
    const at = 4 * ((side - 1 - Math.floor(i / side)) * side + (i % side));
    const shade = 110 + 140 * Math.min(1, value);
    image.data.set([shade, shade, shade, 255], at);
  });
  context.putImageData(image, 0, 0);
  return canvas.toDataURL();
}

async function copy(words) {
  try {
    await navigator.clipboard.writeText(words);
  } catch {
    const area = el("textarea", {}, words); // an old browser, or one without permission
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}
