// @ts-check
// What flows into a token, or what makes a prediction: positions, heads and MLPs as one picture; walks,
// points, chooses heads, pins nodes, folds tokens, and saves itself as a file.

import { BIAS, FlowModel } from "./flow_model.js";
import { flowItems, flowLayout, itemAt } from "./flow_layout.js";
import { FLOW_NAMES, flowColours, flowShapes, layerShapes, linePath, nodePath, paintShapes, svgText } from "./flow_paint.js";
import { keptText, nodeText, partText, percent } from "./flow_text.js";
import { headRow, largestFirst, walkFlow } from "./flow_walk.js";
import { clearCanvas, endOf, keyedCanvas, make, themeOf, unpack, viewOf } from "../shared/shared.js";

const TICKS = 200; // steps of the slider, each the same factor
const MOST = 0.5; // the largest threshold
const FILE_SCALE = 2;
const PHONE = 480; // pixels: a narrower signed graph starts with its tokens folded

class FlowGraph {
  constructor(parent) {
    this.root = make("div", "mha flow-graph");
    this.build();
    parent.append(this.root);
    /** @type {(head: { layer: number, head: number, query: number, key: number }) => void} */
    this.choose = null;
    /** @type {(node: { layer: number, kind: number, level: number, head: number, position: number }) => void} */
    this.pin = null;
    this.spot = null; // what is pointed at or walked to
    this.listen();
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(this.scroller);
  }

  build() {
    this.top = make("div", "top");
    const label = make("label", "", "Parts of at least ");
    this.slider = label;
    this.range = Object.assign(make("input"), { type: "range", min: 0, max: TICKS, step: 1 });
    this.least = make("output", "least");
    label.append(this.range, this.least);
    this.cut = make("div", "cut");
    this.files = make("div", "files");
    for (const kind of ["PNG", "SVG"]) {
      const button = make("button", "button", kind);
      button.type = "button";
      button.addEventListener("click", () => this.save(kind));
      this.files.append(button);
    }
    this.fold = make("button", "button fold");
    this.fold.type = "button";
    this.fold.addEventListener("click", () => {
      this.isFolded = !this.isFolded;
      this.show();
      this.draw();
    });
    this.top.append(label, this.fold, this.cut, this.files);
    this.scroller = make("div", "scroller");
    this.stage = make("div", "stage");
    this.graph = make("canvas", "graph");
    this.over = keyedCanvas("over", "graph");
    this.stage.append(this.graph, this.over);
    this.scroller.append(this.stage);
    this.legend = make("div", "legend");
    this.tip = make("div", "tip");
    this.tip.hidden = true;
    this.message = make("div", "message");
    this.live = make("div", "live");
    this.live.setAttribute("aria-live", "polite");
    this.root.append(this.top, this.scroller, this.legend, this.message, this.tip, this.live);
  }

  /** @param {unknown} bytes see mha_viz/web/flow_payload.py */
  update(bytes) {
    try {
      const { header, body } = unpack(bytes);
      this.message.hidden = true;
      if (this.model?.header.id !== header.id) this.take(header, body);
    } catch (error) {
      this.model = null;
      this.message.textContent = String(error.message);
      this.message.hidden = false;
    }
    this.top.hidden = this.scroller.hidden = this.legend.hidden = !this.model;
    this.draw();
  }

  take(header, body) {
    this.whole = new FlowModel(header, body);
    const narrow = this.root.clientWidth > 0 && this.root.clientWidth < PHONE;
    this.isFolded ??= narrow;
    this.mayFold = narrow || this.isFolded;
    this.show();
    if (header.signed) return;
    const low = Math.max(header.threshold, 1e-4);
    this.scale = { low, high: Math.max(MOST, low) };
    this.range.value = String(Math.round(TICKS * Math.log(header.start / low) / Math.log(this.scale.high / low) || 0));
    this.keep();
  }

