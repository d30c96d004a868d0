// @ts-check
// The graph of the flow into a token or a prediction: states, heads and MLPs as one picture; walks,
// points, chooses heads, pins nodes, folds tokens, and saves itself as a file.

import { BIAS, FlowModel, SOURCE } from "./flow_model.js";
import { FlowPicture } from "./flow_picture.js";
import { nodeText, partText, percent, subgraphText } from "./flow_text.js";
import { headRow, walkFlow } from "./flow_walk.js";
import { unpack } from "../shared/payload_store.js";
import { endOf, make, makeButton, viewOf } from "../shared/shared.js";

const SLIDER_STEPS = 200; // steps of the slider, each the same factor
const MAX_THRESHOLD = 0.5; // the largest threshold
const PHONE_WIDTH = 480; // pixels: a narrower signed graph starts with its tokens folded

class FlowGraph {
  constructor(parent) {
    this.root = make("div", "mha flow-graph");
    this.build();
    parent.append(this.root);
    /** @type {(head: { layer: number, head: number, query: number, key: number }) => void} */
    this.choose = null;
    /** @type {(node: { layer: number, kind: number, level: number, head: number, position: number }) => void} */
    this.pin = null;
    this.listen();
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(this.picture.scroller);
  }

  build() {
    this.top = make("div", "top");
    const label = make("label", "", "Parts of at least ");
    this.slider = label;
    this.range = Object.assign(make("input"), { type: "range", min: 0, max: SLIDER_STEPS, step: 1 });
    this.least = make("output", "least");
    label.append(this.range, this.least);
    this.cut = make("div", "cut");
    this.files = make("div", "files");
    for (const kind of ["PNG", "SVG"]) {
      const button = makeButton("button", kind, () => this.picture.save(kind, this.cut.textContent));
      this.files.append(button);
    }
    this.fold = make("button", "button fold");
    this.fold.addEventListener("click", () => {
      this.isFolded = !this.isFolded;
      this.show();
      this.draw();
    });
    this.top.append(label, this.fold, this.cut, this.files);
    this.picture = new FlowPicture();
    this.tip = make("div", "tip");
    this.tip.hidden = true;
    this.message = make("div", "message");
    this.live = make("div", "live");
    this.live.setAttribute("aria-live", "polite");
    this.root.append(this.top, this.picture.scroller, this.picture.legend, this.message, this.tip, this.live);
  }

  /** @param {unknown} bytes see mha_viz/web/flow_payload.py */
  update(bytes) {
    try {
      const { header, body } = unpack(bytes);
      this.message.hidden = true;
      if (this.model?.header.id !== header.id) this.load(header, body);
    } catch (error) {
      this.model = null;
      this.message.textContent = String(error.message);
      this.message.hidden = false;
    }
    this.top.hidden = this.picture.scroller.hidden = this.picture.legend.hidden = !this.model;
    this.draw();
  }

  load(header, body) {
    this.fullModel = new FlowModel(header, body);
    const narrow = this.root.clientWidth > 0 && this.root.clientWidth < PHONE_WIDTH;
    this.isFolded ??= narrow;
    this.mayFold = narrow || this.isFolded;
    this.show();
    if (header.signed) return;
    const low = Math.max(header.threshold, 1e-4);
    this.scale = { low, high: Math.max(MAX_THRESHOLD, low) };
    this.range.value = String(Math.round(SLIDER_STEPS * Math.log(header.start / low) / Math.log(this.scale.high / low) || 0));
    this.keep();
  }

  /** Show the graph, its tokens folded or not. */
  show() {
    const { header } = this.fullModel;
    const folds = Boolean(header.signed) && this.mayFold && header.labels.length > 1;
    this.model = folds && this.isFolded ? this.fullModel.folded() : this.fullModel;
    this.picture.spot = null;
    this.hideTip();
    this.slider.hidden = Boolean(header.signed);
    this.fold.hidden = !folds;
    this.fold.textContent = this.isFolded ? "Show tokens" : "Fold tokens";
    if (header.signed) this.keep();
    this.picture.over.setAttribute(
      "aria-label",
      `${header.title}. Arrow down goes from a state to its largest part, arrow up back; left and right ` +
        `go to its neighbours; Enter chooses a head; ${header.signed ? "P pins a node; " : ""}Escape clears the selection.`,
    );
  }

  keep() {
    if (!this.model.header.signed) {
      const { low, high } = this.scale;
      const at = Number(this.range.value);
      // At its left end the slider keeps all that the graph has.
      this.threshold = at ? low * (high / low) ** (at / SLIDER_STEPS) : this.model.header.threshold;
      this.least.textContent = percent(this.threshold);
    }
    this.subgraph = this.model.keep(this.threshold);
    this.cut.textContent = subgraphText(this.model, this.subgraph);
    this.range.setAttribute("aria-valuetext", `${this.least.textContent}; ${this.cut.textContent}`);
    const { spot } = this.picture;
    if (spot && !this.isDrawn(spot)) this.picture.spot = null;
  }

  isDrawn(spot) {
    return "row" in spot ? this.subgraph.rows.includes(spot.row) : this.subgraph.reached[spot.state];
  }

