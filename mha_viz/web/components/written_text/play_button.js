// @ts-check
// A button that plays what the server draws: the next value is asked for when the one before has
// been drawn, so that a slow machine shows all of them, more slowly.
// Nothing moves before a click. Who has asked the system for less motion goes on by a click each.

import { make, makeButton } from "../shared/shared.js";

const MIN_FRAME_MS = 300; // ms for which each value is shown at least

/**
 * The value after a click; the last one is followed by the first.
 * @param {number} at
 * @param {number} last
 * @returns {number}
 */
export const nextOf = (at, last) => (at >= last ? 0 : at + 1);

/**
 * The button's label.
 * @param {boolean} playing
 * @param {boolean} less whether less motion was asked for
 * @returns {string}
 */
export function labelOf(playing, less) {
  if (less) return "Next";
  return playing ? "Pause" : "Play";
}

export class Player {
  constructor(parent) {
    this.root = make("div", "mha player");
    this.button = makeButton("press", "", () => this.press());
    this.root.append(this.button);
    parent.append(this.root);
    this.playing = false;
    this.timer = 0;
    this.at = 0;
    this.last = 0;
    this.action = "";
    /** @type {any} hands a step to Python */
    this.emit = null;
    this.wish = matchMedia("(prefers-reduced-motion: reduce)");
    this.wished = () => {
      if (this.playing) this.pause();
      this.draw();
    };
    this.wish.addEventListener("change", this.wished);
  }

  update({ at, last, what: action }, emit) {
    this.at = at;
    this.last = last;
    this.action = action;
    this.emit = emit;
    clearTimeout(this.timer);
    if (this.playing && at >= last) this.pause(); // the last value came sooner than was known
    else if (this.playing) this.timer = setTimeout(() => this.go(), MIN_FRAME_MS);
    this.draw();
  }

  draw() {
    const label = labelOf(this.playing, this.wish.matches);
    this.button.textContent = label;
    this.button.setAttribute("aria-label", `${label}: ${this.action}`);
  }

  press() {
    if (this.playing) {
      this.pause();
    } else {
      this.playing = !this.wish.matches;
      this.go();
    }
  }

  /** Go to the next value; stop at the last one. */
  go() {
    const to = nextOf(this.at, this.last);
    this.playing = this.playing && to < this.last;
    this.emit({ to, playing: this.playing });
    this.draw();
  }

  /** Stop, and tell Python: now the address may be written. */
  pause() {
    this.halt();
    this.emit({ to: this.at, playing: false });
  }

  /** Stop without telling Python. */
  halt() {
    clearTimeout(this.timer);
    this.playing = false;
    this.draw();
  }

  close() {
    clearTimeout(this.timer);
    this.wish.removeEventListener("change", this.wished);
  }
}
