// @ts-check
// Marks the page of a first visit: `data-visit` of the document is "first" while it is open, and
// page.css shows the welcome there. Before anything else is drawn, so that nothing moves.

const VISITED = "mha_viz.visited"; // in the browser's storage

/** Tell whether this is the browser's first visit, and to the plain address. */
function isFirstVisit() {
  if (globalThis.navigator?.webdriver) return false; // a program, such as one that takes pictures
  const [navigation] = performance.getEntriesByType?.("navigation") ?? [];
  if (!navigation || new URL(navigation.name).search) return false;
  try {
    const isNew = !globalThis.localStorage.getItem(VISITED);
    globalThis.localStorage.setItem(VISITED, "1");
    return isNew;
  } catch {
    return false; // what cannot be remembered would be a first visit each time
  }
}

/** Marks a first visit, once on a page; returns what ends the mark when the page is left. */
export function markVisit() {
  const name = Symbol.for("mha_viz.visit");
  const { dataset } = document.documentElement;
  if (globalThis[name] === undefined) {
    globalThis[name] = isFirstVisit();
    if (globalThis[name]) dataset.visit = "first";
  }
  return () => delete dataset.visit;
}
