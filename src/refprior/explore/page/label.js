export function label(host) {}
