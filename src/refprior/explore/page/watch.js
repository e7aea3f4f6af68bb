// Watch a training: the runs of the folder, compared, and one of them in detail. It looks again every second.

import { ask, live } from "./ask.js";
import { letGo, remember, settings } from "./page.js";
import { DASHES, SERIES, chart, color, draw, el, extent, legend, mark, number, numbers, path, table } from "./plot.js";

const SECOND = 1000;
const WHOLE = 20; // classes up to which the confusion matrix is shown as a whole
const percent = (share) => (share === null || share === undefined ? "–" : `${(100 * share).toFixed(1)} %`);

export function watch(host) {
  const given = settings();
  const state = { runs: [], version: "", chosen: (given.runs ?? "").split(",").filter(Boolean), details: new Map(), focus: given.focus ?? "" };
  const filter = el("input", { type: "search", id: "filter", value: given.filter ?? "", placeholder: "labels=50 method=FixMatch", input: () => (keep(), list()) });
  const [rows, problem, curves, about] = [el("div", { id: "runs" }), el("p", { class: "error", role: "alert", hidden: true }), el("div", { class: "charts" }), el("div")];
  const waiting = el("p", { class: "note" }, "reading runs …");
  host.append(
    el("h2", { class: "hidden" }, "Watch a training"),
    el("div", { class: "filter" }, el("label", { for: "filter" }, "Filter by settings or name"), filter),
    waiting,
    problem,
    rows,
    curves,
    about,
  );
  let [ended, timer, inside] = [false, 0, null];

  function keep() {
    remember("watch", { ...(state.chosen.length ? { runs: state.chosen.join(",") } : {}), ...(state.focus ? { focus: state.focus } : {}), ...(filter.value ? { filter: filter.value } : {}) });
  }

  async function look() {
    try {
      if (!document.hidden || !state.version) await refresh();
      problem.hidden = true;
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
    }
    if (!ended && live) timer = setTimeout(look, SECOND);
  }

  async function refresh() {
    const found = await ask("runs", state.version ? { known: state.version } : {});
    await letGo();
    if (!found.runs || ended) return;
    [state.runs, state.version] = [found.runs, found.version];
    waiting.hidden = found.runs.length > 0;
    waiting.textContent = "There is no run here yet. refprior train digits_ssl starts one; this page shows it while it trains.";
    const known = new Set(state.runs.map(({ id }) => id));
    state.chosen = state.chosen.filter((id) => known.has(id));
    if (!state.chosen.length) state.chosen = [(state.runs.find((run) => run.state === "training") ?? state.runs.find((run) => !run.problem))?.id].filter(Boolean);
    list();
    await curvesOf();
  }

  function matches(run) {
    return filter.value.toLowerCase().split(/\s+/).filter(Boolean).every((word) => {
      const [name, value] = word.split("=", 2);
      if (value === undefined) return `${run.name} ${run.label} ${run.state}`.toLowerCase().includes(word);
      return String(run.settings[name] ?? run[name] ?? "").toLowerCase().split(",").includes(value) || String(run.settings[name] ?? "").toLowerCase() === value;
    });
  }

  function list() {
    const shown = state.runs.filter(matches);
    const focused = document.activeElement?.dataset?.run;
    const choose = (id, on) => {
      state.chosen = on ? [...state.chosen, id].slice(-SERIES.length) : state.chosen.filter((other) => other !== id);
      keep();
      list();
      curvesOf();
    };
    const row = (run) => {
      const at = state.chosen.indexOf(run.id);
      const box = el("input", { type: "checkbox", "data-run": run.id, checked: at >= 0, disabled: Boolean(run.problem), "aria-label": `compare ${run.name}`, change: ({ target }) => choose(run.id, target.checked) });
      const name = el("label", { class: "check" }, box, at >= 0 ? swatch(at) : "", run.name);
      if (run.problem) return [name, run.problem, "damaged", "", ""];
      const bar = el("progress", { max: run.steps, value: run.step, "aria-label": `${run.step} of ${run.steps} steps` });
      const left = run.state === "training" && run.left !== null ? `, ${duration(run.left)} left` : "";
      return [name, run.label, el("span", {}, bar, ` ${run.step} of ${run.steps}, ${run.state}${left}`), run.accuracy === null ? "–" : `${percent(run.accuracy)} (${run.part})`, duration(run.seconds)];
    };
    rows.replaceChildren(
      state.runs.length ? table([["compare", "recipe", "step", "accuracy", "trained"], ...shown.map(row)], { class: "runs" }) : "",
      shown.length < state.runs.length ? el("p", { class: "note" }, `${shown.length} of ${state.runs.length} runs`) : "",
    );
    if (focused) rows.querySelector(`[data-run="${CSS.escape(focused)}"]`)?.focus();
  }

  async function curvesOf() {
    const chosen = state.chosen.map((id) => state.runs.find((run) => run.id === id)).filter(Boolean);
    await Promise.all(
      chosen.map(async (run) => {
        if (state.details.get(run.id)?.version !== run.version) state.details.set(run.id, { ...(await ask("run", { id: run.id })), version: run.version });
      }),
    );
    if (ended) return;
    const compared = chosen.map((run, i) => ({ run, found: state.details.get(run.id), ink: SERIES[i], dash: DASHES[i] }));
    if (!compared.some(({ run }) => run.id === state.focus)) state.focus = compared[0]?.run.id ?? "";
    compare(curves, compared, state.focus);
    if (!compared.length) return about.replaceChildren(), (inside = null);
    if (inside?.id !== state.focus) {
      const [choice, body] = [el("div", { class: "filter" }), el("div")];
      about.replaceChildren(choice, body);
      inside = { id: state.focus, choice, ...detail(body, state.focus) };
    }
    const offered = compared.map(({ run }) => run.id).join(" ");
    if (inside.choice.dataset.runs !== offered) {
      const select = el("select", { id: "focus", change: ({ target }) => ((state.focus = target.value), keep(), curvesOf()) }, compared.map(({ run }) => el("option", { value: run.id, selected: run.id === state.focus }, run.name)));
      inside.choice.replaceChildren(el("label", { for: "focus" }, "Details of"), select);
      inside.choice.dataset.runs = offered;
    }
    const focus = compared.find(({ run }) => run.id === state.focus);
    inside.show(focus.run, focus.found);
  }

  look();
  return () => {
    ended = true;
    clearTimeout(timer);
  };
}

