// @ts-check
// The chosen head of a workbench: its name and labels, what is unusual about it, the text tinted by
// its weights, and the weights as heatmap, as lines or as a table.

import { copyLinkButton } from "./copy_link.js";
import { HeatView } from "./heat_view.js";
import { LEAST_HEADS, loneRows, strongestOf, twinInWords, unusualOf } from "./head_facts.js";
import { headerOf } from "./head_parts.js";
import { LinesModel } from "../token_lines/lines_model.js";
import { SentenceView } from "./sentence_view.js";
import { chooseIn, segments } from "./workbench_parts.js";
import { formatNumber, formatWeight, make, themeOf, tokenElement } from "../shared/shared.js";
import { TokenLines } from "../token_lines/token_lines.js";
import { brushed } from "./viewport.js";
/* global PALETTE */

const HERE = ["heatmap", "lines", "table"]; // pictures that are drawn here; others come from Python
const NUMBERS = 6;
const PAIRS = 40;
const SIDE = 176; // pixels of the numbers beside the picture
const NOTHING_UNUSUAL = "Nothing unusual: in no number is this head among the 5 % of heads at either end.";
const TOO_FEW = `Of fewer than ${LEAST_HEADS} heads none counts as unusual.`;
const TOO_MANY = "The text is too long to show all of its weights like this. Choose a part: drag across its words.";
const LEAST = 260; // pixels that a picture is never lower than

export class HeadView {
  /** @param {import("./bench.js").Bench} bench */
  constructor(bench) {
    this.bench = bench;
    this.root = make("div", "mha head-view");
    this.build();
    this.heat = new HeatView({
      pin: (pair) => bench.choosePair(pair),
      show: (part) => bench.choosePart(part),
      say: (text) => (this.live.textContent = text),
    });
    this.lines = new TokenLines();
    this.sentence = new SentenceView({
      choose: (pair) => bench.choosePair(pair),
      brush: (side, first, last) => bench.choosePart(brushed(bench.part, side, first, last, bench.weights.size)),
      clear: () => bench.clear(),
      toggle: (place) => bench.toggleAmong(place),
      all: (on) => {
        this.mean = on;
        this.draw();
      },
    });
    this.mean = false;
    this.table = make("div", "pairs");
    this.table.tabIndex = 0; // to be scrolled by keys, too
    this.picture.append(this.heat.root, this.lines.root, this.table, this.wait);
    this.side.append(this.heat.overview.root, this.numbers);
    this.middle.append(this.picture, this.side);
    this.root.append(this.top, this.sentence.root, this.middle, this.live);
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(this.root);
  }

  build() {
    this.top = make("div", "top");
    this.middle = make("div", "middle");
    this.picture = make("div", "picture");
    this.side = make("div", "aside");
    this.numbers = make("div", "numbers");
    this.live = make("div", "live");
    this.wait = make("div", "wait");
    /** As the grid's. @type {number | undefined} */
    this.height = undefined;
    this.live.setAttribute("aria-live", "polite");
    this.wait.setAttribute("role", "status");
    this.title = make("h2", "name");
    this.badges = make("div", "labels");
    this.twin = make("button", "button twin");
    this.twin.type = "button";
    this.twin.addEventListener("click", () => this.bench.chooseHead(this.twinOf));
    this.shows = segments("Picture", (show) => this.bench.choose({ show }));
    this.about = make("div", "about");
    this.switch = Object.assign(make("button", "button switch"), { type: "button" });
    this.switch.addEventListener("click", () => this.bench.toggleOff(this.bench.chosen));
    this.copyLink = copyLinkButton();
    this.about.append(this.title, this.badges, this.twin, this.switch, this.copyLink);
    this.top.append(this.about, this.shows);
  }

  // -- drawing --------------------------------------------------------------------------------------

  draw() {
    const { bench } = this;
    const width = this.root.clientWidth;
    if (!bench.payload || width < 40) return;
    const began = performance.now();
    const head = bench.chosen;
    const { view, settings } = bench;
    this.theme = themeOf(this.root);
    this.root.dataset.theme = this.theme;
    this.root.style.setProperty("--accent", PALETTE.accent[this.theme]);
    this.drawAbout(head);
    chooseIn(this.shows, settings.shows ?? { heatmap: "Heatmap", lines: "Token lines", table: "Top pairs" }, view.show);
    this.drawNumbers(head);
    this.drawSentence(head);
    this.drawPicture(head, width);
    this.root.dataset.selected = bench.name(head);
    this.bringIntoView();
    this.root.dataset.exact = String(bench.weights.knows(head, bench.part));
    this.root.dataset.paintMs = (performance.now() - began).toFixed(1);
  }

