// @ts-check
// State of a workbench: the chosen head, pair of tokens, order and axes. Every choice is made
// here, in the browser, and sent to Python afterwards. Draws nothing.

import { BenchWeights } from "./bench_weights.js";
import { ChoiceOutbox, inAddress } from "./choice_outbox.js";
import { HeadExtras } from "./head_extras.js";
import { AMONG, HeadRanking } from "./head_ranking.js";
import { payloadStore } from "../shared/payload_store.js";
import { formatCode, formatWeight, headName } from "../shared/shared.js";
import { positionsOf, spansOf, toggled } from "./token_set.js";
import { positionOf, tokenAt } from "./token_axes.js";
import { isAll, placesBetween } from "./viewport.js";

const SEND_DELAY_MS = 150; // ms without a further choice until all are sent to Python
const WEIGHTS_DELAY_MS = 50; // likewise until exact weights of what is shown are requested
const WEIGHT_CHOICES = ["layer", "head", "query", "key", "window", "show", "weighted"]; // choices that say which these are
const MAX_COMPARED_HEADS = 8; // heads drawn beside the chosen one
const DEFAULT_VIEW = { layer: 0, head: 0, show: "heatmap", weighted: false, general: false, scale: "sqrt", tiles: "", sort: "", only: "", query: -1, key: -1, window: [], tokens: [], off: [] };

/** The workbench of that name: the same one for every element that shows a part of it. */
export function benchOf(name) {
  const symbol = Symbol.for("mha_viz.benches");
  globalThis[symbol] ??= new Map();
  const benches = globalThis[symbol];
  if (!benches.has(name)) benches.set(name, new Bench());
  return benches.get(name);
}

export class Bench {
  constructor() {
    /** Fields and values as the page's View has them. @type {any} */
    this.view = { ...DEFAULT_VIEW };
    this.ranking = new HeadRanking(this);
    this.payload = null;
    this.payloadId = ""; // its name in Python's messages
    /** Labels, which come after the weights. @type {any} */
    this.notes = null;
    /** Metrics and their titles, which come after the weights of a long text. @type {any} */
    this.measured = null;
    /** The head nearest to each, which comes last. @type {[number, number, boolean | null][] | null} */
    this.twins = null;
    /** Predictions with and without the heads that are off, the last that Python sent. @type {any} */
    this.prediction = null;
    this.settings = {}; // from Python, the last ones
    this.listeners = new Set();
    /** Elements that show a part of it, by name. @type {Record<string, HTMLElement>} */
    this.panels = {};
    this.outbox = new ChoiceOutbox();
    this.touring = -1; // step of the tour
    this.touched = false; // whether a person chose the head, which may be out of view
  }

  // -- Python's side --------------------------------------------------------------------------------

  /**
   * Take the settings from Python. Those made before the last choice are out of date.
   * @param {any} settings
   * @param {(message: any) => void} [send]
   */
  receive(settings, send) {
    this.settings = settings;
    if (send) this.outbox.send = send;
    if (this.outbox.confirm(settings)) this.view = { ...this.view, ...settings.view };
  }

  /**
   * Takes the weights of all heads.
   * @param {{ header: any, body: Uint8Array }} payload
   */
  adopt(payload) {
    const { header, body } = payload;
    const size = header.layers * header.heads * header.rows * header.cols;
    if (header.kind !== "grid" || body.length !== size) throw new Error("its data is cut short.");
    const before = this.payload?.header;
    if (before === header) return;
    if (before && !isExtension(before, header)) this.forgetTokens();
    this.payload = payload;
    this.weights = new BenchWeights(payload, () => this.wish, () => this.notify());
    this.extras = new HeadExtras(this.weights, () => this.notify());
  }

  /** Drop tokens that were chosen in another text and not sent yet. */
  forgetTokens() {
    for (const name of ["query", "key", "window", "tokens"]) {
      this.outbox.drop(name);
      this.view[name] = this.settings.view?.[name] ?? DEFAULT_VIEW[name];
    }
  }

  // -- choices --------------------------------------------------------------------------------------

