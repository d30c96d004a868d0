// @ts-check
// The part of the picture that each step shows, and how.

import { around } from "./world_layout.js";

const PARTS = ["query", "key", "value", "score", "weight", "z"];
// The first of the head's parts are there at a step; at all other steps all of them.
const REVEALED = { head: 3, scores: 4, mask: 4, softmax: 5, values: 6 };
const OPEN = new Set(["layers", "carrier", "off", "ways"]); // the steps that show everything alike

/**
 * @param {import("./world_layout.js").World} world
 * @param {string} key of the step
 */
export function sceneOf(world, key) {
  const { model } = world;
  const [layer, head] = model.header.author;
  const last = model.tokens - 1;
  const best = bestKey(model);
  const part = (kind) => world.block(kind, layer, head);
  const at = (kind, row, col) => ({ kind, layer, head, row, col });
  const spot = (kind, row, col) => ({ block: part(kind), row, col });
  const withNames = (box, wide) => ({ ...box, x: box.x - wide, width: box.width + wide });
  const lower = (kind) => lowest(part(kind), model.tokens);
  const boxes = {
    question: () => around([world.text], 26),
    tokens: () => around([world.text, world.chipBox], 22),
    vectors: () => withNames(around(world.embedded, 16), 50),
    head: () => withNames(around([{ ...part("query"), y: world.headBox(layer, head).y }, part("value")], 6), 6),
    scores: () => lower("score"),
    mask: () => withNames(around([part("score")], 9), 4),
    softmax: () => lower("weight"),
    values: () => around([part("weight"), part("value"), part("z")], 3.5),
    heads: () => around([world.headRows[layer]], 16),
    sum: () => around([world.layers[layer]], 24),
    prediction: () => around([world.prediction], 24),
  };
  const marks = {
    scores: { hover: spot("score", last, best), sources: [] },
    softmax: { hover: spot("weight", last, best), sources: [] },
    values: { hover: null, sources: [at("weight", last), at("value", best), at("z", last)] },
  };
  const box = (boxes[key] ?? (() => world.bounds))();
  const revealed = REVEALED[key] ?? PARTS.length;
  const named = { layers: [], carrier: [model.header.carrier], off: [model.header.carrier, model.header.author] };
  return {
    box,
    named: named[key] ?? [],
    look: {
      mask: key === "head" || key === "scores" ? 0 : 1,
      reveal: Object.fromEntries(PARTS.map((name, i) => [name, Number(i < revealed)])),
      dim: Number(!OPEN.has(key)),
      hole: key === "scores" || key === "softmax" ? { ...box, y: box.y - 20, height: box.height + 20 } : box,
      effects: Number(key === "carrier" || key === "off"),
      lens: Number(OPEN.has(key) && key !== "off"),
    },
    marks: marks[key] ?? { hover: null, sources: [] },
  };
}

/** The key that the last token of the followed head looks at most. */
export function bestKey(model) {
  const row = model.row("weight", ...model.header.author, model.tokens - 1);
  return row.indexOf(Math.max(...row));
}

/** The last rows of a square matrix, near enough for its numbers to be read, with room for names. */
function lowest(block, tokens) {
  const cell = block.width / tokens;
  const high = Math.min(block.height, 12 * cell) + 3;
  return { x: block.x - 5 * cell, y: block.y + block.height - high + 3, width: block.width + 6 * cell, height: high };
}
