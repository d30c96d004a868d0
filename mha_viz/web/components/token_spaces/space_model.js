// @ts-check
// Tokens in the spaces of a head as numbers: where they lie, what they are coloured by, what is said of them.

import { unpack } from "../shared/payload_store.js";
import { colourAt, formatNumber } from "../shared/shared.js";
/* global PALETTE */

const COORDINATE_STEPS = 65534; // steps of a coordinate: 1 is the longer side of a panel's points
const MIN_SHADE = 0.3; // position of the smallest number on the colour scale: the first ones are as pale as paper
const N_SHADES = 24; // of numbers

export class SpaceModel {
  /** @param {unknown} bytes see `spaces_payload` in mha_viz/web/space_payload.py */
  constructor(bytes) {
    const { header, body } = unpack(bytes);
    this.header = header;
    this.size = header.tokens.length;
    const { buffer } = body.slice(); // where arrays of all types may begin
    const count = 2 * this.size * header.panels.length;
    this.values = new Float32Array(buffer, 0, this.size);
    this.coordinates = new Int16Array(buffer, 4 * this.size, count);
  }

  /** A token's coordinates in a panel, from its middle. @type {(panel: number, token: number) => [number, number]} */
  pointOf(panel, token) {
    const at = 2 * (panel * this.size + token);
    return [this.coordinates[at] / COORDINATE_STEPS, this.coordinates[at + 1] / COORDINATE_STEPS];
  }

  /** Tokens by the colour that they are drawn in. @param {"light" | "dark"} theme @returns {{ colour: string, tokens: number[] }[]} */
  colours(theme) {
    const { names, full } = this.header.colour;
    const inks = names.length
      ? names.map((_, at) => (full && at === names.length - 1 ? PALETTE.muted[theme] : PALETTE.qualitative[theme][at]))
      : Array.from({ length: N_SHADES }, (_, at) => `rgb(${colourAt(MIN_SHADE + ((1 - MIN_SHADE) * at) / (N_SHADES - 1), PALETTE.sequential[theme])})`);
    const groups = inks.map((colour) => ({ colour, tokens: [] }));
    this.values.forEach((value, token) => groups[names.length ? value : this.shadeOf(value)].tokens.push(token));
    return groups;
  }

  /** @param {number} value */
  shadeOf(value) {
    const [low, high] = this.header.colour.limits;
    return high > low ? Math.min(N_SHADES - 1, Math.floor((N_SHADES * (value - low)) / (high - low))) : 0;
  }

  /** The token of the smallest distance, if it is no farther than `reach`; else -1. @param {(token: number) => number} distance @param {number} reach */
  nearest(distance, reach) {
    let [best, least] = [-1, reach];
    for (let token = 0; token < this.size; token++) {
      const far = distance(token);
      if (far <= least) [best, least] = [token, far];
    }
    return best;
  }

  /** A token in words: itself, its position, its colour, and its text. @param {number} token */
  linesOf(token) {
    const { tokens, text, position, texts, colour } = this.header;
    const value = colour.names.length ? colour.names[this.values[token]] : formatNumber(this.values[token]);
    return [tokens[token], `position ${position[token]}`, `${colour.title}: ${value}`, texts[text[token]]];
  }
}
