// @ts-check
// The arithmetic of a score: query and key of a pair, their products dimension by dimension, and the row's
// softmax over all keys. Below the head, whichever of its pictures is shown.

import { colourAt, formatNumber, formatWeight, make, themeOf, tokenElement } from "../shared/shared.js";
/* global PALETTE */

const MAX_ROUNDING_GAP = 1e-3; // largest difference between a row and the softmax of its products that is rounding
const NO_VECTORS = "This family does not expose queries and keys, only its attention weights.";
const CHOICE_HINT = "Choose a token or a cell of the heatmap to see how the scores of its row arise.";

export class ScoreView {
  /** @param {import("./bench.js").Bench} bench */
  constructor(bench) {
    this.bench = bench;
    /** Of the window below a part; this one is as high in each. @type {number | undefined} */
    this.height = undefined;
    this.root = make("div", "mha score-view");
    this.root.setAttribute("role", "region");
    this.root.setAttribute("aria-label", "How a score arises");
    this.title = make("h3", "title");
    this.note = make("span", "note");
    this.why = make("button", "button", "Why this head looks there");
    this.why.title = "Opens what earlier parts wrote to this query and this key";
    this.why.addEventListener("click", () => this.explain());
    this.top = make("div", "score-top");
    this.top.append(this.title, this.note, this.why);
    this.sum = make("div", "sum");
    this.sum.setAttribute("aria-live", "polite");
    this.strips = make("div", "strips");
    this.check = make("div", "check-line");
    this.pair = make("div", "pair-side");
    this.pair.append(this.sum, this.strips, this.check);
    this.rows = make("div", "score-rows");
    this.rows.tabIndex = 0; // to be scrolled by keys, too
    this.body = make("div", "score-body");
    this.body.append(this.pair, this.rows);
    this.empty = make("div", "score-empty");
    this.root.append(this.top, this.body, this.empty);
  }

  draw() {
    const { bench } = this;
    this.root.hidden = bench.settings.vectors === undefined; // a page without a server
    if (!bench.payload || this.root.hidden) return;
    const { header } = bench.payload;
    const theme = themeOf(this.root);
    this.root.dataset.theme = theme;
    this.root.style.setProperty("--accent", PALETTE.accent[theme]);
    const shown = this.shown();
    this.body.hidden = this.why.hidden = !shown;
    this.empty.hidden = Boolean(shown);
    this.why.hidden ||= !bench.settings.explained;
    this.title.textContent = shown ? `How “${header.query_labels[shown.query]}” → “${header.key_labels[shown.key]}” gets its weight` : "How a score arises";
    const strongest = bench.view.query < 0 ? `the strongest pair of ${bench.name(bench.chosen)}` : "the strongest key of this row";
    this.note.textContent = shown && !shown.chosen ? strongest : "";
    const fingerprint = JSON.stringify([shown?.vectors.header.id, shown?.query, shown?.key, theme, header.id]);
    if (!shown) this.empty.textContent = this.whyEmpty();
    else if (fingerprint !== this.drawn) this.fill(shown, header, theme);
    this.drawn = fingerprint;
    this.pairShown = shown;
    this.root.dataset.pair = shown ? `${shown.query} ${shown.key}` : "";
  }

  /** The pair that is shown, the strongest one where none is chosen; null while there is none. */
  shown() {
    const { bench } = this;
    const { query, key, window: tokens } = bench.view;
    const vectors = bench.settings.vectors ? bench.extras.scores(bench.chosen, query, key) : null;
    if (!vectors) return null;
    if (query >= 0 && key >= 0) return { vectors, query, key, chosen: true };
    const within = (span, at) => !span || (at >= span[0] && at <= span[1]);
    const pair = vectors.strongest(
      (at) => (query >= 0 ? at === query : within(tokens?.[0], at)),
      (at) => (key >= 0 ? at === key : within(tokens?.[1], at)),
    );
    return pair && { ...pair, vectors, chosen: false };
  }

  whyEmpty() {
    const { settings, payload, view } = this.bench;
    if (settings.vectors === false) return NO_VECTORS;
    return payload.header.pool > 1 && view.query < 0 ? CHOICE_HINT : "Fetching queries and keys …";
  }

