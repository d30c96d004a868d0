// @ts-check
// The components' scripts that have come into this page.

/** Functions that draw, by name, and by their parent elements those who wait for one. */
export function scriptStore() {
  const name = Symbol.for("mha_viz.scripts");
  globalThis[name] ??= { byName: new Map(), waiting: new Map() };
  return globalThis[name];
}
