// @ts-check
// The layout of the picture on one plane, in units of its own; y goes downwards.
//
// The text comes in at the upper left, layers lie to the right of it and back in the row below, and the
// next word comes out at the lower left.

/**
 * @typedef {import("./sentence_model.js").Matrix} Matrix
 * @typedef {{ x: number, y: number, width: number, height: number }} Box
 * @typedef {Matrix & Box} Block
 * @typedef {Box & { layer: number, head: number, side: number }} HeadBox `side` of its small matrices
 */

const STREAM_WIDTH = 452; // of the stream's rows
const COLUMN_STEP = STREAM_WIDTH + 110;
const STREAM_ROW = 4; // the height of a row of the stream
const THIN_ROW = 2; // and of rows that are read less
const HEAD_GAP = 12;
const MATRIX_SIDE = 32; // the side of a head's small matrices, at most
const HEAD_SIZE = 3 * MATRIX_SIDE + 8;
const HEAD_TOP = 13; // its name and the names of matrices
const N_GUESSES = 6;
const GUESS_HEIGHT = 26;

/** @param {Box[]} boxes @param {number} margin @returns {Box} */
export function around(boxes, margin = 0) {
  const [left, top] = ["x", "y"].map((side) => Math.min(...boxes.map((box) => box[side])) - margin);
  const right = Math.max(...boxes.map((box) => box.x + box.width)) + margin;
  const bottom = Math.max(...boxes.map((box) => box.y + box.height)) + margin;
  return { x: left, y: top, width: right - left, height: bottom - top };
}

export class World {
  /** @param {import("./sentence_model.js").SentenceModel} model */
  constructor(model) {
    this.model = model;
    /** @type {Block[]} */ this.blocks = [];
    /** @type {HeadBox[]} */ this.heads = [];
    /** @type {(Box & { words: string, id: number })[]} */ this.chips = [];
    /** @type {{ text: string, x: number, y: number, width: number }[]} */ this.notes = [];
    /** @type {{ points: [number, number][], soft?: boolean }[]} */ this.ways = [];
    /** @type {Box[]} */ this.layers = [];
    /** @type {Box[]} */ this.headRows = []; // where the heads of each layer lie
    /** @type {Box[]} */ this.mlps = [];
    const n = model.tokens;
    this.side = Math.min(MATRIX_SIDE / n, 4) * n;
    this.layHeader();
    const below = Math.max(this.headerBottom, this.layerHeight()) + 120;
    const corners = [[1, 0], [2, 0], [2, below], [1, below]];
    for (let layer = 0; layer < model.layers; layer++) this.layLayer(layer, corners[layer][0] * COLUMN_STEP, corners[layer][1]);
    this.layPrediction(0, below);
    this.connect();
    this.bounds = around([this.text, ...this.layers, this.prediction], 42);
  }

  /** Puts a matrix somewhere. */
  put(kind, layer, head, rows, cols, x, y, width, height) {
    const block = { kind, layer, head, rows, cols, x, y, width, height };
    this.blocks.push(block);
    return block;
  }

  /** @returns {Block} */
  block(kind, layer, head = 0) {
    return this.blocks.find((block) => block.kind === kind && block.layer === layer && block.head === head);
  }

  /** @returns {HeadBox} */
  headBox(layer, head) {
    return this.heads[layer * this.model.heads + head];
  }

  layHeader() {
    const { tokens, width, header } = this.model;
    this.text = { x: 0, y: 0, width: STREAM_WIDTH, height: 64 };
    let [x, y] = [0, 92];
    header.tokens.forEach((words, i) => {
      const wide = 10 + 6.4 * Math.max(3, [...words].length);
      if (x + wide > STREAM_WIDTH) [x, y] = [0, y + 30];
      this.chips.push({ words, id: header.ids[i], x, y, width: wide, height: 22 });
      x += wide + 5;
    });
    this.chipBox = around(this.chips);
    const high = STREAM_ROW * tokens;
    y = this.chipBox.y + this.chipBox.height + 34;
    const strip = (kind, top) => this.put(kind, 0, 0, tokens, width, 0, top, STREAM_WIDTH, high);
    this.embedded = [strip("token", y), strip("position", y + high + 20), strip("stream", y + 2 * high + 40)];
    this.note("One vector for each token", this.embedded[0]);
    this.note("+ one for its position", this.embedded[1]);
    this.note("= what enters the first layer", this.embedded[2]);
    this.headerBottom = y + 3 * high + 40;
  }

  note(text, box) {
    this.notes.push({ text, x: box.x, y: box.y - 4, width: STREAM_WIDTH });
  }

  layerHeight() {
    const n = this.model.tokens;
    return STREAM_ROW * n + 26 + 2 * this.headHeight() + 16 + 3 * (THIN_ROW * n + 20) + 20;
  }

  headHeight() {
    return HEAD_TOP + 2 * this.side + 12;
  }

