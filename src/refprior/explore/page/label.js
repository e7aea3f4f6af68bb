// Label: one question after another, by keys, or one doubtful label of the run after another. A label is written down in this browser before it is sent, and sent until
// the server says that it is on disk: a reload, a crash or another tab loses none.

import { ask, live, post } from "./ask.js";
import { letGo, remember, say, settings } from "./page.js";
import { el, numbers, table } from "./plot.js";
import { shownInput } from "./watch.js";

const SECOND = 1000;
const KEYS = [..."1234567890abcdefghijklmnopqrtvwxyz"]; // without s and u, which skip and undo

export function label(host) {
  host.append(el("h2", { class: "hidden" }, "Label"));
  if (!live) return void host.append(el("p", {}, "Labeling needs your data and runs: start refprior explore on your machine."));
  const box = el("div");
  const problem = el("p", { class: "error", role: "alert", hidden: true });
  const select = el("select", { id: "run", change: () => choose(select.value) });
  const state = { id: settings().run ?? "", found: null, version: "", skipped: [], kept: new Map(), checking: null, checked: new Set() };
  let [ended, timer, busy] = [false, 0, false];
  host.append(el("div", { class: "filter" }, el("label", { for: "run" }, "Run"), select), problem, box);
  box.append(el("p", { class: "note" }, "reading runs …"));

  const said = (error) => ((problem.textContent = error?.message ?? ""), (problem.hidden = !error));

  async function begin() {
    try {
      const { runs } = await ask("runs");
      const able = runs.filter((run) => !run.problem && run.checkpoint !== null).sort((a, b) => b.open - a.open);
      if (!able.length) return box.replaceChildren(el("p", { class: "note" }, "There is no run with weights here yet: refprior train digits_ssl trains one."));
      select.append(...able.map((run) => el("option", { value: run.id, "data-name": run.name }, counted(run.name, run))));
      return choose(able.some(({ id }) => id === state.id) ? state.id : able[0].id);
    } catch (error) {
      return said(error);
    }
  }

  function choose(id) {
    Object.assign(state, { id, found: null, version: "", skipped: [], kept: new Map(), checking: null, checked: new Set() });
    select.value = id;
    remember("label", { run: id });
    box.replaceChildren(el("p", { class: "note" }, "reading the run …"));
    look();
  }

  /** Send what waits, then see what is there: also the labels of other tabs. */
  async function look() {
    clearTimeout(timer);
    if (busy || ended) return;
    busy = true;
    const { id } = state;
    try {
      const sent = await send(id);
      const found = await ask("questions", { id, ...(state.version && !sent ? { known: state.version } : {}) });
      await letGo();
      if (id === state.id && found.classes && !ended) {
        const changed = found.version !== state.version;
        Object.assign(state, { found, version: found.version });
        for (const index of state.kept.keys()) if (found.answered.some((one) => one.index === index) || !found.open.some((one) => one.index === index)) state.kept.delete(index);
        if (changed || sent) show();
      }
      if (!waiting(id).length) said(null);
    } catch (error) {
      said(error);
    }
    busy = false;
    if (!ended) timer = setTimeout(look, waiting(state.id).length || id !== state.id ? 200 : SECOND);
  }

  /** Hand waiting labels to the server, one after another; how many it has on disk now. */
  async function send(id) {
    let sent = 0;
    for (const { index, label: y } of waiting(id)) {
      try {
        await post("answer", { id, index, label: y });
        say(`saved: ${state.found?.classes[y] ?? "label"}`);
        state.kept.set(index, y);
      } catch (error) {
        if (!error.refused || error.code === 423 || error.code >= 500) throw new Error(`not saved yet, it will be sent again: ${error.message}`);
        say(error.message); // it can never be taken: another tab was first
      }
      localStorage.removeItem(place(id, index));
      sent += 1;
    }
    return sent;
  }

  function give({ index }, y) {
    if (checking()) return void check(index, y);
    localStorage.setItem(place(state.id, index), String(y));
    state.skipped = state.skipped.filter((other) => other !== index);
    show();
    look();
  }

  /** Save the right class of a label of the run; -1 withdraws it. */
  async function check(index, y) {
    state.checked.delete(index);
    if (y >= 0) state.checked.add(index);
    show();
    try {
      await post("check", { id: state.id, index, label: y });
      say(y < 0 ? "taken back" : `saved: ${state.found.classes[y]}`);
      state.version = "";
    } catch (error) {
      state.checked.delete(index);
      show();
      return said(error);
    }
    look();
  }

  async function undo(index) {
    if (index === undefined) return;
    if (checking()) return void check(index, -1);
    localStorage.removeItem(place(state.id, index));
    try {
      await post("undo", { id: state.id, index });
      state.kept.delete(index);
      state.version = "";
      say("taken back");
    } catch (error) {
      said(error);
    }
    look();
  }

  async function suggest(budget) {
    more.disabled = true;
    say("choosing inputs to label …");
    try {
      await post("suggest", { id: state.id, budget });
      state.version = "";
    } catch (error) {
      said(error);
      more.disabled = false;
    }
    look();
  }

  /** The questions that nobody has answered, here or elsewhere, or the labels to check; skipped ones last. */
  function open() {
    const late = (one) => state.skipped.indexOf(one.index);
    if (checking()) return state.found.checks.open.filter(({ index }) => !state.checked.has(index)).sort((a, b) => late(a) - late(b));
    const done = new Set([...waiting(state.id).map(({ index }) => index), ...state.kept.keys()]);
    return state.found.open.filter(({ index }) => !done.has(index)).sort((a, b) => late(a) - late(b));
  }

  /** The newest answer: of this tab, or else the newest on disk. */
  function newest() {
    if (checking()) return [...state.checked].at(-1) ?? state.found.checks.checked[0]?.index;
    return waiting(state.id).at(-1)?.index ?? [...state.kept.keys()].at(-1) ?? state.found.answered[0]?.index;
  }

  /** Whether labels of the run are checked: as chosen, or if there are doubtful ones and no questions. */
  function checking() {
    const { checks, counts } = state.found;
    if (!checks?.open.length && !checks?.checked.length) return false;
    return state.checking ?? (checks.doubtful > 0 && !counts.open && !counts.answers);
  }

  function turn(event) {
    Object.assign(state, { checking: event.currentTarget === parts.tabs.lastChild, skipped: [] });
    show();
  }

  // What a person is about to click or has begun to type stays: each part is replaced only when it says something else.
  const parts = { facts: el("div"), tabs: el("div", { class: "buttons tabs", role: "group", "aria-label": "Label" }, el("button", { type: "button", click: turn }, "Questions"), el("button", { type: "button", click: turn }, "Check these labels first")), question: el("section", { class: "question" }), given: el("div"), rules: el("section", { class: "rules", hidden: true }), train: el("p", { class: "note", hidden: true }, "Continue training with all answers: ", el("code")) };
  const budget = el("input", { type: "number", id: "budget", min: 1, max: 200, value: 10 });
  const more = el("button", { type: "submit", id: "suggest" });
  const form = el("form", { class: "filter", submit: (event) => (event.preventDefault(), suggest(budget.valueAsNumber)) }, el("label", { for: "budget" }, "Ask about"), budget, more);

  function show() {
    const { found } = state;
    if (!found) return;
    const chosen = select.selectedOptions[0];
    chosen.textContent = counted(chosen.dataset.name, found.counts);
    const [now] = open();
    const pending = waiting(state.id).length;
    const total = found.counts.open + found.counts.answers;
    const checks = checking();
    if (!parts.facts.isConnected) box.replaceChildren(parts.facts, parts.tabs, el("div", { class: "labeling" }, parts.question, parts.given), form, parts.rules, parts.train);
    parts.facts.replaceChildren(
      numbers([
        ["answered", `${found.counts.answers} of ${total}${pending ? `, ${pending} being saved` : ""}`],
        ["labels before", `${found.labels}${found.checks?.rate === undefined ? "" : `, about ${(100 * found.checks.rate).toFixed(0)} % wrong`}`],
        ...(found.corrected ? [["labels corrected", String(found.corrected)]] : []),
        ["without a label", String(found.pool - found.counts.answers)],
        ...scores(found),
      ]),
    );
    parts.tabs.hidden = !found.checks?.open.length && !found.checks?.checked.length;
    [...parts.tabs.children].forEach((button, at) => button.setAttribute("aria-pressed", String(checks === (at === 1))));
    const says = JSON.stringify([state.id, checks, now?.index, found.classes, !now && Boolean(found.counts.answers || pending)]);
    if (parts.question.dataset.says !== says) question(now, found, pending);
    parts.question.dataset.says = says;
    const given = JSON.stringify([checks, waiting(state.id), (checks ? found.checks.checked : found.answered).map(({ index, label: y }) => [index, y])]);
    if (parts.given.dataset.says !== given) parts.given.replaceChildren(answers(found));
    parts.given.dataset.says = given;
    const read = JSON.stringify([state.id, found.rules]);
    parts.rules.hidden = !found.rules?.count;
    if (found.rules?.count && parts.rules.dataset.says !== read) showRules(found.rules);
    parts.rules.dataset.says = read;
    form.hidden = checks;
    more.textContent = now ? "choose other inputs" : "more inputs";
    more.disabled = pending > 0;
    parts.train.hidden = !found.counts.answers && !found.corrected;
    parts.train.firstChild.textContent = found.corrected ? "Train again with the corrected labels and all answers: " : "Continue training with all answers: ";
    parts.train.querySelector("code").textContent = found.train;
  }

  function question(now, found, pending) {
    const typing = document.activeElement?.id === "typed";
    if (!now) {
      parts.question.removeAttribute("data-index");
      parts.question.replaceChildren(el("h3", {}, checking() ? "All labels are checked." : found.counts.answers || pending ? "All questions are answered." : "There are no questions yet."), found.counts.answers || pending ? el("div", { class: "buttons" }, action("undo", "u", () => undo(newest()))) : "");
      return;
    }
    const keys = keysOf(found.classes);
    const buttons = found.classes.map((name, y) => el("button", { type: "button", "data-class": y, class: y === now.suggested ? "suggested" : null, click: () => give(now, y) }, keys[y] && keys[y] !== name ? [el("kbd", {}, keys[y]), " "] : null, name));
    const field = el("input", { type: "text", id: "typed", list: "classes", autocomplete: "off", placeholder: "or type a class, Enter" });
    const typed = (event) => {
      event.preventDefault();
      const y = found.classes.indexOf(field.value.trim());
      if (y < 0) say(`no class ${field.value}`);
      else give(now, y);
    };
    parts.question.dataset.index = now.index;
    parts.question.replaceChildren(
      el("h3", {}, `${now.given === undefined ? "What is this?" : `Is this ${found.classes[now.given]}?`} ${now.name}`),
      shownInput(now),
      now.given === undefined ? "" : el("p", { class: "note" }, `The label is right with probability ${now.right.toFixed(2)}. The particles that have not learned it suggest ${found.classes[now.suggested]}.`),
      el("div", { class: "classes", role: "group", "aria-label": "Classes" }, buttons),
      el("form", { class: "typing", submit: typed }, el("label", { for: "typed", class: "hidden" }, "Type a class"), field, el("datalist", { id: "classes" }, found.classes.map((name) => el("option", { value: name })))),
      el("div", { class: "buttons" }, now.given === undefined ? "" : action(found.classes[now.suggested], "Enter", () => give(now, now.suggested)), action("skip", "s", () => skip(now.index)), action("undo", "u", () => undo(newest()))),
    );
    if (typing) field.focus();
  }

  /** The rules that fit the labels, one card each, with its labels of the same inputs. */
  function showRules({ count, disagreement, explained, settled, inputs, rules }) {
    const percent = (share, digits = 0) => `${(100 * share).toFixed(digits)} %`;
    const title = !explained
      ? "No rule explains your answers: train with them."
      : settled !== null
        ? `Your answers leave one rule: rule ${settled + 1}.`
        : `${count} rules fit the labels: which is right?`;
    const card = ({ rule: i, particles, weight, labels, worst }) =>
      el("li", { class: i === settled ? "settled" : null, "data-rule": i },
        el("h4", {}, `Rule ${i + 1}`),
        el("p", {}, el("meter", { min: 0, max: 1, value: weight, "aria-label": `probability of rule ${i + 1}` }), ` ${percent(weight, 1)}, ${particles} particle${particles === 1 ? "" : "s"}`),
        worst ? el("p", {}, `worst test group: ${worst[0]}, ${percent(worst[1], 1)} right`) : null,
        inputs.every(({ picture }) => picture)
          ? el("ul", {}, labels.map((name, at) => el("li", {}, shownInput(inputs[at]), el("b", {}, name))))
          : table([["input", "class", ...inputs[0].values.map(([key]) => key)], ...labels.map((name, at) => [inputs[at].name, el("b", {}, name), ...inputs[at].values.map(([, value]) => value)])]),
      );
    parts.rules.replaceChildren(
      el("h3", {}, title),
      el("p", { class: "note" }, `The rules disagree on ${percent(disagreement)} of the pool. Each card shows its probability given your answers and its classes of the same ${inputs.length} inputs.${count > rules.length ? ` ${count - rules.length} more rules are not shown.` : ""}`),
      el("ul", { class: "cards" }, rules.map(card)),
    );
  }

  function answers(found) {
    const shown = checking() ? found.checks.checked : [...waiting(state.id).map(({ index, label: y }) => ({ ...found.open.find((one) => one.index === index), index, label: y, pending: true })), ...found.answered];
    if (!shown.length) return "";
    const tile = (one) =>
      el("li", { "data-index": one.index }, one.picture || one.values ? shownInput(one) : null, el("p", {}, el("b", {}, found.classes[one.label]), one.pending ? " (being saved)" : one.given === undefined ? "" : one.given === one.label ? " (right)" : ` (not ${found.classes[one.given]})`), el("button", { type: "button", "aria-label": `undo ${found.classes[one.label]}`, click: () => undo(one.index) }, "undo"));
    return el("section", { class: "given" }, el("h3", {}, checking() ? "Newest checks" : "Newest answers"), el("ul", { class: "tiles" }, shown.slice(0, 12).map(tile)));
  }

  function skip(index) {
    state.skipped = [...state.skipped.filter((other) => other !== index), index];
    show();
  }

  const action = (words, key, act) => el("button", { type: "button", "data-key": key, click: act }, el("kbd", {}, key), ` ${words}`);

  function pressed(event) {
    if (event.target.matches("input, select, textarea") || event.altKey || event.metaKey || !state.found || event.repeat) return;
    const key = event.key.toLowerCase();
    if (key === "u" || (event.ctrlKey && key === "z")) return event.preventDefault(), void undo(newest());
    const [now] = open();
    if (event.ctrlKey || !now) return;
    if (key === "s") return void skip(now.index);
    if (key === "enter" && now.suggested !== undefined && !event.target.matches("button")) return void give(now, now.suggested);
    const y = keysOf(state.found.classes).indexOf(key);
    if (y >= 0) give(now, y);
  }

  addEventListener("keydown", pressed);
  begin();
  return () => {
    ended = true;
    clearTimeout(timer);
    removeEventListener("keydown", pressed);
  };
}

