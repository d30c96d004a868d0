// @ts-check
// One sentence through a model: a picture that is walked through step by step, or wandered about in.

import { eased, viewOn, wayBetween, zoomed } from "./camera.js";
import { MatrixImages } from "./matrix_images.js";
import { storyOf } from "./number_story.js";
import { SentenceModel } from "./sentence_model.js";
import { StoryPanel } from "./story_panel.js";
import { sceneOf } from "./story_steps.js";
import { Wandering } from "./wandering.js";
import { World } from "./world_layout.js";
import { WorldPainter } from "./world_paint.js";
import { unpack } from "../shared/payload_store.js";
import { clearCanvas, endOf, keyedCanvas, make, roomBelow, themeOf, viewOf } from "../shared/shared.js";

/* global PALETTE */

const MIN_MOTION_MS = 450; // milliseconds of a way, and for a unit of its length
const MS_PER_LENGTH = 420;
const MAX_MOTION_MS = 1700;
const PHONE_HEIGHT = 400; // pixels
const MAX_HEIGHT = 660;

/** The step that the address names, counted from 0. @param {number} count of the steps */
function stepInAddress(count) {
  const step = Number(new URLSearchParams(location.search).get("step") ?? 1);
  return Number.isInteger(step) && step >= 1 && step <= count ? step - 1 : 0;
}

const lessMotion = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

class FirstSentence {
  constructor(parent) {
    this.root = make("div", "mha first-sentence");
    this.stage = make("div", "stage");
    this.canvas = keyedCanvas("picture", "picture of one sentence in a model");
    this.tip = make("div", "tip");
    this.tip.hidden = true;
    this.panel = new StoryPanel({
      go: (step) => this.go(step),
      off: (head) => this.switchOff(head),
      open: (page) => this.tell("way", page),
    });
    /** Sends a step to Python, which writes it into the address. @type {(name: string, value: any) => void} */
    this.tell = () => {};
    this.tools = make("div", "tools");
    this.tools.append(
      this.tool("+", "Zoom in", () => this.zoom(1.6)),
      this.tool("−", "Zoom out", () => this.zoom(1 / 1.6)),
      this.tool("⌖", "Back to the step", () => this.go(this.step)),
    );
    this.stage.append(this.canvas, this.tools, this.tip);
    this.root.append(this.panel.root, this.stage);
    parent.append(this.root);
    this.model = null;
    this.id = "";
    this.step = 0;
    this.frame = 0;
    /** @type {{ start: number, time: number, at: (share: number) => any, from: any, to: any } | null} */
    this.motion = null;
    this.view = { x: 0, y: 0, scale: 1 };
    this.size = { width: 0, height: 0 };
    this.pointed = null;
    this.crosshair = false;
    /** @type {"light" | "dark" | null} */
    this.theme = null;
    this.preparing = 0;
    this.wandering = new Wandering(this.canvas, this);
    this.onKey = (event) => this.key(event);
    this.root.addEventListener("keydown", this.onKey);
    this.onPageKey = (event) => document.activeElement === document.body && this.key(event);
    addEventListener("keydown", this.onPageKey);
    this.onHistory = () => this.model && this.show(stepInAddress(this.model.header.steps.length));
    addEventListener("popstate", this.onHistory);
    this.resized = new ResizeObserver(() => this.resize());
    this.resized.observe(this.root);
  }

  tool(sign, name, act) {
    const button = make("button", "tool", sign);
    button.title = name;
    button.setAttribute("aria-label", name);
    button.addEventListener("click", act);
    return button;
  }

  /** @param {Uint8Array} bytes @param {(name: string, value: any) => void} tell */
  update(bytes, tell) {
    this.tell = tell;
    const { header, body } = unpack(bytes);
    if (header.id !== this.id) {
      this.id = header.id;
      this.model = new SentenceModel(header, body);
      this.world = new World(this.model);
      this.painter = new WorldPainter(this.world, new MatrixImages(this.model));
      this.panel.take(this.model);
      this.panel.showWords(false);
      this.pointed = null;
      this.tip.hidden = true;
      this.canvas.setAttribute(
        "aria-label",
        `${header.title}. Left and right go from step to step, plus and minus zoom, shift and an arrow moves the picture ` +
          "and reads the number in its middle, Escape goes back to the step.",
      );
      this.size = { width: 0, height: 0 };
      this.start(stepInAddress(header.steps.length));
      this.prepare();
    }
    this.resize();
  }

  /** Begins at a step, without a way to it. */
  start(step) {
    this.step = step;
    this.scene = sceneOf(this.world, this.stepKey());
    this.look = { ...this.scene.look };
    this.panel.show(step, false);
    this.offAt(this.stepKey());
    this.root.dataset.step = this.stepKey();
  }

