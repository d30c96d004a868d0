// @ts-check
// The picture of a flow graph on its canvas: drawn, scrolled, with the node or the line that is pointed
// at, and saved as a file.

import { flowItems, flowLayout, itemAt } from "./flow_layout.js";
import { FLOW_NAMES, flowColours, flowShapes, layerShapes, linePath, nodePath, paintShapes, svgText } from "./flow_paint.js";
import { largestFirst } from "./flow_walk.js";
import { clearCanvas, keyedCanvas, make, themeOf } from "../shared/shared.js";

const FILE_SCALE = 2;

/** @typedef {import("./flow_model.js").FlowModel} Model */
/** @typedef {import("./flow_walk.js").Spot} Spot */

export class FlowPicture {
  constructor() {
    this.scroller = make("div", "scroller");
    this.stage = make("div", "stage");
    this.graph = make("canvas", "graph");
    this.over = keyedCanvas("over", "graph");
    this.stage.append(this.graph, this.over);
    this.scroller.append(this.stage);
    this.legend = make("div", "legend");
    /** Pointed at or walked to. @type {Spot | null} */
    this.spot = null;
    /** @type {Model | null} */
    this.model = null;
    this.scroller.addEventListener("scroll", () => this.model && this.paint(), { passive: true });
  }

  // -- drawing --------------------------------------------------------------------------------------

  /**
   * Draw what is kept of a graph.
   * @param {Model} model
   * @param {import("./flow_model.js").Subgraph} subgraph
   */
  draw(model, subgraph) {
    const width = this.scroller.clientWidth;
    const isNew = this.model !== model;
    this.model = model;
    this.subgraph = subgraph;
    this.layout = flowLayout(width, model, subgraph);
    const style = getComputedStyle(this.scroller);
    this.font = style.fontFamily || "sans-serif";
    this.colours = flowColours(themeOf(this.scroller), style.getPropertyValue("--st-background-color").trim());
    this.items = flowItems(model, subgraph, this.layout);
    this.shapes = flowShapes(model, this.items, this.layout, this.colours, subgraph.reached);
    this.stage.style.width = `${this.layout.wide}px`;
    this.stage.style.setProperty("--high", `${this.layout.high}px`);
    this.legend.replaceChildren(...Object.entries(FLOW_NAMES).map(([kind, name]) => this.named(Number(kind), name)));
    if (model.header.signed) this.legend.append(...["against it", "for it"].map((name, at) => this.signName(name, at)));
    const middle = this.layout.x(model.header.position) - width / 2;
    if (isNew) this.scroller.scrollLeft = this.layout.wide > width ? middle : 0;
    this.paint();
  }

  /** The legend of a kind of node. */
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

  /** The legend of the lines of a sign. */
  signName(name, at) {
    const line = make("span", "line");
    line.style.background = this.colours.signs[at];
    const item = make("span", "kind");
    item.append(line, name);
    return item;
  }

  /** The visible part of the picture: the canvas is as wide as its frame. */
  paint() {
    const { high } = this.layout;
    const { context } = clearCanvas(this.graph, this.scroller.clientWidth, high);
    context.save();
    context.translate(-this.scroller.scrollLeft, 0);
    paintShapes(context, this.shapes, this.font);
    context.restore();
    paintShapes(context, layerShapes(this.model, this.layout, this.colours), this.font);
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
    const markedLines = lines.filter((line) => line.row === row || (line.node >= 0 && nodes[line.node] === node));
    const colour = this.colours.accent;
    paintShapes(context, [
      { path: (row < 0 ? [] : markedLines).map(linePath).join(""), stroke: colour, width: 3 },
      ...(node ? [{ path: nodePath(node, 2), fill: colour, stroke: this.colours.paper, width: 1.5 }] : []),
    ], this.font);
  }

  /** Mark a node or a line; none for null. @param {Spot | null} spot */
  mark(spot) {
    const isSame = JSON.stringify(this.spot) === JSON.stringify(spot);
    this.spot = spot;
    if (!isSame) this.paintSpot();
  }

  /** Scroll a node into view. @param {import("./flow_layout.js").Node} node */
  reveal({ x }) {
    const { scroller } = this;
    const isVisible = x - scroller.scrollLeft >= this.layout.gutter && x - scroller.scrollLeft <= scroller.clientWidth - 20;
    if (!isVisible) scroller.scrollLeft = x - scroller.clientWidth / 2;
  }

  // -- nodes and lines ------------------------------------------------------------------------------

  /** The node of a state, or the one that a part passes; undefined where it passes none. */
  nodeOf(spot) {
    const { nodes } = this.items;
    if ("row" in spot) return nodes.find((node) => node.rows.includes(spot.row));
    return nodes.find((node) => !node.kind && node.state === spot.state);
  }

  /** The node of a spot, or the position that a part comes from. */
  nodeBelow(spot) {
    return this.nodeOf(spot) ?? this.nodeOf({ state: this.model.sourceOf(spot.row) });
  }

  /** The node or the line at a point of what is seen; null where there is none. @type {(x: number, y: number) => any} */
  itemAt(x, y) {
    return itemAt(this.items, x + this.scroller.scrollLeft, y);
  }

  /** The state or part of a node or a line; of a head that reads several tokens, its largest part. */
  spotOf(item) {
    const { nodes, lines } = this.items;
    const line = "line" in item ? lines[item.line] : null;
    if (line && line.row >= 0) return { row: line.row };
    const node = nodes[line ? line.node : item.node];
    if (!node.kind) return { state: node.state };
    return { row: largestFirst(this.subgraph, [...node.rows])[0] };
  }

  // -- files ----------------------------------------------------------------------------------------

  /** @param {string} kind "PNG" or "SVG" @param {string} caption */
  save(kind, caption) {
    const { wide: width, high: height } = this.layout;
    const shapes = [...this.shapes, ...layerShapes(this.model, this.layout, this.colours)];
    const name = this.model.header.signed ? "prediction_graph" : "flow_graph";
    if (kind === "SVG") {
      const title = `${this.model.header.title}. ${caption}`;
      const text = svgText(shapes, { width, height, paper: this.colours.paper, font: this.font, title });
      return download(new Blob([text], { type: "image/svg+xml" }), `${name}.svg`);
    }
    const canvas = make("canvas");
    [canvas.width, canvas.height] = [width * FILE_SCALE, height * FILE_SCALE];
    const context = canvas.getContext("2d");
    context.scale(FILE_SCALE, FILE_SCALE);
    paintShapes(context, [{ path: `M0 0H${width}V${height}H0z`, fill: this.colours.paper }, ...shapes], this.font);
    return canvas.toBlob((blob) => download(blob, `${name}.png`), "image/png");
  }
}

function download(blob, name) {
  const link = make("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
