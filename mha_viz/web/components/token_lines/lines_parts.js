// @ts-check
// The elements of the token lines: columns of tokens, values beside them, controls.
// Knows elements and text; what is active and focused is decided elsewhere.

import { formatWeight, make, tokenElement } from "../shared/shared.js";

/** The elements of the component, by name; `root` holds the others. */
export function buildLinesParts() {
  const parts = { root: make("div", "mha token-lines") };
  for (const name of ["top", "legend", "share", "hidden", "scroller", "stage"]) {
    parts[name] = make("div", name);
  }
  for (const name of ["queries", "keys"]) {
    parts[name] = make("div", `side ${name}`);
    parts[name].tabIndex = 0;
    parts[name].setAttribute("role", "listbox");
    parts[`${name}Values`] = make("div", `values ${name}`);
  }
  parts.middle = make("div", "middle");
  parts.canvas = make("canvas", "lines");
  parts.canvas.setAttribute("aria-hidden", "true");
  parts.middle.append(parts.canvas);
  parts.live = make("div", "live");
  parts.live.setAttribute("aria-live", "polite");
  parts.hint = make("div", "hint");
  buildShare(parts);
  parts.stage.append(parts.queriesValues, parts.queries, parts.middle, parts.keys, parts.keysValues);
  parts.scroller.append(parts.stage);
  parts.top.append(parts.legend, parts.share, parts.hidden);
  parts.root.append(parts.top, parts.scroller, parts.hint, parts.live);
  return parts;
}

function buildShare(parts) {
  const label = make("label", "", "Show the top ");
  parts.range = Object.assign(make("input"), { type: "range", min: 20, max: 100, step: 1 });
  parts.percent = make("output", "percent");
  label.append(parts.range, parts.percent, " of each row");
  parts.share.append(label);
}

/** One button per head; `pressed` says which are drawn. */
export function drawHeads(legend, names, colours, pressed, toggle) {
  const old = legend.contains(legend.getRootNode().activeElement);
  const focused = old ? [...legend.children].indexOf(legend.getRootNode().activeElement) : -1;
  legend.replaceChildren(
    ...names.map((name, head) => {
      const button = make("button", "head");
      button.setAttribute("aria-pressed", String(pressed.has(head)));
      const swatch = make("span", "swatch");
      swatch.style.background = colours[head];
      button.append(swatch, name);
      button.addEventListener("click", () => toggle(head));
      return button;
    }),
  );
  legend.children[focused]?.focus();
}

/** Fills a column of tokens; `side` is "query" or "key". */
export function drawTokens(list, labels, special, segments, side, rowHeight) {
  const several = new Set(segments).size > 1;
  const rows = labels.map((label, index) => {
    const row = make("div", "row");
    row.id = `${side}-${index}`;
    row.dataset.index = index;
    row.setAttribute("role", "option");
    row.style.height = `${rowHeight}px`;
    row.style.lineHeight = `${rowHeight}px`;
    row.append(tokenElement(label, special[index]));
    return row;
  });
  const marks = several ? segmentMarks(segments, rowHeight) : [];
  list.classList.toggle("segmented", several);
  list.replaceChildren(...rows, ...marks);
  list.setAttribute("aria-label", side === "query" ? "Query tokens" : "Key tokens");
}

function segmentMarks(segments, rowHeight) {
  const marks = [];
  for (let start = 0; start < segments.length; ) {
    let end = start;
    while (end < segments.length && segments[end] === segments[start]) end++;
    const mark = make("div", `segment s${segments[start] % 2}`);
    mark.setAttribute("aria-hidden", "true");
    mark.style.top = `${start * rowHeight + 2}px`;
    mark.style.height = `${(end - start) * rowHeight - 4}px`;
    mark.append(make("span", "", `sentence ${segments[start] + 1}`));
    marks.push(mark);
    start = end;
  }
  return marks;
}

/** A weight with as many digits as are known of it. @type {(weight: number, exact: boolean) => string} */
export const weightText = (weight, exact) => (exact ? formatWeight(weight) : `≈ ${weight.toFixed(2)}`);

/**
 * Numbers and bars beside the rows that can be seen. columns: [{ colour, of(index) -> weight }];
 * weights that are not exact are marked so.
 */
export function drawValues(values, columns, first, last, { height: rowHeight, width: columnWidth }, exact) {
  const rows = [];
  for (let index = first; index <= last; index++) {
    const row = make("div", "value-row");
    row.style.top = `${index * rowHeight}px`;
    row.style.height = `${rowHeight}px`;
    row.style.lineHeight = `${rowHeight}px`;
    row.dataset.index = index;
    for (const { colour, of } of columns) {
      const weight = of(index);
      const value = make("span", weight < 0.005 ? "value small" : "value");
      value.style.width = `${columnWidth}px`;
      const bar = make("span", "bar");
      bar.style.width = `${Math.max(0, Math.min(1, weight)) * (columnWidth - 8)}px`;
      bar.style.background = colour;
      value.append(bar, make("span", "number", weightText(weight, exact)));
      row.append(value);
    }
    rows.push(row);
  }
  values.replaceChildren(...rows);
}
