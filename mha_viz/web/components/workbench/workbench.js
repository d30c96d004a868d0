// @ts-check
// The workbench: a line in words, and the grid of all heads beside the chosen one. What a person does is drawn here at
// once; Python hears of it afterwards.

import { benchOf } from "./bench.js";
import { Divider } from "./divider.js";
import { GridView } from "./grid_view.js";
import { HeadView } from "./head_view.js";
import { LineView } from "./line_view.js";
import { PredictionView } from "./prediction_view.js";
import { ScoreView } from "./score_view.js";
import { setPending } from "../shared/readiness.js";
import { payloadStore } from "../shared/payload_store.js";
import { endOf, enlargement, make, roomBelow, themeOf, viewOf } from "../shared/shared.js";
/* global PALETTE */

const WINDOW_MARGIN = 14; // pixels that stay free at the window's lower edge

class Workbench {
  constructor(parent, data) {
    this.bench = benchOf(data.name);
    this.bench.outbox.clear();
    this.root = make("div", "workbench");
    this.message = make("div", "mha message");
    this.message.setAttribute("role", "status");
    const [grid, head] = [new GridView(this.bench, Boolean(data.guide)), new HeadView(this.bench)];
    const line = new LineView(this.bench);
    const [prediction, score] = [new PredictionView(this.bench), new ScoreView(this.bench)];
    this.views = [line, prediction, grid, head, score];
    this.divider = new Divider(this.root, data.guide ? document : this.root, () => this.redraw());
    this.root.append(this.message, line.root, prediction.root, grid.root, this.divider.root, head.root, score.root);
    parent.append(this.root);
    this.bench.panels = { grid: grid.root, head: head.root, score: score.root };
    this.picture = `picture ${data.name}`;
    this.listen();
  }

  update(data, emit) {
    this.data = data;
    this.emit = emit;
    if (data.error) {
      setPending(this.picture, false);
      return this.say(data.error);
    }
    this.bench.receive(data, emit);
    return this.draw();
  }

  draw() {
    const { byId } = payloadStore();
    const { bench } = this;
    const same = bench.payload && bench.payloadId === this.data?.payload;
    const payload = byId.get(this.data?.payload) ?? (same ? bench.payload : null);
    setPending(this.picture, !payload);
    if (!payload) return bench.payload ? undefined : this.say("Drawing …");
    this.drawnExtent = this.extent();
    try {
      bench.adopt(payload);
      bench.payloadId = this.data.payload;
      bench.notes = byId.get(`${this.data.payload} notes`)?.header ?? (same ? bench.notes : null);
      bench.measured = byId.get(`${this.data.payload} facts`)?.header ?? (same ? bench.measured : null);
      bench.twins = byId.get(`${this.data.payload} twins`)?.header.twins ?? (same ? bench.twins : null);
      bench.prediction = byId.get(`${this.data.payload} prediction`)?.header ?? (same ? bench.prediction : null);
      this.takeExact(byId);
      this.root.style.setProperty("--accent", PALETTE.accent[themeOf(this.root)]);
      this.message.hidden = true;
      this.divider.root.hidden = false;
      for (const view of this.views) {
        view.root.hidden = false; // one that has nothing to show hides itself
        view.height = this.height(view.root);
        view.draw();
      }
    } catch (error) {
      this.say(`This picture cannot be drawn: ${error.message}`);
    }
    return undefined;
  }

  /** Exact weights that came by themselves: of a head, of a part of it, or from one token in all heads. */
  takeExact(byId) {
    for (const { header, body } of byId.values()) {
      if (header.of !== this.data.payload) continue;
      if (header.kind === "head") this.bench.weights.take(header, body);
      if (header.kind === "row") this.bench.weights.takeRow(header, body);
      this.bench.extras.take({ header, body });
    }
  }

  say(text) {
    this.message.textContent = text;
    this.message.hidden = false;
    for (const { root } of [...this.views, this.divider]) root.hidden = true;
  }

  /** The layout's width and scale, on which the heights of all parts depend. */
  extent() {
    return `${this.root.clientWidth} ${enlargement(this.root)}`;
  }

  /** The height that Python names, or that of the window below a part, as tall on a projector as without. */
  height(part) {
    const room = roomBelow(part, WINDOW_MARGIN);
    return this.data.height || (room && room + innerHeight * (1 - 1 / enlargement(part)));
  }

  listen() {
    this.redraw = () => this.data && this.draw();
    this.bench.listeners.add(this.redraw);
    this.arrived = (id) => id.startsWith(this.data?.payload) && this.draw();
    payloadStore().listeners.add(this.arrived);
    globalThis.addEventListener("resize", this.redraw);
    this.resized = new ResizeObserver(() => this.extent() !== this.drawnExtent && this.redraw());
    this.resized.observe(this.root);
    this.schemes = matchMedia("(prefers-color-scheme: dark)");
    this.schemes.addEventListener("change", this.redraw);
  }

  close() {
    setPending(this.picture, false);
    this.bench.listeners.delete(this.redraw);
    payloadStore().listeners.delete(this.arrived);
    globalThis.removeEventListener("resize", this.redraw);
    this.resized.disconnect();
    this.schemes.removeEventListener("change", this.redraw);
    for (const view of [...this.views, this.divider]) view.close();
  }
}

export default function workbench(component) {
  const { parentElement, data, setTriggerValue } = component;
  const view = viewOf(parentElement, "workbench", () => new Workbench(parentElement, data));
  view.update(data, (value) => setTriggerValue("view", value));
  return endOf(parentElement, "workbench");
}
