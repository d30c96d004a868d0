// @ts-check
// Tokens in one line with arcs between them, above and below: the weights of one head, or a tree.
// Tokens are text, never markup.

import { arcPath, treeLevels, weightLevels } from "./arc_layout.js";
import { make, themeOf, tokenElement } from "../shared/shared.js";
import { svgElement } from "../shared/svg.js";
/* global PALETTE */

const ARC_MARGIN = 6; // pixels between the outermost arc and the edge of the picture

/** Tokens in one line, and arcs above and below them. */
export class ArcLine {
  /**
   * @param {HTMLElement} parent
   * @param {number} [step] pixels from one level of arcs to the next
   */
  constructor(parent, step = 15) {
    this.step = step;
    this.root = make("div", "mha sentence-arcs");
    this.root.tabIndex = 0; // what is too long is scrolled with the keys
    this.root.setAttribute("role", "group");
    this.stage = make("div", "stage");
    this.stage.setAttribute("role", "img");
    this.line = make("div", "line");
    this.pictures = {
      above: svgElement("svg", { class: "above", "aria-hidden": "true" }),
      below: svgElement("svg", { class: "below", "aria-hidden": "true" }),
    };
    this.stage.append(this.pictures.above, this.line, this.pictures.below);
    this.root.append(this.stage);
    parent.append(this.root);
    /** @type {any} see mha_viz/ui/widgets/components/sentence_arcs.py */
    this.data = null;
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(this.line);
  }

  update(data) {
    this.data = data;
    const texts = data.pieces.map((piece) => piece.text);
    this.root.setAttribute("aria-label", texts.join(" "));
    const descriptions = ["above", "below"].map((side) => data[side].map((arc) => arc.says).join("; "));
    this.stage.setAttribute("aria-label", descriptions.filter(Boolean).join(". Below: ") || "No arcs");
    this.line.classList.toggle("wide", data.above.some((arc) => arc.label)); // room for their names
    this.line.replaceChildren(...data.pieces.map((piece) => tokenElement(piece.text, piece.special)));
    this.draw();
  }

  draw() {
    if (!this.data || !this.line.offsetWidth) return;
    const theme = themeOf(this.root);
    const centres = [...this.line.children].map((token) => token.offsetLeft + token.offsetWidth / 2);
    for (const side of ["above", "below"]) this.drawSide(side, this.data[side], centres, theme);
    this.root.dataset.painted = String(this.data.pieces.length);
  }

  drawSide(side, arcs, centres, theme) {
    const picture = this.pictures[side];
    const marking = arcs.some((arc) => arc.label);
    const levels = marking ? treeLevels(arcs) : weightLevels(arcs);
    const height = arcs.length ? Math.max(...levels) * this.step + ARC_MARGIN : 0;
    const [width, up] = [this.line.offsetWidth, side === "above"];
    for (const [name, value] of Object.entries({ width, height })) picture.setAttribute(name, String(value));
    // What is marked lies on top.
    const order = [...arcs.keys()].sort((a, b) => Number(arcs[a].marked) - Number(arcs[b].marked));
    picture.replaceChildren(...order.flatMap((at) => {
      const colour = arcs[at].marked
        ? PALETTE.accent[theme]
        : marking ? PALETTE.muted[theme] : PALETTE.qualitative[theme][0];
      return drawnArc(arcs[at], centres, { base: up ? height : 0, rise: levels[at] * this.step * (up ? -1 : 1) }, colour);
    }));
  }

  close() {
    this.resized.disconnect();
  }
}

/** The line of an arc, its head and what is written at its top. */
function drawnArc(arc, centres, { base, rise }, colour) {
  const { line, head, top } = arcPath(centres[arc.start], centres[arc.end], base, rise);
  const strength = arc.label ? (arc.marked ? 0.6 : 0.2) : arc.weight;
  const opacity = String(arc.label ? 1 : 0.35 + 0.65 * strength);
  const path = svgElement("path", {
    d: line, class: "arc", stroke: colour, "stroke-width": String(1 + 2.5 * strength), opacity,
  });
  path.append(Object.assign(svgElement("title", {}), { textContent: arc.says }));
  const parts = [path, svgElement("path", { d: head, fill: colour, opacity })];
  if (arc.label) {
    const label = svgElement("text", { x: String(top.x), y: String(top.y + 3.5), fill: colour, class: arc.marked ? "marked" : "" });
    label.textContent = arc.label;
    parts.push(label);
  }
  return parts;
}
