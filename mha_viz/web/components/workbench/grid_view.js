// @ts-check
// The left side of a workbench: tiles of all heads, or, while one token is chosen, where each head
// looks from there; and the menu that decides which heads are drawn and how.

import { loneRows, strongestOf } from "./head_facts.js";
import { HeadGrid } from "../head_grid/head_grid.js";
import { LabelSummary } from "./label_summary.js";
import { metricTiles } from "./metric_tiles.js";
import { Selection } from "./selection.js";
import { TokenRows } from "./token_rows.js";
import { ViewMenu } from "./view_menu.js";
import { formatShort, formatWeight, make, themeOf } from "../shared/shared.js";
/* global PALETTE */

const MIN_TILES_HEIGHT = 200; // pixels of the tiles
const TILES_MARGIN = 40; // pixels below them

export class GridView {
  /**
   * @param {import("./bench.js").Bench} bench
   * @param {boolean} hasTour
   */
  constructor(bench, hasTour) {
    this.bench = bench;
    this.root = make("div", "mha grid-view");
    this.menu = new ViewMenu(bench, hasTour);
    this.bar = make("div", "bar");
    this.below = make("div", "below");
    this.grid = new HeadGrid(this.below);
    this.bar.append(this.menu.root, this.grid.parts.legend);
    this.tokens = new TokenRows((head) => bench.chooseHead(head), () => bench.clear());
    this.empty = make("div", "message");
    this.empty.setAttribute("role", "status");
    this.note = make("div", "note");
    this.summary = new LabelSummary(bench);
    this.selection = new Selection(bench);
    this.root.append(this.bar, this.empty, this.below, this.tokens.root, this.note, this.selection.root, this.summary.root);
    /** Of the window, below this element's upper edge; undefined where there is no such limit. @type {number | undefined} */
    this.height = undefined;
  }

  draw() {
    const { bench } = this;
    if (!bench.payload) return;
    this.root.style.setProperty("--accent", PALETTE.accent[themeOf(this.root)]);
    this.menu.draw();
    const width = this.root.clientWidth;
    this.bar.dataset.room = width < 400 ? "scale" : width < 480 ? "title" : "all"; // for the legend's words
    const { view, ranking } = bench;
    const { fact, order } = ranking;
    const none = order?.length === 0 && Boolean(fact || bench.notes);
    const waiting = Boolean(view.only) && !bench.notes;
    this.empty.hidden = !(none || waiting);
    this.empty.textContent = waiting ? "Looking for heads of that kind …" : ranking.whyNone;
    const { query, key } = bench.pair;
    const ofToken = query >= 0 && key < 0 && !none && !waiting;
    this.below.hidden = none || waiting || ofToken;
    this.tokens.root.hidden = !ofToken;
    this.grid.parts.legend.hidden = ofToken && Boolean(view.tiles); // it is of the tiles
    if (ofToken) this.drawTokens(query);
    else if (!this.below.hidden) this.drawTiles(fact, order);
    const { height = Infinity } = this;
    const drawn = ofToken ? this.tokens.root : this.below;
    this.selection.draw();
    this.summary.draw(height - drawn.offsetTop - drawn.offsetHeight);
    this.drawNote(fact);
  }

  drawTiles(fact, order) {
    const { bench } = this;
    const { view, weights } = bench;
    const { heads, facts } = { heads: bench.payload.header.heads, facts: bench.facts };
    const layerAndHead = (head) => [Math.floor(head / heads), head % heads];
    const metric = bench.ranking.titles[view.tiles] ?? "";
    const tiles = facts[metric] ? metricTiles(weights.shown, metric, facts[metric]) : null;
    const shown = tiles ?? weights.shown;
    this.grid.show(shown, {
      payload: shown.header.id, selected: layerAndHead(bench.chosen), heard: this.grid.sent,
      scale: tiles ? "linear" : view.scale, order: order?.map(layerAndHead), legend: tiles?.legend,
      fact: tiles ? metric : fact?.title ?? null, values: tiles ? facts[metric] : fact?.values,
      height: this.room(), pair: tiles ? undefined : bench.pair,
      badges: tiles ? tiles.badges : bench.notes?.badges, off: bench.offHeads, offMark: bench.switchWords.mark,
      several: (head) => bench.drawBeside(head), describe: (head) => this.describe(head),
      exact: { of: (head) => (weights.isExact(head) ? weights.of(head) : null), request: (head) => weights.exact.request(head) },
    }, ({ layer, head }) => bench.chooseHead(layer * heads + head));
  }

  drawTokens(query) {
    const { bench } = this;
    const { weights, view } = bench;
    const heads = bench.ranking.order ?? [...Array(weights.count).keys()];
    const rows = heads.map((head) => ({
      head, name: bench.name(head), label: bench.notes?.badges[head] ?? "", weights: weights.row(head, query),
    }));
    this.tokens.draw({
      header: weights.shown.header, query, rows, chosen: bench.chosen, scale: view.scale,
      theme: themeOf(this.root), height: this.room(), isExact: (head) => weights.isExact(head),
    });
  }

  /** The height that is left for the tiles in the window. */
  room() {
    const top = this.below.hidden ? this.tokens.root.offsetTop : this.below.offsetTop;
    return this.height ? Math.max(MIN_TILES_HEIGHT, this.height - top - TILES_MARGIN) : undefined;
  }

  /** Of heads sorted by a pair, its weight in even attention. */
  drawNote(fact) {
    const isPair = Boolean(fact) && this.bench.view.sort === "pair";
    this.note.hidden = !isPair;
    if (isPair) this.note.textContent = `Weight of the chosen pair in each head; with even weights it would be ${this.uniform()}.`;
  }

  /** The weight of one key among all that the chosen query can see in the chosen head. */
  uniform() {
    const { bench } = this;
    const { header } = bench.weights.shown;
    const codes = bench.weights.picture(bench.chosen);
    const { query } = bench.pair;
    if (!codes || query < 0) return "not known yet";
    const row = codes.subarray(query * header.keys, (query + 1) * header.keys);
    return formatWeight(1 / row.filter((code) => code > 0).length);
  }

  /** Label and strongest pair of a head, for those who hear the grid. */
  describe(head) {
    const { bench } = this;
    const { header } = bench.weights.shown;
    const labels = bench.labels(head);
    const weights = bench.weights.of(head);
    const lone = weights ? loneRows(bench.weights.picture(head), header.keys) : 0;
    const [best] = weights ? strongestOf(weights, header.keys, 1, lone) : [];
    const label = labels?.length ? `; ${labels.join(", ")}` : "";
    if (!best) return label;
    const { query, key, weight } = best;
    return `${label}; strongest from ${header.query_labels[query]} to ${header.key_labels[key]}, ${formatShort(weight)}`;
  }

  close() {
    this.menu.close();
    this.grid.close();
  }
}
