// @ts-check
// Paints the whole plane under a view: far away heads are tiles, near by their matrices.

import { rise } from "./camera.js";
import { MatrixPainter, TOKEN_NAME_WIDTH } from "./matrix_paint.js";
import { formatShort } from "../shared/shared.js";
/* global PALETTE */

const REVEAL_WIDTHS = [230, 360]; // pixels of a head between which its inside appears

export class WorldPainter extends MatrixPainter {
  /** Paints everything under a view; arguments as for `begin`. */
  paint(context, view, size, theme, look) {
    this.begin(context, view, size, theme, look);
    this.paintWays();
    this.paintHeader();
    for (const layer of this.world.layers.keys()) this.paintLayer(layer);
    for (const block of this.world.blocks) if (!HEAD_MATRICES.has(block.kind)) this.paintStrip(block);
    for (const head of this.world.heads) this.paintHead(head);
    this.paintBars();
    this.paintNotes();
    if (look.lens > 0.02) this.paintLens();
    this.paintDim();
    this.paintMarks();
  }

  paintWays() {
    const { context, view } = this;
    for (const { points, soft } of this.world.ways) {
      const at = points.map(([x, y]) => [this.x(x), this.y(y)]);
      context.beginPath();
      at.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
      context.strokeStyle = soft ? PALETTE.gridline[this.theme] : PALETTE.muted[this.theme];
      context.globalAlpha = soft ? 1 : 0.55;
      context.lineWidth = Math.min(Math.max((soft ? 1.5 : 2.2) * view.scale, 1), 5);
      context.lineJoin = "round";
      context.stroke();
      const [[fromX, fromY], [x, y]] = at.slice(-2);
      const turn = Math.atan2(y - fromY, x - fromX);
      const size = Math.min(Math.max(6 * view.scale, 5), 14);
      context.beginPath();
      for (const spread of [0, 2.6, -2.6]) {
        const [dx, dy] = spread ? [Math.cos(turn + spread) * size, Math.sin(turn + spread) * size] : [0, 0];
        if (spread === 0) context.moveTo(x, y);
        else context.lineTo(x + dx, y + dy);
      }
      context.fillStyle = context.strokeStyle;
      context.fill();
      context.globalAlpha = 1;
    }
  }

  paintHeader() {
    const { scale } = this.view;
    const { text, chips } = this.world;
    if (this.boxOnScreen(text)) {
      const { lines, pixels } = this.sentence();
      lines.forEach((line, i) => {
        const y = this.y(text.y + text.height - (lines.length - 1 - i) * 1.3 * pixels - 0.3 * pixels);
        this.scaled(line, this.x(text.x), y, pixels, { weight: 500 });
        if (i < lines.length - 1) return;
        const from = this.x(text.x) + this.context.measureText(`${line} `).width;
        this.context.fillStyle = PALETTE.accent[this.theme];
        this.context.fillRect(from, y + 1.5 * scale, 3.2 * pixels * scale, Math.max(1.5, 1.2 * scale));
      });
    }
    chips.forEach((chip, i) => {
      const box = this.boxOnScreen(chip);
      if (!box) return;
      const last = i === chips.length - 1;
      this.context.fillStyle = PALETTE.sequential[this.theme][1];
      this.context.globalAlpha = 0.55;
      this.context.fillRect(box.x, box.y, box.width, box.height);
      this.context.globalAlpha = 1;
      if (last) this.outline(box, PALETTE.accent[this.theme], 2);
      const [middle, dark] = [box.x + box.width / 2, { align: "center", weight: last ? 650 : 500 }];
      this.scaled(chip.words, middle, box.y + 0.52 * box.height, 9.5, dark);
      this.scaled(String(chip.id), middle, box.y + 0.86 * box.height, 5.5, { align: "center", colour: PALETTE.muted[this.theme] });
    });
  }