  /** On a phone the grid fills the screen: a tap on a head shows its picture. */
  bringIntoView() {
    const { touched } = this.bench;
    this.bench.touched = false;
    if (!touched || this.height) return;
    const smooth = matchMedia("(prefers-reduced-motion: no-preference)").matches;
    this.root.scrollIntoView({ block: "start", behavior: smooth ? "smooth" : "auto" });
  }

  drawAbout(head) {
    const { bench } = this;
    this.title.textContent = bench.name(head);
    const labels = bench.labels(head);
    const badges = (labels ?? []).map((title) => make("span", "label", title));
    if (!labels) badges.push(make("span", "none", bench.settings.later ? "labels are on their way …" : ""));
    else if (!labels.length) badges.push(make("span", "none", "no label"));
    this.badges.replaceChildren(...badges);
    const isOff = bench.offHeads.includes(head);
    this.switch.hidden = this.copyLink.hidden = !bench.settings.switches;
    this.switch.textContent = isOff ? "Switch on" : "Switch off";
    this.switch.setAttribute("aria-pressed", String(isOff));
    const twin = bench.twins?.[head];
    this.twin.hidden = !(twin?.[0] >= 0); // -1: no other head has a distance
    if (this.twin.hidden) return;
    this.twinOf = twin[0];
    Object.assign(this.twin, twinInWords(bench.name(twin[0]), twin[1], twin[2]));
  }

  drawNumbers(head) {
    const { header } = this.bench.payload;
    const rows = unusualOf(this.bench.facts, head, NUMBERS).map(({ title, value, place }) => {
      const row = make("div", "number");
      const line = make("div", "value");
      line.append(make("b", "", formatNumber(value)), make("span", "place", place));
      row.append(make("div", "title", title), line);
      return row;
    });
    const count = header.layers * header.heads;
    const none = count < LEAST_HEADS ? TOO_FEW : NOTHING_UNUSUAL;
    const heading = rows.length ? "Most unusual among all heads" : none;
    const measured = count > 1 && Object.keys(this.bench.facts).length > 0;
    this.numbers.replaceChildren(make("div", "heading", measured ? heading : ""), ...rows);
  }

  drawSentence(head) {
    const { bench } = this;
    const { weights } = bench;
    const { header } = weights.shown;
    const row = (query) => {
      if (this.mean) return weights.meanRow(query);
      return weights.row(head, query);
    };
    const { scale } = bench.view;
    const { pair, part, among, weightAmong, pairInWords: weight } = bench;
    this.sentence.draw({ header, pair, part, row, scale, theme: this.theme, mean: this.mean, among, weightAmong, weight });
  }

  drawPicture(head, width) {
    const { bench } = this;
    const { show } = bench.view;
    const here = HERE.includes(show);
    const known = show === "heatmap" || bench.weights.partOf(head, bench.part) !== null;
    const fetching = this.comes(bench.part) ? "Fetching the weights …" : TOO_MANY;
    const confirmed = bench.settings.view?.show === show;
    const coming = here ? (known ? "" : fetching) : confirmed ? "" : "Computing …";
    this.wait.textContent = coming;
    this.wait.hidden = !coming;
    const drawn = known && here ? show : "";
    this.heat.root.hidden = this.heat.overview.root.hidden = drawn !== "heatmap";
    this.lines.root.hidden = drawn !== "lines";
    this.table.hidden = drawn !== "table";
    this.middle.hidden = !coming && !drawn;
    if (!drawn) return;
    const beside = width >= 520;
    this.middle.classList.toggle("narrow", !beside);
    const room = beside ? width - SIDE - 12 : width;
    const height = this.room();
    if (drawn === "heatmap") this.drawHeat(head, room, beside ? height : Math.min(height, width * 1.05));
    else if (drawn === "lines") this.drawLines(head, height);
    else this.drawTable(head, height);
  }

  /** Whether the exact weights of a part come: Python sends those of so many cells. */
  comes(part) {
    const { rows, cols } = part ?? this.bench.weights.size;
    return rows * cols <= (this.bench.settings.cells ?? Infinity);
  }

  /** The height that is left for the picture in the window. */
  room() {
    const end = this.height ?? 640;
    const above = this.middle.offsetTop;
    return Math.max(LEAST, end - above);
  }