const counted = (name, { open, answers }) => `${name}: ${open} open, ${answers} answered`;

/** A key for each class: its name where all names are single signs, else digits and letters; few have none. */
function keysOf(classes) {
  const names = classes.map((name) => name.toLowerCase());
  if (names.every((name) => name.length === 1 && name !== "s" && name !== "u" && name.trim()) && new Set(names).size === names.length) return names;
  return classes.map((_, y) => (classes.length <= KEYS.length ? KEYS[y] : null));
}

/** Where a label waits until it is on disk: a place of its own, so that tabs do not overwrite each other's. */
const place = (id, index) => `refprior ${id} ${index}`;

function waiting(id) {
  const found = [];
  for (let i = 0; i < localStorage.length; i += 1) {
    const [program, run, index] = localStorage.key(i).split(" ");
    if (program === "refprior" && run === id) found.push({ index: Number(index), label: Number(localStorage.getItem(localStorage.key(i))) });
  }
  return found;
}

function scores({ estimates, counts, outputs }) {
  if (!counts.answers) return [];
  if (!estimates) return [["accuracy", "being computed …"]];
  const known = estimates.accuracy === null ? [] : [[`accuracy, ${estimates.part}`, `${(100 * estimates.accuracy).toFixed(1)} %${outputs ? ", by the answers" : ""}`]];
  const agreed = estimates.agreed === null ? [] : [["predicted by the run", `${estimates.agreed} of ${estimates.of} answers`]];
  return [...known, ...agreed];
}
