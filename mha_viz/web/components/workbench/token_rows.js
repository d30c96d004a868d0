// @ts-check
// Attention of every head from one token: a row a head, a column a token, the strongest first.

import { clearCanvas, colourAt, make, makeButton, scaleWeight, tokenElement } from "../shared/shared.js";
/* global PALETTE */

const STRIP_HEIGHT = 14; // pixels of a head's cells

export class TokenRows {
  /**
   * @param {(head: number) => void} choose
   * @param {() => void} leave goes back to the tiles
   */
  constructor(choose, leave) {
    this.root = make("div", "token-rows");
    this.title = make("div", "title");
    this.back = makeButton("button", "Show tiles", leave);
    this.list = make("div", "list");
    this.list.setAttribute("role", "group");
    this.list.addEventListener("click", (event) => {
      const row = event.target.closest("button");
      if (row) choose(Number(row.dataset.head));
    });
    this.list.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!step) return;
      const rows = [...this.list.children];
      rows[rows.indexOf(event.target.closest("button")) + step]?.focus();
      event.preventDefault();
    });
    const top = make("div", "top");
    top.append(this.title, this.back);
    this.root.append(top, this.list);
  }

  /**
   * @param {any} scene header, query (its position), rows (head, name, label, weights over the keys or
   * null), chosen, scale, theme, height (of the list; undefined for none)
   */
  draw({ header, query, rows, chosen, scale, theme, height }) {
    const token = header.query_labels[query];
    this.title.replaceChildren("Where each head looks from ", tokenElement(token, header.query_special[query]), ", the strongest first");
    this.list.setAttribute("aria-label", `Heads by their largest weight from ${token}`);
    this.list.style.maxHeight = height ? `${height}px` : "";
    const ranked = rows.filter(({ weights }) => weights).map((row) => ({ ...row, ...strongestKey(row.weights) }));
    ranked.sort((first, second) => second.weight - first.weight || first.head - second.head);
    const fingerprint = JSON.stringify([header.id, query, scale, theme, ranked.map(({ head, label, weight }) => [head, label, weight]), this.list.clientWidth]);
    if (fingerprint !== this.drawn) {
      this.list.replaceChildren(...ranked.map((row) => tokenRowElement(row, header)));
      for (const [at, button] of [...this.list.children].entries()) {
        paintStrip(button.querySelector("canvas"), ranked[at].weights, scale, theme);
      }
      this.drawn = fingerprint;
    }
    for (const button of this.list.children) button.setAttribute("aria-pressed", String(Number(button.dataset.head) === chosen));
  }
}

/** The key with the largest weight. @param {ArrayLike<number>} weights */
function strongestKey(weights) {
  let key = 0;
  for (let at = 1; at < weights.length; at++) if (weights[at] > weights[key]) key = at;
  return { key, weight: weights[key] };
}

function tokenRowElement({ head, name, label, key, weight }, header) {
  const button = make("button", "row");
  button.dataset.head = head;
  const end = make("span", "end");
  end.append(tokenElement(header.key_labels[key], header.key_special[key]), make("b", "", weight.toFixed(2)));
  button.append(make("span", "name", name), make("span", "label", label), make("canvas", "strip"), end);
  return button;
}

/** Paint a row's cells; where there are more keys than pixels, each pixel is the largest of its keys. */
function paintStrip(canvas, weights, scale, theme) {
  const width = canvas.clientWidth || 100;
  const { context, ratio } = clearCanvas(canvas, width, STRIP_HEIGHT);
  const [wide, high] = [Math.round(width * ratio), Math.round(STRIP_HEIGHT * ratio)];
  const cells = Math.min(weights.length, wide);
  for (let cell = 0; cell < cells; cell++) {
    const [from, to] = [cell, cell + 1].map((at) => Math.floor((at * weights.length) / cells));
    const largest = Math.max(...weights.slice(from, Math.max(to, from + 1)));
    const [left, right] = [cell, cell + 1].map((at) => Math.round((at * wide) / cells));
    context.fillStyle = `rgb(${colourAt(scaleWeight(largest, scale), PALETTE.sequential[theme]).join(" ")})`;
    context.fillRect(left / ratio, 0, (right - left) / ratio, high / ratio);
  }
}