  drawHeat(head, width, height) {
    const { bench } = this;
    const { weights } = bench;
    const { header } = weights.shown;
    this.heat.draw({
      header, part: bench.part, picture: (part) => weights.pictureOf(head, part),
      cell: (row, column) => weights.cell(head, row, column), comes: (part) => this.comes(part),
      small: { head, ...weights.small(head) }, scale: bench.view.scale, pair: bench.pair, name: bench.name(head),
    }, width, height);
  }

  drawLines(head, height) {
    const { bench } = this;
    const { weights, part } = bench;
    const header = headerOf(weights.shown.header, part);
    const others = (bench.view.heads ?? []).map(([layer, index]) => layer * header.heads + index);
    const heads = [head, ...others.filter((one) => one !== head && one < weights.count)];
    const size = header.queries * header.keys;
    const values = new Float32Array(heads.length * size);
    const known = heads.map((one) => weights.partOf(one, part));
    for (const one of heads.slice(1)) weights.exact.request(one); // the first one comes by itself
    known.forEach((row, at) => row && values.set(row, at * size));
    const model = new LinesModel({
      ...header, id: `${header.id} ${heads}`, heads: heads.length, names: heads.map((one) => bench.name(one)),
      threshold: Number(bench.view.mass ?? 0.9), exact: heads.every((one) => weights.knows(one, part)),
    }, values);
    // On a phone, where one scrolls the page, they are as high as they are elsewhere.
    this.lines.parts.scroller.style.maxHeight = this.height ? `${Math.max(LEAST, height - 70)}px` : "";
    const { top, left } = part ?? { top: 0, left: 0 };
    const inside = (place, count) => (place >= 0 && place < count ? place : -1);
    const pair = { query: inside(bench.pair.query - top, header.queries), key: inside(bench.pair.key - left, header.keys) };
    this.lines.show(model, pair, (name, value) => {
      if (name === "share") bench.choose({ mass: value });
      else bench.choosePair({ query: value.query < 0 ? -1 : value.query + top, key: value.key < 0 ? -1 : value.key + left });
    });
  }

  /** The largest weights; of one row where a query is chosen. */
  drawTable(head, height) {
    const { bench } = this;
    const { weights, part } = bench;
    const { header } = weights.shown;
    const { top, left } = part ?? { top: 0, left: 0 };
    const columns = part?.cols ?? header.keys;
    const values = weights.partOf(head, part);
    const { query } = bench.pair;
    const exact = weights.knows(head, part);
    const inside = query >= top && query < top + values.length / columns;
    let pairs = strongestOf(values, columns, inside ? values.length : PAIRS)
      .map((pair) => ({ ...pair, query: pair.query + top, key: pair.key + left }));
    if (inside) pairs = pairs.filter((pair) => pair.query === query);
    const table = make("table");
    const among = part ? " among the tokens that are shown" : "";
    const caption = inside
      ? `All weights of “${header.query_labels[query]}”${among}`
      : `The ${pairs.length} largest weights${among}${top > 0 ? "" : this.aside(head)}`;
    table.append(make("caption", "", exact ? caption : `${caption}, approximate until they are fetched`));
    const titles = make("tr");
    titles.append(...["Looks", "at", "Weight"].map((text) => Object.assign(make("th", "", text), { scope: "col" })));
    table.append(titles, ...pairs.map((pair) => this.tableRow(header, pair, exact)));
    this.table.style.maxHeight = `${height}px`;
    this.table.replaceChildren(table);
  }

  /** What is said of a weight that is 1 in every head. */
  aside(head) {
    const { weights } = this.bench;
    const codes = weights.picture(head);
    const lone = codes ? loneRows(codes, weights.shown.header.keys) : 0;
    return lone ? "; the first token sees only itself, so that its weight is 1 in every head" : "";
  }

  tableRow(header, { query, key, weight }, exact) {
    const row = make("tr");
    const token = (side, place) => {
      const cell = make("td");
      cell.append(tokenElement(header[`${side}_labels`][place], header[`${side}_special`][place]), make("sub", "position", String(place)));
      return cell;
    };
    const number = make("td", "weight");
    const bar = make("span", "bar");
    bar.style.width = `${Math.min(1, weight) * 90}px`;
    number.append(bar, make("span", "", exact ? formatWeight(weight) : `≈ ${weight.toFixed(3)}`));
    row.append(token("query", query), token("key", key), number);
    row.addEventListener("click", () => this.bench.choosePair({ query, key }));
    return row;
  }

  close() {
    this.resized.disconnect();
    this.lines.close();
  }
}