  /** The sentence in lines, as large as it fits. */
  sentence() {
    if (this.lines?.family === this.family) return this.lines;
    const { context, world, model } = this;
    const words = model.header.text.split(/\s+/);
    for (const pixels of [26, 22, 18, 15, 12, 10]) {
      context.font = `500 ${10 * pixels}px ${this.family}`;
      const lines = [""];
      for (const word of words) {
        const longer = lines.at(-1) ? `${lines.at(-1)} ${word}` : word;
        if (context.measureText(`${longer} ___`).width <= 10 * world.text.width) lines[lines.length - 1] = longer;
        else lines.push(word);
      }
      this.lines = { lines: lines.filter(Boolean), pixels, family: this.family };
      if (lines.length * 1.3 * pixels <= world.text.height + 6) break;
    }
    return this.lines;
  }

  paintLayer(layer) {
    const { mlps, layers } = this.world;
    const box = this.boxOnScreen(layers[layer]);
    if (!box) return;
    const y = box.y - Math.max(8, 12 * this.view.scale);
    if (box.width > 130) this.write(`Layer ${layer}`, box.x + box.width, y, box.width > 400 ? 15 : 13, { align: "right", weight: 650, halo: true });
    const mlp = this.boxOnScreen(mlps[layer]);
    if (!mlp) return;
    this.context.fillStyle = PALETTE.gridline[this.theme];
    this.context.fillRect(mlp.x, mlp.y, mlp.width, mlp.height);
    const words = "MLP: adds its part too, each token on its own";
    this.scaled(words, mlp.x + mlp.width / 2, mlp.y + 0.72 * mlp.height, 8.5, { align: "center", colour: PALETTE.muted[this.theme] });
  }

  paintNotes() {
    for (const { text, x, y, width } of this.world.notes) {
      const pixels = Math.min(13, Math.max(11, 7.5 * this.view.scale));
      if (this.view.scale < 0.8 || !this.boxOnScreen({ x, y, width: 0.6 * width, height: 8 })) continue;
      this.write(text, Math.max(this.x(x), 6), this.y(y), pixels, { colour: PALETTE.muted[this.theme], alpha: rise(this.view.scale, 0.8, 1), halo: true });
    }
  }

  paintStrip(block) {
    if (block.kind === "guess") return;
    const box = this.paintMatrix(block);
    if (!box) return;
    const row = box.height / block.rows;
    this.outline(box, PALETTE.gridline[this.theme], 1);
    if (block.kind === "final") return;
    this.paintNames(box, block.rows, row);
    if (this.view.scale > 0.8) this.outline({ x: box.x, y: box.y + box.height - row, width: box.width, height: row }, PALETTE.accent[this.theme], 1.5, rise(this.view.scale, 0.8, 1.4));
  }

  paintHead(head) {
    const box = this.boxOnScreen(head);
    if (!box) return;
    const near = rise(box.width, REVEAL_WIDTHS[0], REVEAL_WIDTHS[1]);
    const { layer, head: number } = head;
    const off = this.model.off === layer * this.model.heads + number;
    if (near < 0.98) this.paintTile(head, box, (1 - near) * (off ? 0.25 : 1));
    if (near > 0.02) this.paintInside(head, near * (off ? 0.25 : 1));
    if (off) this.paintOff(box);
    const title = 0.11 * box.width;
    if (title > 6.5) {
      const pixels = Math.min(14, Math.max(9.5, title));
      const labels = this.model.labelsOf(layer, number);
      const name = near > 0.5 ? this.model.name(layer, number) : `H${number}`;
      this.write(name, box.x, box.y + pixels, pixels, { weight: 650 });
      const from = box.x + this.context.measureText(`${name}  `).width;
      const text = near > 0.5 ? labels.join(" · ") : labels[0];
      if (text) this.write(text, from, box.y + pixels, 0.92 * pixels, { colour: PALETTE.muted[this.theme], alpha: rise(title, 6.5, 12) });
    }
  }

