// @ts-check
// The line between the grid and the chosen head: dragged, it shares out the width; the key F shows
// the head alone. The browser remembers both.

import { make } from "../shared/shared.js";

const STORAGE_KEY = "mha_viz.grid_share"; // in the browser's storage: percent of the width that the grid has
const DEFAULT_PERCENT = 38; // the head has three fifths, beside the line and the gaps
const [MIN_PERCENT, MAX_PERCENT] = [15, 75];
const KEY_STEP_PERCENT = 2; // percent
const TYPED_INTO = "input, textarea, select, [contenteditable]";

export class Divider {
  /**
   * @param {HTMLElement} workbench whose columns it sets
   * @param {EventTarget} keyboard where F is heard: a notebook has keys of its own
   * @param {() => void} redraw
   */
  constructor(workbench, keyboard, redraw) {
    this.workbench = workbench;
    this.keyboard = keyboard;
    this.redraw = redraw;
    this.root = make("div", "divider");
    this.root.setAttribute("role", "separator");
    this.root.setAttribute("aria-orientation", "vertical");
    this.root.setAttribute("aria-label", "Width of the grid");
    this.root.title = "Drag to share out the width; F shows the head alone";
    this.root.tabIndex = 0;
    this.share(stored());
    this.listen();
  }

  /** @param {number} percent of the width that the grid gets */
  share(percent) {
    this.percent = Math.min(Math.max(percent, MIN_PERCENT), MAX_PERCENT);
    this.workbench.style.setProperty("--grid", `${this.percent}fr`);
    this.workbench.style.setProperty("--head", `${100 - this.percent}fr`);
    this.root.setAttribute("aria-valuenow", String(Math.round(this.percent)));
  }

  choose(percent) {
    this.share(percent);
    store(this.percent);
    this.redraw();
  }

  listen() {
    const { root } = this;
    root.addEventListener("pointerdown", (event) => {
      if (event.button > 0) return;
      root.setPointerCapture?.(event.pointerId);
      this.isDragged = true;
      event.preventDefault();
    });
    root.addEventListener("pointermove", (event) => {
      if (!this.isDragged) return;
      const { left, width } = this.workbench.getBoundingClientRect();
      this.share((100 * (event.clientX - left)) / width);
      this.redraw();
    });
    for (const kind of ["pointerup", "pointercancel"]) {
      root.addEventListener(kind, () => {
        if (this.isDragged) store(this.percent);
        this.isDragged = false;
      });
    }
    root.addEventListener("dblclick", () => this.choose(DEFAULT_PERCENT));
    root.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -KEY_STEP_PERCENT, ArrowRight: KEY_STEP_PERCENT }[event.key];
      if (!step) return;
      this.choose(this.percent + step);
      event.preventDefault();
    });
    this.key = (event) => this.toggle(event);
    this.keyboard.addEventListener("keydown", this.key);
  }

  toggle(event) {
    const isTyped = event.composedPath().some((target) => target.matches?.(TYPED_INTO));
    if (isTyped || event.ctrlKey || event.metaKey || event.altKey) return;
    const isAlone = this.workbench.classList.contains("alone");
    if (event.key.toLowerCase() !== "f" && !(event.key === "Escape" && isAlone)) return;
    this.workbench.classList.toggle("alone");
    event.preventDefault();
    event.stopPropagation();
    this.redraw();
  }

  close() {
    this.keyboard.removeEventListener("keydown", this.key);
  }
}

function stored() {
  try {
    return Number(globalThis.localStorage.getItem(STORAGE_KEY)) || DEFAULT_PERCENT;
  } catch {
    return DEFAULT_PERCENT; // storage is switched off
  }
}

/** @param {number} percent */
function store(percent) {
  try {
    globalThis.localStorage.setItem(STORAGE_KEY, String(percent));
  } catch {
    // Storage is switched off: the next visit begins with the usual widths.
  }
}
