// The address of the page, which keeps its settings, and what is said at its foot.

const said = document.getElementById("said");
let silence = 0;

/** Say something to the person, also to one who listens. */
export function say(words) {
  clearTimeout(silence);
  said.textContent = words;
  silence = setTimeout(() => (said.textContent = ""), 4000);
}

/** The settings in the address: #view?name=value. */
export function settings() {
  return Object.fromEntries(new URLSearchParams(location.hash.split("?")[1] ?? ""));
}

/** Put settings into the address, so that a reload and a copy of it show the same. */
export function remember(view, given) {
  const words = new URLSearchParams(given).toString();
  history.replaceState(null, "", `#${view}${words ? `?${words}` : ""}`);
}

// A list that is replaced while a button is held down would lose the click: what is new waits until it is let go.
let held = false;
let waits = [];
addEventListener("pointerdown", () => (held = true), true);
for (const name of ["pointerup", "pointercancel"]) {
  addEventListener(name, () => {
    held = false;
    setTimeout(() => waits.splice(0).forEach((go) => go()));
  }, true);
}

/** Resolves at once, or when the pointer is let go. */
export function letGo() {
  return held ? new Promise((go) => waits.push(go)) : Promise.resolve();
}