const swatch = (at) => mark("svg", { class: `ink-${SERIES[at]}`, width: 22, height: 10, "aria-hidden": "true" }, mark("line", { x1: 0, x2: 22, y1: 5, y2: 5, "stroke-width": 3, "stroke-dasharray": DASHES[at] }));

function duration(seconds) {
  if (seconds >= 7200) return `${(seconds / 3600).toFixed(1)} hours`;
  return seconds >= 120 ? `${(seconds / 60).toFixed(1)} minutes` : `${seconds.toFixed(0)} s`;
}

/** A figure with its title, what it means, and its key. */
function figure(title, note, make, entries) {
  const plot = el("div", { class: "plot" });
  return { node: el("section", { class: "panel" }, el("h3", {}, title), plot, legend(entries), note ? el("p", { class: "note" }, note) : null), draw: () => draw(plot, make) };
}

/** Accuracy, entropies and loss of the chosen runs, over the steps. */
function compare(place, compared, focus) {
  const most = Math.max(1, ...compared.map(({ run }) => run.steps));
  const steps = { low: 0, high: most, label: "step" };
  const names = compared.map(({ run, ink, dash }) => ({ name: run.name, ink, dash }));
  const figures = [];
  const scored = compared.filter(({ found }) => found.evaluations.best.some((value) => value !== null));
  if (scored.length) {
    const all = scored.flatMap(({ run, found }) => [...found.evaluations.best, ...(run.id === focus ? found.evaluations.particles.flat() : [])]).filter((value) => value !== null);
    const [low, high] = extent(all.map((share) => 100 * share));
    const margin = Math.max(1, 0.05 * (high - low));
    const lines = ({ x, y }) =>
      scored.map(({ run, found: { evaluations: e }, ink, dash }) => [
        run.id === focus ? e.particles.slice(0, 50).map((one) => path(e.step, one.map((v) => (v === null ? null : 100 * v)), x, y, { class: "particle", stroke: color(ink), "stroke-width": 0.8, opacity: 0.55 })) : null,
        path(e.step, e.best.map((v) => (v === null ? null : 100 * v)), x, y, { class: "ensemble", stroke: color(ink), "stroke-dasharray": dash, "stroke-width": 2.2 }),
        e.step.map((step, i) => (e.best[i] === null ? null : mark("circle", { cx: x(step), cy: y(100 * e.best[i]), r: 2.5, fill: color(ink) }))),
      ]);
    const parts = [...new Set(scored.map(({ found }) => found.evaluations.part))].join(", ");
    figures.push(figure("Accuracy", `Accuracy of the EMA ensemble (${parts}); thin lines are the particles of the run in detail.`, (width) => chart(width, { name: "Accuracy over the steps", x: steps, y: { low: Math.max(0, low - margin), high: Math.min(100, high + margin), label: "accuracy (%)" }, layers: [lines] }), names));
  }
  const terms = compared.filter(({ found }) => "marginal_entropy" in found.terms);
  if (terms.length) {
    const [low, high] = extent(terms.flatMap(({ found }) => [...found.terms.marginal_entropy, ...(found.terms.conditional_entropy ?? [])]), 0);
    const lines = ({ x, y }) =>
      terms.map(({ found, ink }) => [
        path(found.step, found.terms.marginal_entropy, x, y, { class: "marginal", stroke: color(ink) }),
        path(found.step, found.terms.conditional_entropy ?? [], x, y, { class: "conditional", stroke: color(ink), "stroke-dasharray": "5 3" }),
      ]);
    figures.push(
      figure("The two entropies", "In nats per tuple of unlabeled inputs. h_y is the entropy of the mixture of all particles, h_yw the mean entropy of single particles; their difference is the information that labels carry about the particle, which is never negative. Methods with strong views train on an upper bound of h_yw, which also counts how far the weak and the strong view of an input disagree: this is what is drawn, and why h_yw can lie above h_y.", (width) => chart(width, { name: "The two entropies over the steps", x: steps, y: { low, high: high * 1.05, label: "entropy (nats)" }, layers: [lines] }), [
        { name: "h_y", ink: "soft" },
        { name: "h_yw", ink: "soft", dash: "5 3" },
        ...terms.map(({ run, ink }) => ({ name: run.name, ink, dot: true })),
      ]),
    );
  }
  if (compared.some(({ found }) => found.step.length)) {
    const [low, high] = extent(compared.flatMap(({ found }) => found.loss));
    const lines = ({ x, y }) => compared.map(({ found, ink, dash }) => path(found.step, found.loss, x, y, { class: "loss", stroke: color(ink), "stroke-dasharray": dash }));
    figures.push(figure("Loss", "", (width) => chart(width, { name: "Loss over the steps", x: steps, y: { low, high: high + 0.05 * (high - low), label: "loss" }, layers: [lines] }), names));
  }
  place.replaceChildren(...figures.map(({ node }) => node));
  figures.forEach((each) => each.draw());
}