  /** The square of a head that is seen from far. */
  tileOf(head) {
    const side = head.height - 13;
    return { x: head.x, y: head.y + 13, width: Math.min(side, head.width - 22), height: Math.min(side, head.width - 22) };
  }

  paintTile(head, box, alpha) {
    const { layer, head: number } = head;
    const tile = this.tileOf(head);
    const block = this.world.block("weight", layer, number);
    const tileBox = this.paintMatrix(block, alpha, tile);
    if (!tileBox) return;
    this.outline(tileBox, PALETTE.gridline[this.theme], 1, alpha);
    if (this.look.effects > 0.02) this.paintEffect(head, tile, alpha * this.look.effects);
  }

  /** Paint the change of the first guess without a head as a bar. */
  paintEffect(head, tile, alpha) {
    const index = head.layer * this.model.heads + head.head;
    const loss = Math.min(Math.max(this.model.arrays.losses[index], 0), 1);
    const bar = this.boxOnScreen({ x: tile.x + tile.width + 4, y: tile.y, width: 12, height: tile.height });
    if (!bar) return;
    const { context } = this;
    context.globalAlpha = alpha;
    context.fillStyle = PALETTE.gridline[this.theme];
    context.fillRect(bar.x, bar.y, bar.width, bar.height);
    context.fillStyle = PALETTE.accent[this.theme];
    context.fillRect(bar.x, bar.y + bar.height * (1 - loss), bar.width, bar.height * loss);
    context.globalAlpha = 1;
  }

  paintInside(head, alpha) {
    const { layer, head: number } = head;
    const [ownLayer, ownHead] = this.model.header.author;
    const isAuthor = layer === ownLayer && number === ownHead;
    for (const kind of HEAD_MATRICES) {
      const block = this.world.block(kind, layer, number);
      const shown = alpha * (isAuthor ? this.look.reveal[kind] ?? 1 : 1);
      const box = this.paintMatrix(block, shown);
      if (!box) continue;
      this.outline(box, PALETTE.gridline[this.theme], 1, shown);
      const row = box.height / block.rows;
      if (kind === "score") this.paintMask(box, block.rows, shown * this.look.mask);
      this.outline({ x: box.x, y: box.y + box.height - row, width: box.width, height: row }, PALETTE.accent[this.theme], 1.5, shown);
      if (shown < 0.5) continue;
      const room = kind === "query" || kind === "score" || 4 * this.view.scale > TOKEN_NAME_WIDTH;
      if (room) this.paintNames(box, block.rows, row);
      if (kind === "score" || kind === "weight") this.paintTops(box, block.cols);
      const under = kind === "score" || kind === "weight" || kind === "z";
      const pixels = Math.min(13, Math.max(10, 2.2 * this.view.scale));
      this.write(MATRIX_NAMES[kind], box.x, under ? box.y + box.height + pixels + 4 : box.y - 5, pixels, { colour: PALETTE.muted[this.theme], alpha: shown });
    }
  }

  paintOff(box) {
    const { context } = this;
    context.strokeStyle = PALETTE.accent[this.theme];
    context.lineWidth = Math.min(Math.max(box.width / 40, 2), 6);
    context.beginPath();
    context.moveTo(box.x, box.y);
    context.lineTo(box.x + box.width, box.y + box.height);
    context.moveTo(box.x + box.width, box.y);
    context.lineTo(box.x, box.y + box.height);
    context.stroke();
  }

