export function watch(host) {}