  /** Switches off what the step is about. @param {string} key */
  offAt(key) {
    const [layer, head] = this.model.header.carrier;
    this.setOff(key === "off" ? layer * this.model.heads + head : null);
  }

  stepKey() {
    return this.model.header.steps[this.step].key;
  }

  // -- steps ----------------------------------------------------------------------------------------

  go(step) {
    const { steps } = this.model.header;
    if (step < 0 || step >= steps.length) return;
    if (step !== this.step) this.tell("step", { to: step, playing: false });
    this.show(step);
  }

  show(step) {
    this.step = step;
    const key = this.stepKey();
    this.scene = sceneOf(this.world, key);
    this.panel.show(step, true);
    this.point(null);
    this.crosshair = false;
    this.offAt(key);
    if (innerWidth < 640) this.root.scrollIntoView({ block: "start" }); // else the picture may be out of sight
    this.travel(this.target());
    this.root.dataset.step = key;
  }

  target() {
    return viewOn(this.scene.box, this.size.width, this.size.height);
  }

  /** Goes to a view, and to the look of the step on the way. */
  travel(view) {
    const way = wayBetween(this.view, view, this.size.width);
    const time = lessMotion() ? 0 : Math.min(MIN_MOTION_MS + MS_PER_LENGTH * way.length, MAX_MOTION_MS);
    const [from, to] = [this.look, this.scene.look];
    if (time) this.motion = { start: performance.now(), time, at: way.at, from, to };
    else {
      this.motion = null;
      Object.assign(this, { view, look: { ...to } });
    }
    this.draw();
  }

  /** Stop the motion: the visitor moves the picture. */
  interrupt() {
    this.motion = null;
    this.look = { ...this.scene.look, dim: 0, hole: this.scene.look.hole };
  }

  switchOff(head) {
    this.setOff(head);
    this.panel.showWords(true);
    this.draw();
  }

  setOff(head) {
    const from = this.model.probabilities();
    this.model.off = head;
    if (from !== this.model.probabilities()) this.panel.showWords(false);
  }

  // -- wandering ------------------------------------------------------------------------------------

  zoom(factor, x = this.size.width / 2, y = this.size.height / 2) {
    this.interrupt();
    this.view = zoomed(this.view, factor, x, y, this.size.width, this.size.height);
    this.draw();
  }

  move(dx, dy) {
    this.interrupt();
    const { x, y, scale } = this.view;
    const { bounds } = this.world;
    const inside = (value, low, high) => Math.min(Math.max(value, low), high);
    this.view = {
      x: inside(x - dx / scale, bounds.x, bounds.x + bounds.width),
      y: inside(y - dy / scale, bounds.y, bounds.y + bounds.height),
      scale,
    };
    this.draw();
  }

  /** Show what the number at a point of the canvas was made of; null hides it. */
  point(at) {
    const { view, size, world, model } = this;
    const cell = at && world.find(view.x + (at.x - size.width / 2) / view.scale, view.y + (at.y - size.height / 2) / view.scale, (block) => this.isShown(block));
    const same = cell && this.pointed && cell.block === this.pointed.block && cell.row === this.pointed.row && cell.col === this.pointed.col;
    if (!cell || !same) {
      this.pointed = cell;
      this.story = cell && storyOf(model, cell.block, cell.block.kind === "guess" ? model.shown(cell.block.rows)[cell.row] : cell.row, cell.col);
      if (cell) this.tip.replaceChildren(make("div", "tip-title", this.story.title), ...this.story.lines.map((line) => make("div", "", line)));
      this.draw();
    }
    this.tip.hidden = !cell;
    if (!cell) return;
    const [wide, high] = [this.tip.offsetWidth, this.tip.offsetHeight];
    const left = at.x + 18 + wide > size.width ? at.x - 18 - wide : at.x + 18;
    this.tip.style.left = `${Math.max(6, Math.min(left, size.width - wide - 6))}px`;
    this.tip.style.top = `${Math.max(6, at.y + 18 + high > size.height ? at.y - 18 - high : at.y + 18)}px`;
  }

  /** Tell whether a matrix can be pointed at: one inside a head only where it is visible. */
  isShown(block) {
    const inner = ["query", "key", "value", "score", "weight", "z"].includes(block.kind);
    if (!inner) return true;
    if (104 * this.view.scale < 300) return false;
    const [layer, head] = this.model.header.author;
    return block.layer !== layer || block.head !== head || this.look.reveal[block.kind] > 0.5;
  }

