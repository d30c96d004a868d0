// @ts-check
// The chosen head of a workbench: its name and labels, the text tinted by its weights, and the head as
// heatmap, as lines, as a table or in numbers.

import { copyLinkButton } from "./copy_link.js";
import { HeatView } from "./heat_view.js";
import { twinInWords } from "./head_facts.js";
import { headerOf } from "./head_parts.js";
import { heatHeight } from "./heat_layout.js";
import { LinesModel } from "../token_lines/lines_model.js";
import { NumbersView } from "./numbers_view.js";
import { PairsView } from "./pairs_view.js";
import { sumParts } from "./score_view.js";
import { SentenceView } from "./sentence_view.js";
import { chooseIn, segments } from "./workbench_parts.js";
import { make, makeButton, themeOf } from "../shared/shared.js";
import { TokenLines } from "../token_lines/token_lines.js";
import { brushed } from "./viewport.js";
/* global PALETTE */

const PICTURES = { heatmap: "Heatmap", lines: "Lines", table: "Table", numbers: "Numbers" };
const CELLS = { weight: "Weight", shares: "Weight × value" }; // what the heatmap shows
const SHARES_TITLE = "Each weight times the length of the vector that it carries, ‖v W_O‖, as a share of its row. Where the weight is large and this is small, the head looks and takes little (Kobayashi et al. 2020).";
const FETCHING = "Fetching the weights …";
const NO_VALUES = "This family does not show its values, only its attention weights.";
const HEAT_BAR_HEIGHT = 34; // pixels of the line above the heatmap
const NARROW_HEAD_WIDTH = 520; // pixels of a head below which its overview stands above the heatmap
const TOO_MANY = "The text is too long to show all of its weights like this. Choose a part: drag across its words.";
const READABLE_ROWS = 64; // of a heatmap that has cells of at least READABLE_CELL pixels
const [READABLE_CELL, AXIS_LABELS] = [9, 90]; // pixels of a cell, and of the names of tokens above
const MIN_PICTURE_HEIGHT = 260; // pixels that a picture is never lower than

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
      toggle: (position) => bench.toggleAmong(position),
      all: (on) => {
        this.mean = on;
        this.draw();
      },
    });
    this.mean = false;
    this.pairs = new PairsView(bench);
    this.numbers = new NumbersView(bench);
    this.bar.append(this.cells, this.how, this.sum, this.heat.overview.root);
    this.middle.append(this.bar, this.heat.root, this.lines.root, this.pairs.root, this.numbers.root, this.wait);
    this.sentence.under.append(this.twin);
    this.root.append(this.top, this.sentence.root, this.middle, this.live);
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(this.root);
  }

  build() {
    this.top = make("div", "top");
    this.middle = make("div", "middle");
    this.bar = make("div", "heat-bar");
    this.cells = segments("Cells show", (kind) => this.bench.choose({ weighted: kind === "shares" }));
    this.cells.title = SHARES_TITLE;
    this.how = makeButton("button how", "How this score arises", () => this.bench.panels.score?.scrollIntoView({ block: "nearest" }));
    this.sum = make("span", "sum");
    this.live = make("div", "live");
    this.wait = make("div", "wait");
    /** As the grid's. @type {number | undefined} */
    this.height = undefined;
    this.live.setAttribute("aria-live", "polite");
    this.wait.setAttribute("role", "status");
    this.title = make("h2", "name");
    this.badges = make("div", "labels");
    this.twin = makeButton("button twin", "", () => this.bench.chooseHead(this.twinOf));
    this.shows = segments("Picture", (show) => this.bench.choose({ show }));
    this.about = make("div", "about");
    this.switch = makeButton("button switch", "", () => this.bench.toggleOff(this.bench.chosen));
    this.compare = make("button", "button compare", "+ Compare");
    this.compare.title = "Put this head on the board, beside others";
    this.compare.addEventListener("click", () => {
      const { layer, head } = this.bench.view;
      this.bench.outbox.send?.({ leave: "compare", view: { layer: String(layer), head: String(head) } });
    });
    this.copyLink = copyLinkButton();
    this.about.append(this.title, this.compare, this.switch, this.copyLink, this.badges);
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
    chooseIn(this.shows, settings.shows ?? PICTURES, view.show);
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
    this.badges.title = (labels ?? []).join(", "); // where there is no room for all
    const isOff = bench.offHeads.includes(head);
    this.compare.hidden = this.switch.hidden = this.copyLink.hidden = !bench.settings.switches;
    this.switch.textContent = bench.switchWords[isOff ? "on" : "off"];
    this.switch.setAttribute("aria-pressed", String(isOff));
    const twin = bench.twins?.[head];
    this.twin.hidden = bench.view.show !== "numbers" || !(twin?.[0] >= 0); // -1: no other head has a distance
    if (this.twin.hidden) return;
    this.twinOf = twin[0];
    Object.assign(this.twin, twinInWords(bench.name(twin[0]), twin[1], twin[2]));
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
    this.middle.classList.toggle("narrow", width < NARROW_HEAD_WIDTH);
    this.drawBar();
    const room = this.heatRoom(width);
    const height = this.pictureHeight(width, room);
    this.middle.style.minHeight = `${height}px`; // what stands below stays there
    const coming = this.coming(head, show);
    // The head before stays, pale, until the shares of this one are here: nothing flickers.
    const isStale = show === "heatmap" && coming === FETCHING && this.heat.scene?.header.id === bench.weights.shown.header.id;
    this.wait.textContent = coming;
    this.wait.hidden = !coming || isStale;
    const drawn = coming ? "" : show;
    this.bar.hidden = show !== "heatmap";
    this.heat.root.hidden = drawn !== "heatmap" && !isStale;
    this.heat.root.classList.toggle("stale", isStale);
    this.lines.root.hidden = drawn !== "lines";
    this.pairs.root.hidden = drawn !== "table";
    this.numbers.root.hidden = drawn !== "numbers";
    if (!drawn) return;
    for (const { root } of [this.lines, this.pairs, this.numbers]) root.style.maxHeight = `${height}px`;
    if (drawn === "heatmap") this.drawHeat(head, width, room);
    else if (drawn === "lines") this.drawLines(head);
    else if (drawn === "table") this.pairs.draw(head);
    else this.numbers.draw(head);
  }

  /** Why nothing of the head can be drawn yet; "" where it can. */
  coming(head, show) {
    const { bench } = this;
    if (show === "numbers") return "";
    const { settings, view } = bench;
    const isWeighted = show === "heatmap" && view.weighted;
    if (isWeighted && !settings.values) return NO_VALUES;
    if (isWeighted) {
      if (bench.extras.shares.knows(head, bench.part)) return "";
      return this.comes(bench.part) ? FETCHING : TOO_MANY;
    }
    if (show === "heatmap" || bench.weights.partOf(head, bench.part) !== null) return "";
    return this.comes(bench.part) ? FETCHING : TOO_MANY;
  }

  /** Draw the line above the heatmap: weights or shares, the way to the score, and the zoom. */
  drawBar() {
    const { settings, view } = this.bench;
    this.cells.hidden = settings.values === undefined;
    this.how.hidden = !settings.vectors || view.query < 0;
    this.sum.replaceChildren(...this.sumOfPair());
    this.sum.title = this.sum.textContent;
    chooseIn(this.cells, CELLS, view.weighted ? "shares" : "weight");
  }

  /** Draw the score of the chosen pair as one line of arithmetic; nothing where no pair is chosen. */
  sumOfPair() {
    const { view: { query, key }, settings, chosen, extras } = this.bench;
    const vectors = settings.vectors && query >= 0 && key >= 0 ? extras.scores(chosen, query, key) : null;
    const term = vectors?.row(query).terms.find((each) => each.key === key);
    return term ? sumParts(term, vectors.header.scale) : [];
  }

  /** Tell whether Python will send the exact weights of a part, which it does up to a number of cells. */
  comes(part) {
    const { rows, cols } = part ?? this.bench.weights.size;
    return rows * cols <= (this.bench.settings.cells ?? Infinity);
  }

  /** The height that is left for the picture in the window. */
  room() {
    return Math.max(MIN_PICTURE_HEIGHT, (this.height ?? 640) - this.middle.offsetTop);
  }

  /** The height that the heatmap may take. */
  heatRoom(width) {
    const { part, weights } = this.bench;
    const { rows } = part ?? weights.size;
    const left = this.room() - HEAT_BAR_HEIGHT;
    const room = width < NARROW_HEAD_WIDTH ? Math.min(left, width * 1.05) : left;
    // A text of some lines is larger than the window rather than too small to be read.
    return rows <= READABLE_ROWS ? Math.max(room, rows * READABLE_CELL + AXIS_LABELS) : room;
  }

  /** The height of the picture, one for all views: what the window leaves, on a phone what the heatmap takes. */
  pictureHeight(width, room) {
    if (this.height) return this.room();
    this.bar.hidden = false; // to be measured
    return Math.max(MIN_PICTURE_HEIGHT, this.bar.offsetHeight + heatHeight(width, room, this.bench.weights.shown.header));
  }

  drawHeat(head, width, height) {
    const { bench } = this;
    const { header } = bench.weights.shown;
    const isWeighted = Boolean(bench.view.weighted && bench.settings.values);
    const weights = isWeighted ? bench.extras.shares : bench.weights;
    this.heat.draw({
      header, quantity: isWeighted ? "of the row’s weight × value" : "", part: bench.part, picture: (part) => weights.pictureOf(head, part),
      cell: (row, column) => weights.cell(head, row, column), comes: (part) => this.comes(part),
      small: { head, ...weights.small(head) }, scale: bench.view.scale, pair: bench.pair, name: bench.name(head),
    }, width, height);
  }

  drawLines(head) {
    const { bench } = this;
    const { weights, part } = bench;
    const header = headerOf(weights.shown.header, part);
    const otherHeads = (bench.view.heads ?? []).map(([layer, index]) => layer * header.heads + index);
    const heads = [head, ...otherHeads.filter((other) => other !== head && other < weights.count)];
    const size = header.queries * header.keys;
    const values = new Float32Array(heads.length * size);
    const exactRows = heads.map((shownHead) => weights.partOf(shownHead, part));
    for (const otherHead of heads.slice(1)) weights.exact.request(otherHead); // the first one comes by itself
    exactRows.forEach((row, at) => row && values.set(row, at * size));
    const model = new LinesModel({
      ...header, id: `${header.id} ${heads}`, heads: heads.length, names: heads.map((shownHead) => bench.name(shownHead)),
      threshold: Number(bench.view.mass ?? 0.9), scale: bench.view.scale, exact: heads.every((shownHead) => weights.knows(shownHead, part)),
    }, values);
    const { top, left } = part ?? { top: 0, left: 0 };
    const inside = (position, count) => (position >= 0 && position < count ? position : -1);
    const pair = { query: inside(bench.pair.query - top, header.queries), key: inside(bench.pair.key - left, header.keys) };
    this.lines.show(model, pair, (name, value) => {
      if (name === "share") bench.choose({ mass: value });
      else bench.choosePair({ query: value.query < 0 ? -1 : value.query + top, key: value.key < 0 ? -1 : value.key + left });
    });
  }

  close() {
    this.resized.disconnect();
    this.lines.close();
  }
}