  /**
   * Make choices, by the names of the page's View: drawn at once, sent to Python when none follows.
   * @param {Record<string, any>} values
   */
  choose(values) {
    const news = Object.entries(values).filter(([name, value]) => String(this.view[name]) !== String(value));
    if (!news.length) return;
    Object.assign(this.view, Object.fromEntries(news));
    this.outbox.add(Object.fromEntries(news));
    this.notify();
    clearTimeout(this.pause);
    const pause = "off" in values ? 0 : SEND_DELAY_MS; // a person waits for what follows a switch
    this.pause = setTimeout(() => this.outbox.flush(), pause);
    clearTimeout(this.pauseUnseen);
    if (!this.isUnseen && !this.extras.lacks(this)) return;
    const rested = "window" in values; // a picture that is moved has paused before it chooses
    this.pauseUnseen = setTimeout(() => this.requestExact(), rested ? 0 : WEIGHTS_DELAY_MS);
  }

  /** Tell whether the picture of the chosen head is of larger cells until Python sends exact ones. */
  get isUnseen() {
    return Boolean(this.weights?.pooled) && !this.weights.knows(this.chosen, this.part);
  }

  /** Request the exact weights of what is shown; the outbox sends all other choices. */
  requestExact() {
    const values = Object.fromEntries(WEIGHT_CHOICES.map((name) => [name, this.view[name]]));
    payloadStore().request?.(inAddress(values));
  }

  notify() {
    for (const listener of this.listeners) listener();
  }

  // -- heads ----------------------------------------------------------------------------------------

  /** Number of the chosen head: layer * heads + head. */
  get chosen() {
    const { layers, heads } = this.payload.header;
    const { layer, head } = this.view;
    return Math.min(layer, layers - 1) * heads + Math.min(head, heads - 1);
  }

  /** @type {(head: number) => void} */
  chooseHead(head) {
    const { heads } = this.payload.header;
    this.touched = true;
    this.choose({ layer: Math.floor(head / heads), head: head % heads });
  }

  /**
   * Shows the heads with a label, or all for ""; the chosen head is one of those that are shown.
   * @param {string} only
   */
  chooseKind(only) {
    const { heads } = this.payload.header;
    const fitting = this.ranking.withLabel(only);
    const isShown = !fitting.length || fitting.includes(this.chosen);
    this.choose(isShown ? { only } : { only, layer: Math.floor(fitting[0] / heads), head: fitting[0] % heads });
  }

  /**
   * Draws another head's lines beside the chosen one's, or takes them away again.
   * @param {number} head
   */
  drawBeside(head) {
    const { heads } = this.payload.header;
    const layerAndHead = [Math.floor(head / heads), head % heads];
    const before = (this.view.heads ?? []).filter((other) => String(other) !== String(layerAndHead));
    const isListed = before.length < (this.view.heads ?? []).length;
    this.choose({ show: "lines", heads: isListed || head === this.chosen ? before : [...before, layerAndHead].slice(-MAX_COMPARED_HEADS) });
  }

  /** Numbers of the heads that are switched off. @returns {number[]} */
  get offHeads() {
    const { heads } = this.payload.header;
    return (this.view.off ?? []).map(([layer, head]) => layer * heads + head);
  }

  /**
   * Words on the tile and the buttons of a head that is off: another intervention than zero does
   * not switch a head off.
   */
  get switchWords() {
    if (this.settings.intervenes) return { mark: "changed", off: "Change", on: "Undo change", allOn: "Undo all changes" };
    return { mark: "off", off: "Switch off", on: "Switch on", allOn: "Switch all on" };
  }

  /** Switches heads off besides those that are off. @param {number[]} heads their numbers */
  switchOff(heads) {
    this.setOff([...this.offHeads, ...heads]);
  }

  /** Switches a head off, or on where it is off. @param {number} head */
  toggleOff(head) {
    const off = this.offHeads;
    this.setOff(off.includes(head) ? off.filter((other) => other !== head) : [...off, head]);
  }

  /** @param {number[]} numbers */
  setOff(numbers) {
    const { heads } = this.payload.header;
    const sorted = [...new Set(numbers)].sort((a, b) => a - b);
    this.choose({ off: sorted.map((head) => [Math.floor(head / heads), head % heads]) });
  }

  /** @type {(head: number) => string} */
  name(head) {
    return headName(this.payload.header, head);
  }