  key(event) {
    if (!this.model || event.altKey || event.metaKey || event.ctrlKey) return;
    if (event.target.closest?.("input, textarea, [contenteditable]")) return;
    const moves = { ArrowLeft: [90, 0], ArrowRight: [-90, 0], ArrowUp: [0, 90], ArrowDown: [0, -90] };
    const last = this.model.header.steps.length - 1;
    const steps = { ArrowRight: this.step + 1, ArrowLeft: this.step - 1, Home: 0, End: last, Escape: this.step };
    if (event.shiftKey && event.key in moves) this.readOut(() => this.move(...moves[event.key]));
    else if (event.key === "+" || event.key === "=") this.readOut(() => this.zoom(1.6));
    else if (event.key === "-") this.readOut(() => this.zoom(1 / 1.6));
    else if (!event.shiftKey && event.key in steps) this.go(steps[event.key]);
    else return;
    event.preventDefault();
  }

  /** Moves by the keyboard, and reads out the number in the middle. */
  readOut(act) {
    this.crosshair = true;
    act();
    this.point({ x: this.size.width / 2, y: this.size.height / 2 });
    if (this.pointed) this.panel.say(`${this.story.title}. ${this.story.lines.join(" ")}`);
  }

  // -- drawing --------------------------------------------------------------------------------------

  resize() {
    const width = this.stage.clientWidth;
    if (!this.model || width < 40) return;
    const room = roomBelow(this.root, 14);
    const height = room === undefined ? PHONE_HEIGHT : Math.min(room, MAX_HEIGHT);
    if (width !== this.size.width || height !== this.size.height) {
      this.size = { width, height };
      this.motion = null;
      this.view = this.target();
      this.look = { ...this.scene.look };
    }
    this.draw();
  }

  draw() {
    this.frame ||= requestAnimationFrame((now) => this.paint(now));
  }

  paint(now) {
    this.frame = 0;
    if (!this.size.width) return;
    if (this.motion) this.follow(now);
    const { context } = clearCanvas(this.canvas, this.size.width, this.size.height);
    if (!this.motion || !this.theme) this.readStyle(); // which takes longer than a frame of a way
    const stepMarks = this.motion ? { hover: null, sources: [] } : this.scene.marks;
    const marks = this.pointed ? { hover: this.pointed, sources: this.story.sources } : stepMarks;
    this.painter.paint(context, this.view, this.size, this.theme, { ...this.look, ...marks, named: this.scene.named, crosshair: this.crosshair, moving: Boolean(this.motion) });
    if (this.motion) this.draw();
  }

  /** Reads colours and type of the page. */
  readStyle() {
    const style = getComputedStyle(this.root);
    this.theme = themeOf(this.root);
    this.painter.family = style.fontFamily || "sans-serif";
    this.painter.paper = style.getPropertyValue("--st-background-color").trim() || "#ffffff";
    this.painter.larger = (parseFloat(getComputedStyle(document.documentElement).fontSize) || 16) / 16;
    this.root.style.setProperty("--accent", PALETTE.accent[this.theme]);
  }

  /** Makes pictures that are not needed yet, a few at a time, so that no step waits for them. */
  prepare() {
    clearTimeout(this.preparing);
    const { images } = this.painter;
    const left = this.world.blocks.filter((block) => block.kind !== "guess" && !images.has(block));
    const next = () => {
      if (!this.motion && this.theme) for (const block of left.splice(0, 6)) images.of(block, this.theme);
      if (left.length) this.preparing = setTimeout(next, 30);
    };
    this.preparing = setTimeout(next, 200);
  }

  follow(now) {
    const { start, time, at, from, to } = this.motion;
    const share = Math.min(Math.max((now - start) / time, 0), 1);
    this.view = at(eased(share));
    const mixed = (before, after) => before + (after - before) * share;
    const reveal = Object.fromEntries(Object.keys(to.reveal).map((kind) => [kind, mixed(from.reveal[kind], to.reveal[kind])]));
    const hole = Object.fromEntries(Object.keys(to.hole).map((side) => [side, mixed(from.hole[side], to.hole[side])]));
    const shares = Object.fromEntries(["mask", "dim", "effects", "lens"].map((name) => [name, mixed(from[name], to[name])]));
    this.look = /** @type {any} */ ({ ...shares, reveal, hole });
    if (share === 1) {
      this.motion = null;
      this.look = { ...to };
    }
  }

  close() {
    removeEventListener("keydown", this.onPageKey);
    removeEventListener("popstate", this.onHistory);
    this.resized.disconnect();
    cancelAnimationFrame(this.frame);
    clearTimeout(this.preparing);
  }
}

export default function firstSentence({ parentElement, data, setTriggerValue }) {
  const view = viewOf(parentElement, "firstSentence", () => new FirstSentence(parentElement));
  if (data instanceof Uint8Array) view.update(data, setTriggerValue);
  return endOf(parentElement, "firstSentence");
}