  /** Show the graph, its tokens folded or not. */
  show() {
    const { header } = this.whole;
    const folds = Boolean(header.signed) && this.mayFold && header.labels.length > 1;
    this.model = folds && this.isFolded ? this.whole.folded() : this.whole;
    this.spot = null;
    this.fresh = true; // not drawn yet
    this.hideTip();
    this.slider.hidden = Boolean(header.signed);
    this.fold.hidden = !folds;
    this.fold.textContent = this.isFolded ? "Show tokens" : "Fold tokens";
    if (header.signed) this.keep();
    this.over.setAttribute(
      "aria-label",
      `${header.title}. Arrow down goes from a position to what it is made of, arrow up back; left and right ` +
        `go to what stands beside it; Enter chooses a head; ${header.signed ? "P pins a node; " : ""}Escape lets go.`,
    );
  }

  keep() {
    if (!this.model.header.signed) {
      const { low, high } = this.scale;
      const at = Number(this.range.value);
      // At its left end the slider keeps all that the graph has.
      this.threshold = at ? low * (high / low) ** (at / TICKS) : this.model.header.threshold;
      this.least.textContent = percent(this.threshold);
    }
    this.kept = this.model.keep(this.threshold);
    this.cut.textContent = keptText(this.model, this.kept);
    this.range.setAttribute("aria-valuetext", `${this.least.textContent}; ${this.cut.textContent}`);
    if (this.spot && !this.isKept(this.spot)) this.spot = null;
  }

  isKept(spot) {
    return "row" in spot ? this.kept.rows.includes(spot.row) : this.kept.reached[spot.place];
  }

  // -- drawing --------------------------------------------------------------------------------------

  draw() {
    const width = this.scroller.clientWidth;
    if (!this.model || !width) return;
    this.layout = flowLayout(width, this.model.header);
    const paper = getComputedStyle(this.root).getPropertyValue("--st-background-color").trim();
    this.colours = flowColours(themeOf(this.root), paper);
    this.items = flowItems(this.model, this.kept, this.layout);
    this.shapes = flowShapes(this.model, this.items, this.layout, this.colours, this.kept.reached);
    this.stage.style.width = `${this.layout.wide}px`;
    this.stage.style.setProperty("--high", `${this.layout.high}px`);
    this.legend.replaceChildren(...Object.entries(FLOW_NAMES).map(([kind, name]) => this.named(Number(kind), name)));
    if (this.model.header.signed) this.legend.append(...["against it", "for it"].map((name, at) => this.signName(name, at)));
    if (this.fresh) this.scroller.scrollLeft = this.layout.x(this.model.header.position) - width / 2;
    this.fresh = false;
    this.paint();
    Object.assign(this.root.dataset, {
      painted: this.kept.rows.length, column: this.layout.column, rise: this.layout.rise,
    });
  }

  /** What a kind of node looks like. */
  named(kind, name) {
    const sign = make("canvas");
    sign.setAttribute("aria-hidden", "true");
    const { context } = clearCanvas(sign, 12, 12);
    const fill = kind ? this.colours.kinds[kind] : this.colours.ink;
    paintShapes(context, [{ path: nodePath({ kind, x: 6, y: 6, size: 0.5 }), fill }], "");
    const item = make("span", "kind");
    item.append(sign, name);
    return item;
  }

  /** What the lines of a sign look like. */
  signName(name, at) {
    const line = make("span", "line");
    line.style.background = this.colours.signs[at];
    const item = make("span", "kind");
    item.append(line, name);
    return item;
  }

  /** What is seen of the picture: the canvas is as wide as its place, and stays in it. */
  paint() {
    const { high } = this.layout;
    const { context } = clearCanvas(this.graph, this.scroller.clientWidth, high);
    context.save();
    context.translate(-this.scroller.scrollLeft, 0);
    paintShapes(context, this.shapes, this.font());
    context.restore();
    paintShapes(context, layerShapes(this.model, this.layout, this.colours), this.font());
    this.paintSpot();
  }