  /** Metrics of all heads: title -> a value for each. @type {Record<string, (number | null)[]>} */
  get facts() {
    return this.measured?.facts ?? this.payload.header.facts;
  }

  /** Titles of the labels that a head has earned; null while they are not known. */
  labels(head) {
    return this.notes?.labels[head] ?? null;
  }

  // -- tokens ---------------------------------------------------------------------------------------

  /**
   * Options of the axes; none where Python has already reduced them.
   * @returns {import("./token_axes.js").Wish}
   */
  get wish() {
    if (this.settings.made) return {};
    const { words, no_special, no_first, between } = this.view;
    const { query_segments, key_segments } = this.payload.header;
    const two = query_segments.includes(1) && key_segments.includes(1);
    return {
      words: Boolean(words), no_special: Boolean(no_special), no_first: Boolean(no_first),
      between: two && between ? between : "",
    };
  }

  /** The chosen query and key as positions on the axes that are shown; -1 for none. */
  get pair() {
    const { queries, keys } = this.weights.axes;
    const { query, key } = this.view;
    return {
      query: query < 0 ? -1 : positionOf(queries, query),
      key: key < 0 ? -1 : positionOf(keys, key),
    };
  }

  /**
   * Choose positions on the axes that are shown; -1 clears the choice.
   * @param {{ query?: number, key?: number }} pair
   */
  choosePair({ query, key }) {
    const { queries, keys } = this.weights.axes;
    const values = {};
    if (query !== undefined) values.query = query < 0 ? -1 : tokenAt(queries, query);
    if (key !== undefined) values.key = key < 0 ? -1 : tokenAt(keys, key);
    this.choose(values);
  }

  /** Places of the tokens that are chosen together. */
  get among() {
    return positionsOf(this.view.tokens ?? [], this.weights.axes.keys);
  }

  /** Add the token at a position to those that are chosen together, or remove it. @type {(position: number) => void} */
  toggleAmong(position) {
    const { keys } = this.weights.axes;
    const chosen = this.view.tokens?.length ? this.view.tokens : spansOf(keys, this.pair, position);
    const tokens = toggled(chosen, keys, position);
    this.choose({ tokens, sort: tokens.length ? AMONG : "", query: -1, key: -1 });
  }

  /** Clear the selection of tokens. */
  clear() {
    const { sort } = this.view;
    this.choose({ query: -1, key: -1, window: [], tokens: [], sort: sort === AMONG ? "" : sort });
  }

  /** Mean attention among them in the chosen head; null until its weights have come. */
  get weightAmong() {
    return this.view.sort === AMONG ? this.ranking.fact?.values[this.chosen] ?? null : null;
  }

  /** The weight of the chosen pair in the chosen head, in words. */
  get pairInWords() {
    const { query, key } = this.pair;
    if (query < 0 || key < 0) return "";
    const { weight, code, exact } = this.weights.cell(this.chosen, query, key);
    return exact ? formatWeight(weight) : formatCode(code);
  }

  /**
   * The part of the axes that is shown, in positions; null for all of it.
   * @returns {import("./viewport.js").Viewport | null}
   */
  get part() {
    const { queries, keys } = this.weights.axes;
    const { window: tokens } = this.view;
    const down = tokens?.length && placesBetween(queries.groups, tokens[0]);
    const across = tokens?.length && placesBetween(keys.groups, tokens[1]);
    if (!down || !across) return null;
    const part = { top: down[0], left: across[0], rows: down[1], cols: across[1] };
    return isAll(part, this.weights.size) ? null : part;
  }

  /** Show a part of the axes; null shows all. @type {(part: import("./viewport.js").Viewport | null) => void} */
  choosePart(part) {
    const { queries, keys } = this.weights.axes;
    const ends = ({ groups }, first, count) => [groups[first][0], groups[first + count - 1].at(-1)];
    const all = !part || isAll(part, this.weights.size);
    this.choose({ window: all ? [] : [ends(queries, part.top, part.rows), ends(keys, part.left, part.cols)] });
  }
}

/** Tell whether a text begins with all tokens of the one before it, as one that is being written does. */
const isExtension = (before, now) =>
  ["query_labels", "key_labels"].every((side) => before[side].every((label, i) => label === now[side][i]));