  draw() {
    const { picture } = this;
    if (!this.model || !picture.scroller.clientWidth) return;
    picture.draw(this.model, this.subgraph);
    Object.assign(this.root.dataset, { painted: this.subgraph.rows.length, named: Number(picture.layout.isNamed) });
  }

  // -- the spot -------------------------------------------------------------------------------------

  markSpot(spot) {
    this.picture.mark(spot);
    if (!spot) this.hideTip();
  }

  linesOf(spot) {
    if ("row" in spot) return partText(this.model, this.subgraph, spot.row);
    return nodeText(this.model, this.subgraph, this.picture.nodeOf(spot));
  }

  showTip(lines, x, y) {
    this.tip.replaceChildren(...lines.map((line, at) => make("div", at ? "tip-note" : "tip-title", line)));
    this.tip.hidden = false;
    const room = this.root.clientWidth - this.tip.offsetWidth;
    this.tip.style.left = `${Math.max(0, Math.min(x + 14, room))}px`;
    this.tip.style.top = `${this.picture.scroller.offsetTop + y + 16}px`;
  }

  hideTip() {
    this.tip.hidden = true;
  }

  /** A head of the model, and not several that are drawn as one node. */
  isHead({ kind, rows }) {
    return kind === SOURCE && !(`${this.model.layerOf(rows[0])}.${this.model.head[rows[0]]}` in (this.model.header.names ?? {}));
  }

  /** Choose a head, or pin another node; with Shift, pin either. */
  press(spot, shift) {
    const node = this.model.header.signed ? this.pointedNode : null;
    if (node && (shift || !this.isHead(node))) this.sendPin(node);
    else this.send(spot);
  }

  /** Send a node to be pinned. */
  sendPin(node) {
    const { model } = this;
    if (!model.header.signed || !node || node.kind === BIAS) return;
    if (!node.kind && node.state >= model.top * model.tokens) return; // the prediction itself
    const level = Math.floor(node.state / model.tokens);
    const position = model.header.folded ? -1 : node.state % model.tokens;
    const layer = node.kind ? Math.ceil(level / 2) - 1 : Math.floor(level / 2);
    this.pin({ layer, kind: node.kind, level, head: node.head, position });
  }

  send(spot) {
    const row = headRow(this.model, spot);
    if (row < 0) return;
    const { head, header } = this.model;
    const [query, key] = header.folded ? [-1, -1] : [this.model.query[row], this.model.key[row]];
    this.choose({ layer: this.model.layerOf(row), head: head[row], query, key });
    this.live.textContent = `Chosen: ${this.linesOf(spot).join(", ")}`;
  }

  // -- pointer and keys -----------------------------------------------------------------------------

  listen() {
    this.range.addEventListener("input", () => {
      this.keep();
      this.hideTip();
      this.draw();
    });
    const { over } = this.picture;
    over.addEventListener("pointermove", (event) => this.point(event));
    over.addEventListener("pointerleave", () => this.markSpot(null));
    over.addEventListener("click", (event) => {
      const spot = this.point(event);
      if (spot) this.press(spot, event.shiftKey);
    });
    over.addEventListener("keydown", (event) => this.key(event));
    over.addEventListener("blur", () => this.markSpot(null));
  }

  point(event) {
    if (!this.model) return null;
    const { picture } = this;
    const box = picture.over.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const item = picture.itemAt(x, y);
    const spot = item && picture.spotOf(item);
    this.markSpot(spot);
    this.pointedNode = item && "node" in item ? picture.items.nodes[item.node] : null;
    const pins = this.pointedNode && this.model.header.signed;
    picture.over.style.cursor = pins || (spot && headRow(this.model, spot) >= 0) ? "pointer" : "default";
    if (spot) this.showTip(this.pointedNode ? nodeText(this.model, this.subgraph, this.pointedNode) : this.linesOf(spot), x, y);
    return spot;
  }

  key(event) {
    if (!this.model || event.altKey || event.metaKey || event.ctrlKey) return;
    const { spot } = this.picture;
    const first = { state: this.model.stateAt(this.model.top, this.model.header.position) };
    if (event.key === "Escape") this.markSpot(null);
    else if (event.key === "p" || event.key === "P") spot && this.sendPin(this.picture.nodeBelow(spot));
    else if (event.key === "Enter" || event.key === " ") spot && this.send(spot);
    else if (["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Home"].includes(event.key)) {
      this.walk(spot ? walkFlow(this.model, this.subgraph, spot, event.key) ?? spot : first);
    } else return;
    event.preventDefault();
  }

  walk(spot) {
    const { picture } = this;
    this.markSpot(spot);
    const node = picture.nodeOf(spot) ?? picture.nodeOf({ state: this.model.targetOf(spot.row) });
    picture.reveal(node);
    this.showTip(this.linesOf(spot), node.x - picture.scroller.scrollLeft, node.y);
    this.live.textContent = this.linesOf(spot).join(", ");
  }

  close() {
    this.resized.disconnect();
  }
}

export default function flowGraph({ parentElement, data, setTriggerValue }) {
  const view = viewOf(parentElement, "flowGraph", () => new FlowGraph(parentElement));
  view.choose = (head) => setTriggerValue("choose", head);
  view.pin = (node) => setTriggerValue("pin", node);
  view.update(data);
  return endOf(parentElement, "flowGraph");
}
