// Which view is shown.

import { ask } from "./ask.js";
import { el } from "./plot.js";
import { play } from "./play.js";
import { watch } from "./watch.js";
import { label } from "./label.js";

const VIEWS = { play, watch, label };
const place = document.getElementById("view");
let leave = () => {};
let shown = null;

function show(about) {
  const name = location.hash.slice(1).split("?")[0];
  const view = name in VIEWS ? name : "play";
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${view}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  leave();
  place.replaceChildren();
  document.title = `refprior: ${view}`;
  leave = VIEWS[view](place, about) ?? (() => {});
  if (shown !== null && shown !== view) place.focus({ preventScroll: true });
  shown = view;
}

try {
  const about = await ask("about");
  addEventListener("hashchange", () => show(about));
  show(about);
} catch (error) {
  place.append(el("p", { class: "error", role: "alert" }, error.message));
}
