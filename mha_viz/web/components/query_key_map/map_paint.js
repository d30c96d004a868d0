// @ts-check
// Maps as pixels: every query a disc, every key a diamond. Knows numbers and pixels, no elements.

import { KEY, QUERY } from "./map_model.js";
import { rgbOf } from "../shared/shared.js";
/* global PALETTE */

const SMALL_DOTS = [[1000, 0], [100, 1], [0, 1.5]]; // tokens -> radius of a point in a small map
const LARGE_DOTS = [[1000, 1.5], [150, 2.5], [0, 4]]; // likewise in the large one

/** The radius of a point in CSS pixels. @param {number} tokens @param {boolean} large */
export function radiusOf(tokens, large) {
  return (large ? LARGE_DOTS : SMALL_DOTS).find(([least]) => tokens >= least)[1];
}

/** The pixels of a disc or an open diamond, as steps right and down from its middle. */
export function stampOf(kind, radius) {
  const offsets = [];
  const reach = Math.round(radius * 1.4);
  for (let down = -reach; down <= reach; down++) {
    for (let right = -reach; right <= reach; right++) {
      const far = Math.abs(right) + Math.abs(down);
      const inside = kind === QUERY ? right * right + down * down <= radius * radius + 0.5 : far <= reach;
      if (inside && (kind === QUERY || radius < 2 || far > reach - Math.max(1.5, radius / 2))) offsets.push([right, down]);
    }
  }
  return offsets;
}

/**
 * A function that fills pixels with a head's map.
 * @param {Uint32Array} pixels width * width of them
 * @param {number} width
 * @param {import("./map_model.js").MapModel} model
 * @param {{ radius: number, kinds: number[], theme: "light" | "dark", paper: number }} look
 */
export function mapPainter(pixels, width, model, { radius, kinds, theme, paper }) {
  const { tokens } = model.header;
  const margin = Math.ceil(radius * 1.4) + 1;
  const scale = (width - 1 - 2 * margin) / 65535;
  const stamps = [QUERY, KEY].map((kind) => stampOf(kind, radius).map(([right, down]) => down * width + right));
  const colours = [QUERY, KEY].map((kind) => pixelOf(PALETTE.qualitative[theme][kind]));
  return (head) => {
    pixels.fill(paper);
    for (const kind of [KEY, QUERY].filter((drawnKind) => kinds.includes(drawnKind))) {
      const [stamp, colour] = [stamps[kind], colours[kind]];
      const first = 2 * (2 * head + kind) * tokens;
      for (let at = first; at < first + 2 * tokens; at += 2) {
        const x = (margin + model.coordinates[at] * scale + 0.5) | 0;
        const middle = ((margin + model.coordinates[at + 1] * scale + 0.5) | 0) * width + x;
        for (let i = 0; i < stamp.length; i++) pixels[middle + stamp[i]] = colour;
      }
    }
  };
}

/** "#rrggbb" as a pixel for a Uint32Array over ImageData. @param {string} hex */
export function pixelOf(hex) {
  const [red, green, blue] = rgbOf(hex);
  return (0xff000000 | (blue << 16) | (green << 8) | red) >>> 0;
}

/** The pixel of a coordinate in [0, 1] on a canvas that is so wide, as `mapPainter` paints it. */
export function onCanvas(coordinate, width, radius) {
  const margin = Math.ceil(radius * 1.4) + 1;
  return margin + coordinate * (width - 1 - 2 * margin);
}
