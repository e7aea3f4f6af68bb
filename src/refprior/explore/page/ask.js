// Questions to the server, or to files of answers where the page stands without one.

export const live = document.querySelector('meta[name="refprior"]').content === "live";
const files = new Map();

/** The answer to a question; an Error in words if it is rejected or nobody answers. */
export async function ask(name, given = {}) {
  const words = new URLSearchParams(given).toString();
  if (live) return read(`api/${name}${words ? `?${words}` : ""}`);
  if (name === "play") return kept(await file(`answers/play-${given.model}.json`), words);
  return file(`answers/${[name, given.id].filter((word) => word !== undefined).join("-")}.json`);
}

/** Send something to the server; its answer. */
export function post(name, given) {
  const body = JSON.stringify(given);
  return read(`api/${name}`, { method: "POST", headers: { "content-type": "application/json" }, body });
}

async function read(address, options = {}) {
  let response;
  try {
    response = await fetch(address, options);
  } catch {
    throw new Error("the server does not respond: is refprior explore still running?");
  }
  const found = await response.json().catch(() => ({ error: `the server rejected the request: ${response.status}` }));
  if (found?.error !== undefined) throw Object.assign(new Error(found.error), { refused: true, code: response.status });
  return found;
}

function file(address) {
  if (!files.has(address)) files.set(address, read(address));
  return files.get(address);
}

function kept(answers, words) {
  if (!(words in answers)) throw new Error("not precomputed: run refprior explore on your machine");
  return answers[words];
}