  paintSpot() {
    const { context } = clearCanvas(this.over, this.scroller.clientWidth, this.layout.high);
    if (!this.spot) return;
    context.beginPath();
    context.rect(this.layout.gutter - 6, 0, this.scroller.clientWidth, this.layout.high);
    context.clip();
    context.translate(-this.scroller.scrollLeft, 0);
    const { lines, nodes } = this.items;
    const row = "row" in this.spot ? this.spot.row : -1;
    const node = this.nodeOf(this.spot);
    const own = lines.filter((line) => line.row === row || (line.node >= 0 && nodes[line.node] === node));
    const colour = this.colours.accent;
    paintShapes(context, [
      { path: (row < 0 ? [] : own).map(linePath).join(""), stroke: colour, width: 3 },
      ...(node ? [{ path: nodePath(node, 2), fill: colour, stroke: this.colours.paper, width: 1.5 }] : []),
    ], this.font());
  }

  /** The node of a position, or the one that a part passes; undefined where it passes none. */
  nodeOf(spot) {
    const { nodes } = this.items;
    if ("row" in spot) return nodes.find((node) => node.rows.includes(spot.row));
    return nodes.find((node) => !node.kind && node.place === spot.place);
  }

  /** The node of a spot, or the position that a part comes from. */
  nodeBelow(spot) {
    return this.nodeOf(spot) ?? this.nodeOf({ place: this.model.sourceOf(spot.row) });
  }

  font() {
    return getComputedStyle(this.root).fontFamily || "sans-serif";
  }

  // -- the spot -------------------------------------------------------------------------------------

  look(spot) {
    const same = JSON.stringify(this.spot) === JSON.stringify(spot);
    this.spot = spot;
    if (!same) this.paintSpot();
    if (!spot) this.hideTip();
  }

  says(spot) {
    if ("row" in spot) return partText(this.model, this.kept, spot.row);
    return nodeText(this.model, this.kept, this.nodeOf(spot));
  }

  showTip(lines, x, y) {
    this.tip.replaceChildren(...lines.map((line, at) => make("div", at ? "tip-note" : "tip-title", line)));
    this.tip.hidden = false;
    const room = this.root.clientWidth - this.tip.offsetWidth;
    this.tip.style.left = `${Math.max(0, Math.min(x + 14, room))}px`;
    this.tip.style.top = `${this.scroller.offsetTop + y + 16}px`;
  }

  hideTip() {
    this.tip.hidden = true;
  }

  /** Tell which node is pinned: it, or the one that a part passes. */
  sendPin(node) {
    const { model } = this;
    if (!model.header.signed || !node || node.kind === BIAS) return;
    if (!node.kind && node.place >= model.top * model.tokens) return; // the prediction itself
    const level = Math.floor(node.place / model.tokens);
    const position = model.header.folded ? -1 : node.place % model.tokens;
    const layer = node.kind ? Math.ceil(level / 2) - 1 : Math.floor(level / 2);
    this.pin({ layer, kind: node.kind, level, head: node.head, position });
  }

  send(spot) {
    const row = headRow(this.model, spot);
    if (row < 0 || this.model.header.folded) return;
    const [head, query, key] = [this.model.head[row], this.model.query[row], this.model.key[row]];
    this.choose({ layer: this.model.layerOf(row), head, query, key });
    this.live.textContent = `Chosen: ${this.says(spot).join(", ")}`;
  }

  // -- pointer and keys -----------------------------------------------------------------------------

  listen() {
    this.range.addEventListener("input", () => {
      this.keep();
      this.hideTip();
      this.draw();
    });
    this.scroller.addEventListener("scroll", () => this.model && this.paint(), { passive: true });
    this.over.addEventListener("pointermove", (event) => this.point(event));
    this.over.addEventListener("pointerleave", () => this.look(null));
    this.over.addEventListener("click", (event) => {
      const spot = this.point(event);
      const { found } = this;
      if (spot && this.model.header.signed && "node" in found) this.sendPin(this.items.nodes[found.node]);
      else if (spot) this.send(spot);
    });
    this.over.addEventListener("keydown", (event) => this.key(event));
    this.over.addEventListener("blur", () => this.look(null));
  }