  fill({ vectors, query, key }, header, theme) {
    const { q, terms, visibleKeys, gap } = vectors.row(query);
    const { scale } = vectors.header;
    const term = terms.find((keyTerm) => keyTerm.key === key);
    const listed = terms.length < header.keys ? `the strongest ${terms.length} of ${visibleKeys.toLocaleString("en")} keys` : `${visibleKeys} keys`;
    this.sum.replaceChildren(...sumParts(term, scale, visibleKeys));
    const reach = Math.max(...terms.map((keyTerm) => (keyTerm.isVisible ? magnitude(keyTerm.products) : 0)));
    const names = [`q: ${header.query_labels[query]}`, `k: ${header.key_labels[key]}`, "q × k"];
    const strips = [[q, magnitude(q)], [term.k, magnitude(term.k)], [term.products, reach]];
    this.strips.replaceChildren(...strips.flatMap(([values, most], at) => [
      make("bdi", "strip-name", names[at]), strip(/** @type {Float32Array} */ (values), /** @type {number} */ (most), theme),
    ]));
    this.check.textContent = checkLine(gap, q.length);
    const table = make("table");
    table.append(make("caption", "", `“${header.query_labels[query]}” against ${listed}, strongest first`));
    const titles = make("tr");
    titles.append(...["Key", "q × k by dimension", "Score", "Weight"].map((text) => Object.assign(make("th", "", text), { scope: "col" })));
    table.append(titles, ...terms.map((keyTerm) => this.row(keyTerm, header, reach, theme, keyTerm.key === key)));
    this.rows.replaceChildren(table);
    this.rows.scrollTop = 0;
    const marked = table.querySelector(".marked");
    const below = marked ? marked.offsetTop + marked.offsetHeight - this.rows.clientHeight : 0;
    if (below > 0) this.rows.scrollTop = below;
  }

  row(term, header, reach, theme, marked) {
    const row = make("tr", [marked ? "marked" : "", term.isVisible ? "" : "unseen"].join(" ").trim());
    row.dataset.key = term.key;
    const name = make("td", "key");
    name.append(tokenElement(header.key_labels[term.key], header.key_special[term.key]), make("sub", "position", String(term.key)));
    const products = make("td", "products");
    products.append(strip(term.products, reach, theme));
    const weight = make("td", "weight");
    const bar = make("span", "bar");
    bar.style.width = `${(Math.min(1, term.weight) * 100).toFixed(2)}%`;
    weight.append(make("span", "number", term.isVisible ? formatWeight(term.weight) : "masked"), bar);
    row.append(name, products, make("td", "score", formatNumber(term.score)), weight);
    if (marked) row.setAttribute("aria-current", "true");
    row.addEventListener("click", () => this.bench.choose({ query: this.pairShown.query, key: term.key }));
    return row;
  }

  /** Goes where the score is taken apart. */
  explain() {
    const { query, key } = this.pairShown;
    this.bench.outbox.send?.({ leave: "why", view: { query: String(query), key: String(key) } });
  }

  close() {}
}

/** The sum, its scale and the weight, with every number strong; `count` keys are named, 0 for none. */
export function sumParts({ product, score, weight, isVisible }, scale, count = 0) {
  const number = (text) => make("b", "", text);
  const parts = ["q · k = ", number(formatNumber(product)), " × ", number(formatNumber(scale)), " = score ", number(formatNumber(score))];
  if (!isVisible) return [...parts, ", but this query cannot see this key."];
  const keys = count ? ` over ${count} ${count === 1 ? "key" : "keys"}` : "";
  return [...parts, `; softmax${keys} → weight `, number(formatWeight(weight))];
}

/** Tell whether the products alone explain the row, or the model adds something of its own. */
function checkLine(gap, count) {
  const colours = `Each of ${count} dimensions adds one product: blue raises the score, orange lowers it.`;
  if (!gap) return `${colours} The softmax of this row’s scores gives its weights.`;
  if (gap < MAX_ROUNDING_GAP) return `${colours} The softmax of this row’s scores gives its weights to within ${formatNumber(gap, { digits: 1 })}.`;
  return `This model changes the scores before softmax (a position bias or a cap), so the products alone do not give the weights: they miss them by up to ${gap.toFixed(2)}.`;
}

const magnitude = (values) => values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);

/**
 * Numbers as small cells, from negative to positive.
 * @param {Float32Array} values
 * @param {number} reach the number that has the strongest colour
 * @param {"light" | "dark"} theme
 */
function strip(values, reach, theme) {
  const canvas = make("canvas", "strip");
  [canvas.width, canvas.height] = [values.length, 1];
  const context = canvas.getContext("2d");
  const image = context.createImageData(values.length, 1);
  const stops = PALETTE.diverging[theme];
  values.forEach((value, at) => image.data.set([...colourAt(0.5 + value / (2 * reach || 1), stops), 255], 4 * at));
  context.putImageData(image, 0, 0);
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const at = Math.min(values.length - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * values.length)));
    canvas.title = `dimension ${at}: ${formatNumber(values[at])}`;
  });
  return canvas;
}
