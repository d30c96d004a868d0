// @ts-check
// A text while a model writes it: back, play, step; each token with its probability and what else
// might have stood there. What is written is decided on the server; a click asks for it.

import { Player } from "./play_button.js";
import { endOf, make, makeButton, viewOf } from "../shared/shared.js";
import { otherButton, placed, tokenButton } from "./written_parts.js";

class WrittenText {
  constructor(parent) {
    this.root = make("div", "mha written-text");
    this.controls = make("div", "controls");
    this.controls.setAttribute("role", "group");
    this.controls.setAttribute("aria-label", "Write");
    this.back = makeButton("press", "Back", () => this.move(-1));
    this.controls.append(this.back);
    this.player = new Player(this.controls);
    this.step = makeButton("press", "Step", () => this.move(1));
    this.status = make("span", "said");
    this.status.setAttribute("role", "status");
    this.controls.append(this.step, this.status);
    this.pieces = make("div", "pieces");
    this.pieces.setAttribute("role", "group");
    this.pieces.setAttribute("aria-label", "Written tokens");
    this.alternatives = make("div", "others");
    this.root.append(this.controls, this.pieces, this.alternatives);
    parent.append(this.root);
    /** @type {number | null} the token that is looked at; null is the one that comes next */
    this.selected = null;
    /** @type {any} */
    this.data = null;
    /** @type {any} */
    this.emit = null;
  }

  /** @param {any} data see mha_viz/ui/widgets/components/written_text.py */
  update(data, emit) {
    this.data = data;
    this.emit = emit;
    const { tokens, last } = data;
    if (this.selected !== null && this.selected >= tokens.length) this.selected = null;
    this.back.disabled = tokens.length === 0;
    this.step.disabled = tokens.length >= last;
    this.status.textContent = data.said;
    this.player.update({ at: tokens.length, last, "what": "write on" }, (step) => emit("step", step));
    this.draw();
  }

  draw() {
    const { tokens, coming } = this.data;
    const focused = this.pieces.contains(this.root.getRootNode().activeElement);
    const positions = [...tokens.keys(), ...(coming ? [null] : [])];
    const buttons = positions.map((position) => this.piece(position));
    this.pieces.replaceChildren(...buttons);
    if (focused) buttons[positions.indexOf(this.selected)]?.focus();
    this.drawOthers();
  }

  piece(position) {
    const token = position === null ? this.data.coming : this.data.tokens[position];
    const button = tokenButton(token, position === null, position === this.selected);
    button.addEventListener("click", () => {
      this.selected = position;
      this.draw();
    });
    return button;
  }

  drawOthers() {
    const { tokens, coming, drawing } = this.data;
    const token = this.selected === null ? coming : tokens[this.selected];
    this.alternatives.hidden = !token;
    if (!token) return;
    const title = make("p", "title");
    title.append(make("bdi", "token", token.text), placed(token, this.selected === null, drawing));
    const choices = make("div", "choices");
    choices.append(...token.others.map((other) => {
      const button = otherButton(other, drawing);
      button.addEventListener("click", () => this.branch(token.position, other.id));
      return button;
    }));
    this.alternatives.replaceChildren(title, choices);
  }

  move(by) {
    this.player.halt();
    this.emit("step", { to: this.data.tokens.length + by, playing: false });
  }

  branch(at, id) {
    this.player.halt();
    this.selected = null;
    this.emit("branch", { at, id });
  }

  close() {
    this.player.close();
  }
}

export default function writtenText({ parentElement, data, setTriggerValue }) {
  const view = viewOf(parentElement, "writtenText", () => new WrittenText(parentElement));
  view.update(data, setTriggerValue);
  return endOf(parentElement, "writtenText");
}