  point(event) {
    if (!this.model) return null;
    const box = this.over.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const found = itemAt(this.items, x + this.scroller.scrollLeft, y);
    this.found = found;
    const spot = found && this.spotOf(found);
    this.look(spot);
    const pins = spot && "node" in found && this.model.header.signed;
    this.over.style.cursor = pins || (spot && headRow(this.model, spot) >= 0) ? "pointer" : "default";
    if (spot) this.showTip("node" in found ? nodeText(this.model, this.kept, this.items.nodes[found.node]) : this.says(spot), x, y);
    return spot;
  }

  /** What a node or a line stands for: of a head that takes from several tokens, its largest part. */
  spotOf(found) {
    const { nodes, lines } = this.items;
    const line = "line" in found ? lines[found.line] : null;
    if (line && line.row >= 0) return { row: line.row };
    const node = nodes[line ? line.node : found.node];
    if (!node.kind) return { place: node.place };
    return { row: largestFirst(this.kept, [...node.rows])[0] };
  }

  key(event) {
    if (!this.model || event.altKey || event.metaKey || event.ctrlKey) return;
    const first = { place: this.model.place(this.model.top, this.model.header.position) };
    if (event.key === "Escape") this.look(null);
    else if (event.key === "p" || event.key === "P") this.spot && this.sendPin(this.nodeBelow(this.spot));
    else if (event.key === "Enter" || event.key === " ") this.spot && this.send(this.spot);
    else if (["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Home"].includes(event.key)) {
      this.walk(this.spot ? walkFlow(this.model, this.kept, this.spot, event.key) ?? this.spot : first);
    } else return;
    event.preventDefault();
  }

  walk(spot) {
    this.look(spot);
    const node = this.nodeOf(spot) ?? this.nodeOf({ place: this.model.targetOf(spot.row) });
    const { scroller } = this;
    if (node.x - scroller.scrollLeft < this.layout.gutter || node.x - scroller.scrollLeft > scroller.clientWidth - 20) {
      scroller.scrollLeft = node.x - scroller.clientWidth / 2;
    }
    this.showTip(this.says(spot), node.x - scroller.scrollLeft, node.y);
    this.live.textContent = this.says(spot).join(", ");
  }

  // -- files ----------------------------------------------------------------------------------------

  save(kind) {
    const { wide: width, high: height } = this.layout;
    const shapes = [...this.shapes, ...layerShapes(this.model, this.layout, this.colours)];
    const name = this.model.header.signed ? "prediction_graph" : "flow_graph";
    if (kind === "SVG") {
      const title = `${this.model.header.title}. ${this.cut.textContent}`;
      const text = svgText(shapes, { width, height, paper: this.colours.paper, font: this.font(), title });
      return download(new Blob([text], { type: "image/svg+xml" }), `${name}.svg`);
    }
    const canvas = make("canvas");
    [canvas.width, canvas.height] = [width * FILE_SCALE, height * FILE_SCALE];
    const context = canvas.getContext("2d");
    context.scale(FILE_SCALE, FILE_SCALE);
    paintShapes(context, [{ path: `M0 0H${width}V${height}H0z`, fill: this.colours.paper }, ...shapes], this.font());
    return canvas.toBlob((blob) => download(blob, `${name}.png`), "image/png");
  }

  close() {
    this.resized.disconnect();
  }
}

function download(blob, name) {
  const link = make("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

export default function flowGraph({ parentElement, data, setTriggerValue }) {
  const view = viewOf(parentElement, "flowGraph", () => new FlowGraph(parentElement));
  view.choose = (head) => setTriggerValue("choose", head);
  view.pin = (node) => setTriggerValue("pin", node);
  view.update(data);
  return endOf(parentElement, "flowGraph");
}