/** All that is known of one run; what needs its weights is asked for when its part is opened. */
function detail(place, id) {
  const [calibration, confusion, all] = [el("div"), el("div"), el("div")];
  let known = null;
  const cloud = lazy("Particles in prediction space", "embedding", (run) => `${run.snapshots} ${run.snapshots ? "" : run.checkpoint}`, embedding);
  const uncertain = lazy("Most uncertain examples, and each class", "examples", (run) => run.checkpoint, (body, found) => examples(body, found, known?.confusion === null));
  place.append(el("div", { class: "charts" }, calibration, confusion), cloud.node, uncertain.node, el("details", {}, el("summary", {}, "All settings"), all));

  function lazy(title, name, mark_, make) {
    const [body, problem] = [el("div"), el("p", { class: "error", role: "alert", hidden: true })];
    let [known, asked, run] = [null, false, null];
    const node = el("details", { class: name, toggle: () => refresh() }, el("summary", {}, title), problem, body);
    async function refresh() {
      if (!node.open || asked || !run || known === mark_(run)) return;
      asked = true;
      if (known === null) body.replaceChildren(el("p", { class: "note" }, "reading …"));
      const now = mark_(run);
      try {
        const found = await ask(name, { id });
        problem.hidden = true;
        if (known === null) body.replaceChildren();
        make(body, found);
      } catch (error) {
        problem.textContent = error.message;
        problem.hidden = false;
        if (known === null) body.replaceChildren();
      }
      known = now;
      asked = false;
    }
    return { node, show: (now) => ((run = now), refresh()) };
  }

  function show(run, found) {
    known = found;
    reliability(calibration, found.calibration);
    matrix(confusion, found.confusion, found.classes);
    cloud.show(run);
    uncertain.show(run);
    all.replaceChildren(table([["setting", "value"], ...found.settings], { class: "words" }));
  }
  return { show };
}

