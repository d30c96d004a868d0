// @ts-check
// Matrices as small pictures, a pixel for each number, made once and scaled by the canvas. Colours and pixels are those
// of the matrices of step by step.

import { dot } from "./sentence_model.js";
import { numberColour, paintPixels } from "../number_table/number_parts.js";
import { make } from "../shared/shared.js";

const FULL_COLOUR_RMS = 2.4; // root mean squares at which a colour is full: a few numbers are far larger

export class MatrixImages {
  /** @param {import("./sentence_model.js").SentenceModel} model */
  constructor(model) {
    this.model = model;
    /** @type {Map<string, { canvas: HTMLCanvasElement, scale: string, low: number, high: number }>} */
    this.images = new Map();
    this.theme = "";
  }

  /** The picture of a matrix in a theme, and its scale. @param {import("./sentence_model.js").Matrix} matrix */
  of(matrix, theme) {
    if (theme !== this.theme) this.images.clear();
    this.theme = theme;
    const { kind, layer, head } = matrix;
    const changed = kind === "weight" ? this.model.changed(layer, head) : null;
    const key = `${kind} ${layer} ${head} ${changed ? this.model.off : ""}`;
    if (!this.images.has(key)) this.images.set(key, this.paint(matrix, changed, theme));
    return this.images.get(key);
  }

  /** Tell whether a matrix has its picture already. */
  has({ kind, layer, head }) {
    return this.images.has(`${kind} ${layer} ${head} `);
  }

  /** The colour of one number, as three numbers. */
  colourOf(matrix, row, col, theme) {
    return numberColour(this.of(matrix, theme), theme, this.model.at(matrix, row, col));
  }

  paint(matrix, changed, theme) {
    const { rows, cols, kind } = matrix;
    const canvas = /** @type {HTMLCanvasElement} */ (make("canvas"));
    Object.assign(canvas, { width: cols, height: rows });
    const of = (row) => (changed ? Array.from(changed.subarray(row * cols, (row + 1) * cols), (code) => (code / 255) ** 2) : [...this.model.rowOf(matrix, row)]);
    const values = Array.from({ length: rows }, (_, row) => of(row)).flat();
    const high = kind === "weight" ? 1 : Math.max(FULL_COLOUR_RMS * Math.sqrt(dot(values, values) / values.length), 1e-9);
    const scale = kind === "weight" ? { scale: "sqrt", low: 0, high } : { scale: "diverging", low: -high, high };
    const hidden = (i) => kind === "weight" && i % cols > Math.floor(i / cols);
    paintPixels(canvas, { ...scale, numbers: values.map((value, i) => (hidden(i) ? null : value)) }, theme);
    return { canvas, ...scale };
  }
}
