// @ts-check
// Matrices as small pictures, a pixel for each number, made once and scaled by the canvas.

import { dot } from "./sentence_model.js";
import { colourAt, make, rgbOf, scaleWeight } from "../shared/shared.js";
/* global PALETTE */

const SPREAD = 2.4; // root mean squares at which a colour is full: a few numbers are far larger

export class MatrixImages {
  /** @param {import("./sentence_model.js").SentenceModel} model */
  constructor(model) {
    this.model = model;
    /** @type {Map<string, { canvas: HTMLCanvasElement, scale: number }>} */
    this.made = new Map();
    this.theme = "";
    /** @type {Record<string, Uint32Array>} */
    this.colours = {};
  }

  /** The picture of a matrix in a theme. @param {import("./sentence_model.js").Matrix} matrix */
  of(matrix, theme) {
    if (theme !== this.theme) this.made.clear();
    this.theme = theme;
    const { kind, layer, head } = matrix;
    const changed = kind === "weight" ? this.model.changed(layer, head) : null;
    const key = `${kind} ${layer} ${head} ${changed ? this.model.off : ""}`;
    if (!this.made.has(key)) this.made.set(key, this.paint(matrix, changed, theme));
    return this.made.get(key);
  }

  /** Whether a matrix has its picture already. */
  has({ kind, layer, head }) {
    return this.made.has(`${kind} ${layer} ${head} `);
  }

  /** The colour of one number, as three numbers. */
  colourOf(matrix, row, col, theme) {
    const value = this.model.at(matrix, row, col);
    if (matrix.kind === "weight") return colourAt(scaleWeight(value, "sqrt"), PALETTE.sequential[theme]);
    return colourAt(0.5 + value / (2 * this.of(matrix, theme).scale), PALETTE.diverging[theme]);
  }

  /** A scale's colours in 256 steps, as pixels. */
  coloursOf(name, theme) {
    return (this.colours[`${name} ${theme}`] ??= Uint32Array.from({ length: 256 }, (_, i) => pixel(colourAt(i / 255, PALETTE[name][theme]))));
  }

  paint(matrix, changed, theme) {
    const { rows, cols, kind } = matrix;
    const canvas = make("canvas");
    Object.assign(canvas, { width: cols, height: rows });
    const context = canvas.getContext("2d");
    const image = context.createImageData(cols, rows);
    const pixels = new Uint32Array(image.data.buffer);
    const values = new Float32Array(rows * cols);
    for (let row = 0; row < rows; row++) {
      if (changed) for (let i = row * cols; i < (row + 1) * cols; i++) values[i] = (changed[i] / 255) ** 2;
      else values.set(this.model.rowOf(matrix, row), row * cols);
    }
    const scale = Math.max(SPREAD * Math.sqrt(dot(values, values) / values.length), 1e-9);
    const colours = this.coloursOf(kind === "weight" ? "sequential" : "diverging", theme);
    const hidden = pixel(rgbOf(PALETTE.missing[theme]));
    for (let i = 0; i < pixels.length; i++) {
      const place = kind === "weight" ? scaleWeight(values[i], "sqrt") : 0.5 + values[i] / (2 * scale);
      pixels[i] = colours[Math.min(Math.max(Math.round(255 * place), 0), 255)];
      if (kind === "weight" && i % cols > Math.floor(i / cols)) pixels[i] = hidden;
    }
    context.putImageData(image, 0, 0);
    return { canvas, scale };
  }
}

/** @param {number[]} colour */
const pixel = ([red, green, blue]) => (0xff000000 | (blue << 16) | (green << 8) | red) >>> 0;