function reliability(place, found) {
  if (!found) return place.replaceChildren();
  const total = found.counts.reduce((sum, count) => sum + count, 0) || 1;
  const bins = found.counts.map((count, i) => ({ count, x: found.confidence[i], y: found.accuracy[i] })).filter(({ count }) => count > 0);
  const plot = el("div", { class: "plot calibration" });
  place.replaceChildren(
    el("section", { class: "panel" }, el("h3", {}, "Calibration"), numbers([["calibration error", number(found.error, 3)], ["NLL", `${number(found.nll, 3)} nats`], ["Brier", number(found.brier, 3)]]), plot, el("p", { class: "note" }, "Last evaluation. Dots below the line are overconfident; their area is the share of inputs.")),
  );
  const one = { low: -0.04, high: 1.04 };
  draw(plot, (width) =>
    chart(Math.min(width, 420), {
      name: "Accuracy over confidence",
      square: true,
      x: { ...one, label: "confidence" },
      y: { ...one, label: "accuracy" },
      layers: [
        ({ x, y }) => path([0, 1], [0, 1], x, y, { stroke: color("soft"), "stroke-dasharray": "2 3" }),
        ({ x, y }) => bins.map((bin) => mark("circle", { class: "bin", cx: x(bin.x), cy: y(bin.y), r: 3 + 16 * Math.sqrt(bin.count / total), fill: color("blue"), "fill-opacity": 0.6, stroke: color("blue") }, mark("title", {}, `${bin.count} inputs: confidence ${percent(bin.x)}, right ${percent(bin.y)}`))),
      ],
    }),
  );
}

function matrix(place, counts, classes) {
  if (!counts || counts.length > WHOLE) return place.replaceChildren();
  const shaded = (count, row, right) => {
    const cell = el("span", { class: right ? "right" : "wrong" }, String(count));
    cell.style.setProperty("--share", `${count ? Math.round(12 + (33 * count) / row.reduce((a, b) => a + b, 0)) : 0}%`);
    return cell;
  };
  const rows = counts.map((row, i) => [classes[i], ...row.map((count, j) => shaded(count, row, i === j))]);
  place.replaceChildren(el("section", { class: "panel" }, el("h3", {}, "Confusion matrix"), table([["true ↓, predicted →", ...classes], ...rows], { class: "confusion" }), el("p", { class: "note" }, "Inputs by true and predicted class; correct ones are blue, mistakes orange.")));
  return undefined;
}

function examples(place, found, whole) {
  const tile = (one) =>
    el(
      "li",
      {},
      shownInput(one),
      el("p", {}, one.truth === null ? null : el("b", {}, `truth ${one.truth}`), one.truth === null ? null : el("br"), `says ${one.votes.slice(0, 3).map(([name, count]) => `${name} (${count})`).join(", ")}`, el("br"), `${one.nats.toFixed(2)} nats`),
    );
  const confusion = el("div");
  if (whole) matrix(confusion, found.confusion, found.classes);
  place.replaceChildren(
    el("p", { class: "note" }, `At step ${found.step}. Inputs on which the particles disagree most, with votes in parentheses and the mutual information between label and particle in nats.`),
    el("ul", { class: "tiles" }, found.uncertain.map(tile)),
    found.per_class ? table(found.per_class, { class: "words" }) : "",
    confusion,
  );
}

/** A picture, or the first values of an input that is none. */
export function shownInput({ picture, values, more, name }) {
  if (picture) return el("img", { src: picture, alt: name ?? "the input", class: "input" });
  return el("dl", { class: "values" }, values.map(([key, value]) => el("div", {}, el("dt", {}, key), el("dd", {}, value))), more ? el("div", {}, el("dt", {}, `… ${more} more`)) : null);
}