  layLayer(layer, x, y) {
    const { tokens, width, heads } = this.model;
    const [top, thin] = [y, THIN_ROW * tokens];
    const stream = this.put("stream", layer, layer ? 0 : 1, tokens, width, x, y, STREAM_WIDTH, STREAM_ROW * tokens);
    this.note("The stream: what each token has become so far", stream);
    y += STREAM_ROW * tokens + 26;
    const first = y;
    for (let head = 0; head < heads; head++) {
      if (head === heads / 2) y += this.headHeight() + 14;
      this.layHead(layer, head, x + (head % (heads / 2)) * (HEAD_SIZE + HEAD_GAP), y);
    }
    y += this.headHeight() + 20;
    const joined = this.put("joined", layer, 0, tokens, width, x, y, STREAM_WIDTH, thin);
    this.note("The eight results side by side", joined);
    y += thin + 20;
    const attention = this.put("attention", layer, 0, tokens, width, x, y, STREAM_WIDTH, thin);
    this.note("× W_O: what attention adds", attention);
    y += thin + 20;
    const after = this.put("after", layer, 0, tokens, width, x, y, STREAM_WIDTH, thin);
    this.note("stream + attention", after);
    y += thin + 10;
    const mlp = { x, y, width: STREAM_WIDTH, height: 12 };
    this.layers[layer] = { x, y: top, width: STREAM_WIDTH, height: y + 12 - top };
    this.headRows[layer] = { x, y: first, width: STREAM_WIDTH, height: 2 * this.headHeight() + 14 };
    this.mlps[layer] = mlp;
  }

  layHead(layer, head, x, y) {
    const { tokens, depth } = this.model;
    const { side } = this;
    this.heads.push({ layer, head, x, y, width: HEAD_SIZE, height: this.headHeight(), side });
    const [upper, lower] = [y + HEAD_TOP, y + HEAD_TOP + side + 12];
    const [second, third] = [x + MATRIX_SIDE + 4, x + 2 * (MATRIX_SIDE + 4)];
    const put = (kind, cols, left, top, wide) => this.put(kind, layer, head, tokens, cols, left, top, wide, side);
    put("query", depth, x, upper, MATRIX_SIDE);
    put("key", depth, second, upper, MATRIX_SIDE);
    put("value", depth, third, upper, MATRIX_SIDE);
    put("score", tokens, x, lower, side);
    put("weight", tokens, second, lower, side);
    put("z", depth, third, lower, MATRIX_SIDE);
  }

  layPrediction(x, y) {
    const { model } = this;
    this.put("stream", model.layers, 0, model.tokens, model.width, x, y, STREAM_WIDTH, STREAM_ROW * model.tokens);
    this.note("What leaves the last layer", { x, y });
    const last = y + STREAM_ROW * model.tokens + 36;
    this.put("final", 0, 0, 1, model.width, x, last, STREAM_WIDTH, 14);
    this.note("The last row: the next word is read from it", { x, y: last });
    this.bars = { x, y: last + 44, width: STREAM_WIDTH, height: GUESS_HEIGHT * N_GUESSES };
    this.put("guess", 0, 0, N_GUESSES, 1, x, this.bars.y, STREAM_WIDTH, this.bars.height);
    this.note("× the vector of every token, then softmax", { x, y: this.bars.y - 4 });
    this.prediction = { x, y, width: STREAM_WIDTH, height: this.bars.y + this.bars.height - y };
  }

  /** Lines along which numbers go from block to block. */
  connect() {
    const { layers } = this.model;
    const middle = STREAM_WIDTH / 2;
    const from = this.embedded[2];
    const gutter = (x) => x - 55;
    const enter = (box, x) => [[x, box.y - 22], [box.x + middle, box.y - 22], [box.x + middle, box.y - 3]];
    const leave = (box) => [box.x + middle, box.y + box.height + 2];
    const first = this.layers[0];
    this.addWay([[from.x + STREAM_WIDTH + 3, from.y + from.height / 2], [gutter(first.x), from.y + from.height / 2], ...enter(first, gutter(first.x))]);
    for (let layer = 0; layer < layers; layer++) {
      const box = this.layers[layer];
      const next = layer + 1 < layers ? this.layers[layer + 1] : this.prediction;
      const [x, y] = leave(box);
      if (next.x === box.x) this.addWay([[x, y], [x, next.y - 3]]);
      else {
        const side = next.x > box.x ? gutter(next.x) : gutter(box.x);
        this.addWay([[x, y], [x, y + 16], [side, y + 16], ...enter(next, side)]);
      }
      const after = this.block("after", layer);
      const line = box.x - 16;
      this.ways.push({ points: [[box.x - 2, box.y + 8], [line, box.y + 8], [line, after.y + after.height / 2], [box.x - 3, after.y + after.height / 2]], soft: true });
    }
  }

  addWay(points) {
    this.ways.push({ points });
  }

  /**
   * The matrix at a point, with row and column; null where there is none.
   * @param {number} x @param {number} y @param {(block: Block) => boolean} accept
   */
  find(x, y, accept) {
    for (const block of this.blocks) {
      if (x < block.x || y < block.y || x >= block.x + block.width || y >= block.y + block.height || !accept(block)) continue;
      return {
        block,
        row: Math.floor(((y - block.y) / block.height) * block.rows),
        col: Math.floor(((x - block.x) / block.width) * block.cols),
      };
    }
    return null;
  }
}
