// @ts-check
// What a workbench shows: the weights of all heads, the chosen head, pair of tokens, order and
// axes. Every choice is made here, in the browser; Python hears of it afterwards. Draws nothing.

import { codeOf, codesOnAxes, isChanged, onAxes, placeOf, tokenAt, tokenAxis } from "./token_axes.js";
import { ExactWeights } from "./grid_values.js";

const PAUSE = 150; // ms without a further choice until Python hears of them
const MOST = 8; // heads drawn beside the chosen one
const UNSEEN = { layer: 0, head: 0, show: "heatmap", scale: "sqrt", sort: "", only: "", query: -1, key: -1 };

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
    this.view = { ...UNSEEN };
    this.payload = null;
    this.payloadId = ""; // under which Python knows it
    /** Labels and twins, which come after the weights. @type {any} */
    this.known = null;
    this.said = {}; // what Python said last
    this.listeners = new Set();
    this.changed = {}; // what Python was not told yet
    this.told = {}; // what it was told and has not answered
    this.sent = null; // name of the last message to Python
    this.ask = null; // sends one
    this.touched = false; // a head was chosen by hand, and is not in view perhaps
    this.asker = null; // the part of the page that does
  }

  /** A page that was left has heard nothing of what was chosen last. */
  begin() {
    this.sent = this.asker = null;
    this.changed = {};
    this.told = {};
  }

  // -- Python's side --------------------------------------------------------------------------------

  /**
   * Takes what Python says. What it said before it heard the last choice is out of date.
   * @param {any} said
   * @param {(message: any) => void} [ask]
   */
  hear(said, ask) {
    this.said = said;
    // Always the same part asks: of two that do, nobody knows whose message is read last.
    this.asker ??= said.part;
    if (ask && this.asker === said.part) this.ask = ask;
    const heard = this.sent === null || said.heard === this.sent;
    if (heard) this.told = {};
    if (heard && !Object.keys(this.changed).length && said.view) {
      this.view = { ...this.view, ...said.view };
      this.sent = null;
    }
  }

  /**
   * Takes the weights of all heads.
   * @param {{ header: any, body: Uint8Array }} payload
   */
  adopt(payload) {
    const { header, body } = payload;
    const size = header.layers * header.heads * header.rows * header.cols;
    if (header.kind !== "grid" || body.length !== size) throw new Error("its data is cut short.");
    if (this.payload?.header === header) return;
    this.payload = payload;
    this.exact = new ExactWeights(header, () => {
      this.made.clear();
      this.paired = null;
      this.tell();
    });
    this.decoded = new Map(); // head -> weights by their codes
    this.made = new Map(); // head -> weights on the axes that are shown
    this.derived = this.paired = null;
  }

  // -- choices --------------------------------------------------------------------------------------

  /**
   * Choices, by the names of the page's View. Drawn at once; Python hears of them when none follows.
   * @param {Record<string, any>} values
   */
  choose(values) {
    const news = Object.entries(values).filter(([name, value]) => String(this.view[name]) !== String(value));
    if (!news.length) return;
    Object.assign(this.view, Object.fromEntries(news));
    Object.assign(this.changed, Object.fromEntries(news));
    this.tell();
    clearTimeout(this.pause);
    this.pause = setTimeout(() => this.report(), PAUSE);
  }

  report() {
    if (!Object.keys(this.changed).length || !this.ask) return;
    this.sent = Math.random().toString(36).slice(2);
    // While it is busy, a message pushes out the one before that waits: so it says that, too.
    this.told = { ...this.told, ...this.changed };
    const words = Object.entries(this.told).map(([name, value]) => [name, inWords(value)]);
    this.changed = {};
    this.ask({ id: this.sent, view: Object.fromEntries(words) });
  }

  tell() {
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
   * Draws another head's lines beside the chosen one's, or takes them away again.
   * @param {number} head
   */
  drawBeside(head) {
    const { heads } = this.payload.header;
    const place = [Math.floor(head / heads), head % heads];
    const before = (this.view.heads ?? []).filter((one) => String(one) !== String(place));
    const there = before.length < (this.view.heads ?? []).length;
    this.choose({ show: "lines", heads: there || head === this.chosen ? before : [...before, place].slice(-MOST) });
  }

  /** @type {(head: number) => string} */
  name(head) {
    const { heads } = this.payload.header;
    return `L${Math.floor(head / heads)} H${head % heads}`;
  }

  get count() {
    const { layers, heads } = this.payload.header;
    return layers * heads;
  }

  /** Titles of the labels that a head has earned; null while they are not known. */
  labels(head) {
    return this.known?.labels[head] ?? null;
  }

  /** The quantity that heads are sorted by: its title and a value for each head; null for none. */
  get fact() {
    const { header } = this.payload;
    const { sort, query, key } = this.view;
    if (!sort) return null;
    if (sort === "pair") {
      if (query < 0 || key < 0) return null;
      this.exact.requestAll();
      return { title: "Weight of the pair", values: this.ofPair(query, key) };
    }
    const title = this.said.titles?.[sort];
    if (title && header.facts[title]) return { title, values: header.facts[title] };
    const told = this.said.view?.sort === sort && this.said.fact;
    return told ? { title: told.title, values: told.values } : null;
  }

  /** Numbers of the heads to be drawn in the order of a ranking; null for all, by layer. */
  get order() {
    const { only, sort } = this.view;
    if (!only && !sort) return null;
    let heads = [...Array(this.count).keys()];
    if (only) heads = heads.filter((head) => this.known?.kinds[head]?.includes(only));
    const { fact } = this;
    if (fact) {
      const least = sort === "pair" ? 0 : Number(this.view.least ?? 0);
      const value = (head) => fact.values[head] ?? -Infinity;
      heads = heads.filter((head) => !(least > 0) || value(head) >= least);
      heads.sort((a, b) => value(b) - value(a) || a - b);
    }
    return only || fact ? heads : null;
  }

  // -- weights --------------------------------------------------------------------------------------

  /** The axes as they are wished, both of them. */
  get axes() {
    const asked = this.pooled || this.said.made ? {} : this.wish;
    const key = JSON.stringify([this.payload.header.id, asked]);
    if (this.wished?.key !== key) {
      const { header } = this.payload;
      const of = (wish) => [tokenAxis(header, "query", wish), tokenAxis(header, "key", wish)];
      // Where nothing would be left, all of it stays, and Python says why.
      const wish = of(asked).every(({ groups }) => groups.length) ? asked : {};
      const [queries, keys] = of(wish);
      this.wished = { key, wish, queries, keys };
      this.derived = this.paired = null;
      this.made.clear();
    }
    return this.wished;
  }

  /** What is asked of the axes. @returns {import("./token_axes.js").Wish} */
  get wish() {
    const { words, no_special, no_first, between } = this.view;
    const { query_segments, key_segments } = this.payload.header;
    const two = query_segments.includes(1) && key_segments.includes(1);
    return {
      words: Boolean(words), no_special: Boolean(no_special), no_first: Boolean(no_first),
      between: two && between ? between : "",
    };
  }

  /** A cell of the payload stands for several weights. */
  get pooled() {
    return this.payload.header.pool > 1;
  }

  /** Whether a head's weights are exact, and not read off their codes. */
  isExact(head) {
    return this.exact.of(head) !== null;
  }

  /**
   * A head's weights on the axes that are shown, row by row; null while a pooled head's are fetched.
   * @param {number} head
   * @returns {Float32Array | null}
   */
  weights(head) {
    const { header } = this.payload;
    const all = this.exact.of(head) ?? (this.pooled ? null : this.decode(head));
    const { wish, queries, keys } = this.axes;
    if (!all || !isChanged(wish)) return all;
    if (!this.made.has(head)) this.made.set(head, onAxes(all, header.keys, queries, keys));
    return this.made.get(head);
  }

  decode(head) {
    if (!this.decoded.has(head)) {
      const codes = this.codesOf(head);
      this.decoded.set(head, Float32Array.from(codes, (code) => (code > 1 ? (code / 255) ** 2 : 0)));
    }
    return this.decoded.get(head);
  }

  /** A head's codes as the payload has them. @type {(head: number) => Uint8Array} */
  codesOf(head) {
    const { header, body } = this.payload;
    const size = header.rows * header.cols;
    return body.subarray(head * size, (head + 1) * size);
  }

  /** What the grid paints: the payload itself, or all its heads on other axes. */
  get shown() {
    const { wish, queries, keys, key } = this.axes;
    if (!isChanged(wish)) return this.payload;
    if (this.derived) return this.derived;
    const { header } = this.payload;
    const [rows, cols] = [queries.groups.length, keys.groups.length];
    const body = new Uint8Array(this.count * rows * cols);
    for (let head = 0; head < this.count; head++) {
      const codes = this.codesOf(head);
      const weights = onAxes(this.decode(head), header.keys, queries, keys);
      const out = body.subarray(head * rows * cols, (head + 1) * rows * cols);
      codesOnAxes(codes, header.keys, queries, keys, weights, out);
    }
    const labels = {
      query_labels: queries.labels, query_special: queries.special, query_segments: queries.segments,
      key_labels: keys.labels, key_special: keys.special, key_segments: keys.segments,
    };
    const sizes = { rows, cols, queries: rows, keys: cols, id: key, exact_url: null };
    this.derived = { header: { ...header, ...labels, ...sizes }, body };
    return this.derived;
  }

  /**
   * A head's codes at full size, for its picture: of exact weights where a cell of the payload
   * stands for several; null while these are fetched.
   */
  picture(head) {
    const { header, body } = this.shown;
    const size = header.rows * header.cols;
    if (!this.pooled) return body.subarray(head * size, (head + 1) * size);
    const weights = this.exact.of(head);
    if (!weights) return null;
    const { pool, cols, keys } = header;
    const coarse = this.codesOf(head);
    return Uint8Array.from(weights, (weight, at) => {
      const [row, column] = [Math.floor(at / keys), at % keys];
      const masked = weight === 0 && coarse[Math.floor(row / pool) * cols + Math.floor(column / pool)] === 0;
      return masked ? 0 : codeOf(weight);
    });
  }

  // -- tokens ---------------------------------------------------------------------------------------

  /** The chosen query and key as places on the axes that are shown; -1 for none. */
  get pair() {
    const { queries, keys } = this.axes;
    const { query, key } = this.view;
    return {
      query: query < 0 ? -1 : placeOf(queries, query),
      key: key < 0 ? -1 : placeOf(keys, key),
    };
  }

  /**
   * Chooses places on the axes that are shown; -1 lets go.
   * @param {{ query?: number, key?: number }} pair
   */
  choosePair({ query, key }) {
    const { queries, keys } = this.axes;
    const values = {};
    if (query !== undefined) values.query = query < 0 ? -1 : tokenAt(queries, query);
    if (key !== undefined) values.key = key < 0 ? -1 : tokenAt(keys, key);
    this.choose(values);
  }

  /** The weight from one token to another in every head; null where it is not known yet. */
  ofPair(query, key) {
    const { header } = this.payload;
    const { queries, keys, key: axes } = this.axes;
    const name = `${axes} ${query} ${key}`;
    if (this.paired?.name === name) return this.paired.values;
    const [row, column] = [placeOf(queries, query), placeOf(keys, key)];
    if (row < 0 || column < 0) return Array(this.count).fill(null);
    const values = Array.from({ length: this.count }, (_, head) => {
      const weights = this.weights(head);
      if (weights) return weights[row * keys.groups.length + column];
      const place = Math.floor(row / header.pool) * header.cols + Math.floor(column / header.pool);
      return (this.codesOf(head)[place] / 255) ** 2;
    });
    this.paired = { name, values };
    return values;
  }

  /** The mean over all heads of the weights in a row of what is shown. @type {(row: number) => Float32Array} */
  meanRow(row) {
    const { header, body } = this.shown;
    const { rows, cols } = header;
    const mean = new Float32Array(cols);
    for (let head = 0; head < this.count; head++) {
      const start = (head * rows + Math.floor(row / header.pool)) * cols;
      for (let x = 0; x < cols; x++) mean[x] += (body[start + x] / 255) ** 2 / this.count;
    }
    return mean;
  }
}

/** A value as an address says it: Python reads both with the same functions. */
function inWords(value) {
  if (typeof value === "boolean") return value ? "1" : "0";
  if (Array.isArray(value)) return value.map((head) => head.join(".")).join(",");
  return String(value);
}