/** The particles as points along two of the three axes, snapshot by snapshot. */
function embedding(place, found) {
  const last = found.steps.length - 1;
  const old = place.querySelector("#snapshot");
  const at = old && old.valueAsNumber < Number(old.max) ? old.valueAsNumber : last; // who looks back stays there
  const axes = place.querySelector("#axes")?.value ?? "01";
  const plot = el("div", { class: "plot" });
  const said = el("output", { for: "snapshot" });
  const slider = el("input", { type: "range", id: "snapshot", min: 0, max: last, step: 1, value: at, input: () => show() });
  const select = el("select", { id: "axes", change: () => show() }, ["01", "02", "12"].map((pair) => el("option", { value: pair, selected: pair === axes }, `axes ${Number(pair[0]) + 1} and ${Number(pair[1]) + 1}`)));
  let timer = 0;
  const play = el("button", {
    type: "button",
    click: () => {
      clearInterval(timer);
      slider.value = 0;
      show();
      timer = setInterval(() => {
        if (!slider.isConnected || slider.valueAsNumber >= last) return clearInterval(timer);
        slider.value = slider.valueAsNumber + 1;
        return show();
      }, 300);
    },
  }, "Play");
  const facts = el("div");
  const known = found.accuracy.some((shot) => shot.some((value) => value !== null));
  place.replaceChildren(
    facts,
    el("div", { class: "slider" }, el("label", { for: "snapshot" }, "snapshot"), said, slider),
    el("div", { class: "buttons" }, play, el("label", { class: "check" }, "show ", select)),
    plot,
    legend([{ name: known ? "a particle; lighter: more accurate" : "a particle; lighter: more confident", ink: "blue", dot: true }, { name: "a certain model: of the true classes, or of one class for all inputs", ink: "soft", sign: "×" }]),
    el("p", { class: "note" }, `${found.particles} particles by their predictions on ${found.inputs} inputs. Distances seen are at most the Hellinger distances; the axes hold ${found.explained.map((share) => `${(100 * share).toFixed(0)} %`).join(", ")} of the variance.`),
  );
  function show() {
    const shot = slider.valueAsNumber;
    const [a, b] = [...select.value].map(Number);
    const marks = Object.entries(found.landmarks);
    const every = [...found.points.flat(), ...marks.map(([, point]) => point)];
    const range = (axis) => {
      const [low, high] = extent(every.map((point) => point[axis]));
      return { low: low - 0.05 * (high - low), high: high + 0.05 * (high - low), label: `axis ${axis + 1}` };
    };
    said.textContent = `step ${found.steps[shot]}`;
    slider.setAttribute("aria-valuetext", said.textContent);
    facts.replaceChildren(numbers([["information I", `${number(found.information[shot], 4)} nats`], ["h_y", `${number(found.marginal[shot], 4)} nats`], ["h_yw", `${number(found.conditional[shot], 4)} nats`]]));
    const value = (k) => (known ? found.accuracy[shot][k] : 1 - (found.entropy[shot][k] ?? 1)) ?? 0;
    draw(plot, (width) =>
      chart(width, {
        name: `Particles at step ${found.steps[shot]}`,
        height: Math.min(420, Math.max(280, 0.6 * width)),
        x: range(a),
        y: range(b),
        even: true,
        layers: [
          ({ x, y }) => marks.map(([name, point]) => mark("text", { x: x(point[a]), y: y(point[b]) + 4, "text-anchor": "middle", "font-size": 14, fill: color("soft") }, name === "truth" ? "× truth" : "×", mark("title", {}, name))),
          ({ x, y }) => found.points[shot].map((point, k) => mark("circle", { class: "particle", cx: x(point[a]), cy: y(point[b]), r: found.particles > 500 ? 2 : 5, fill: shade(value(k)), stroke: color("text"), "stroke-width": found.particles > 500 ? 0 : 0.7 }, mark("title", {}, `particle ${k + 1}: ${known ? `accuracy ${percent(found.accuracy[shot][k])}, ` : ""}entropy ${percent(found.entropy[shot][k])} of log C`))),
        ],
      }),
    );
  }
  show();
}

/** From blue to yellow, a scale that every reader sees, and whose ends can be seen on white and on black. */
function shade(share) {
  const stops = [[0, 90, 160], [128, 128, 122], [230, 172, 0]];
  const at = Math.min(1.999, Math.max(0, 2 * share));
  const [one, other, part] = [stops[Math.floor(at)], stops[Math.floor(at) + 1], at % 1];
  return `rgb(${one.map((value, i) => Math.round(value + part * (other[i] - value))).join(" ")})`;
}