  paintBars() {
    const block = this.world.block("guess", 0);
    const box = this.boxOnScreen(block);
    if (!box) return;
    const { context, model } = this;
    const row = box.height / block.rows;
    const before = model.arrays.withAll;
    const now = model.probabilities();
    model.shown(block.rows).forEach((guess, i) => {
      const [y, label] = [box.y + i * row, model.header.guesses[guess]];
      const from = box.x + 0.24 * box.width;
      const wide = 0.6 * box.width;
      this.scaled(label, from - 0.02 * box.width, y + 0.64 * row, 13, { align: "right", weight: i ? 400 : 650 });
      context.fillStyle = PALETTE.gridline[this.theme];
      context.fillRect(from, y + 0.2 * row, wide * before[guess], 0.6 * row);
      context.fillStyle = model.off === null ? PALETTE.sequential[this.theme][6] : PALETTE.accent[this.theme];
      context.fillRect(from, y + 0.2 * row, Math.max(wide * now[guess], 1), 0.6 * row);
      const end = from + wide * Math.max(now[guess], before[guess]);
      this.scaled(formatShort(now[guess]), end + 0.015 * box.width, y + 0.64 * row, 11, { colour: PALETTE.muted[this.theme] });
    });
  }

  /** The guess that each layer's stream would give. */
  paintLens() {
    const { lens } = this.model.header;
    const boxes = this.world.layers.map((layer, i) => this.world.block("stream", i, i ? 0 : 1));
    boxes.push(this.world.block("stream", this.model.layers));
    boxes.forEach((block, index) => {
      const box = this.boxOnScreen(block);
      if (!box) return;
      const [label, p] = lens[index][0];
      const text = `“${label}” ${Math.round(100 * p)} %`;
      const pixels = Math.min(15, Math.max(11, 8 * this.view.scale));
      this.write(text, box.x + box.width, box.y + box.height + pixels + 3, pixels, {
        align: "right", weight: 650, colour: PALETTE.accent[this.theme], alpha: this.look.lens, halo: true,
      });
    });
  }

  paintDim() {
    const { dim, hole } = this.look;
    if (dim < 0.02) return;
    const { context, size } = this;
    const left = Math.max(this.x(hole.x), 0);
    const right = Math.min(this.x(hole.x + hole.width), size.width);
    const top = Math.max(this.y(hole.y), 0);
    const bottom = Math.min(this.y(hole.y + hole.height), size.height);
    context.globalAlpha = 0.8 * dim;
    context.fillStyle = this.paper;
    context.fillRect(0, 0, size.width, top);
    context.fillRect(0, bottom, size.width, Math.max(size.height - bottom, 0));
    context.fillRect(0, top, left, Math.max(bottom - top, 0));
    context.fillRect(right, top, Math.max(size.width - right, 0), Math.max(bottom - top, 0));
    context.globalAlpha = 1;
  }

  paintMarks() {
    const { hover, sources, crosshair, named } = this.look;
    for (const [layer, head] of named) this.paintNamed(layer, head);
    const ink = PALETTE.ink[this.theme];
    for (const source of sources) {
      const same = (block) => block.kind === source.kind && block.layer === source.layer && (source.kind === "stream" || block.head === source.head);
      for (const block of this.world.blocks.filter(same)) this.outlinePart(block, source.row, source.col, PALETTE.qualitative[this.theme][2], 2.5);
    }
    if (hover) this.outlinePart(hover.block, hover.row, hover.col, ink, 2);
    if (!crosshair) return;
    const [x, y] = [this.size.width / 2, this.size.height / 2];
    this.context.fillStyle = ink;
    this.context.fillRect(x - 9, y - 0.75, 18, 1.5);
    this.context.fillRect(x - 0.75, y - 9, 1.5, 18);
  }

  /** Frames a head that the step is about, with its name. */
  paintNamed(layer, head) {
    const headBox = this.world.headBox(layer, head);
    const box = this.boxOnScreen(this.tileOf(headBox));
    if (!box || headBox.width * this.view.scale > REVEAL_WIDTHS[0]) return;
    this.outline(box, PALETTE.ink[this.theme], 2.5);
    this.write(this.model.name(layer, head), box.x - 2, box.y - 6, 13, { weight: 700, halo: true });
  }
}

const HEAD_MATRICES = new Set(["query", "key", "value", "score", "weight", "z"]);
const MATRIX_NAMES = { query: "queries", key: "keys", value: "values", score: "scores", weight: "weights", z: "result" };
