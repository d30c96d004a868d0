// @ts-check
// The page of a head: its example texts with arcs, its spaces, and the workbench on a text.

import { SpacePlots } from "./space_plots.js";
import { TextBench } from "./text_bench.js";
import sentenceArcs from "../sentence_arcs/sentence_arcs.js";
import { formatNumber, make } from "../shared/shared.js";

export class AtlasHead {
  /** @param {any} data layer, head, arcs of each text, and spaces: see mha_viz/atlas/head_page.py */
  constructor(data) {
    /** Tokens of each text, and whether its weights are there. @type {Record<string, any>} */
    this.texts = globalThis.mhaAtlas.texts;
    this.data = data;
    this.bench = new TextBench(data, document.getElementById("bench"));
    if (data.spaces.axes) this.spaces = new SpacePlots(data.spaces);
    for (const element of document.querySelectorAll("[data-text]")) this.drawExample(/** @type {HTMLElement} */ (element));
    globalThis.addEventListener("hashchange", () => this.follow());
    this.follow();
  }

  /** @param {HTMLElement} element of an example */
  drawExample(element) {
    const id = element.dataset.text;
    const { tokens, special, hasWeights } = this.texts[id];
    const pieces = tokens.map((text, at) => ({ text, special: Boolean(special[at]) }));
    const above = this.data.arcs[id].map(([start, end, weight]) => ({
      start, end, weight, label: "", marked: false, says: `${tokens[start]} → ${tokens[end]} ${formatNumber(weight)}`,
    }));
    const arcs = make("div");
    element.append(arcs);
    sentenceArcs({ parentElement: arcs, data: { pieces, above, below: [] } });
    if (!hasWeights) return;
    const link = make("a", "open", "All heads on this text");
    link.href = `#text-${id}`;
    element.querySelector("p").append(" ", link);
  }

  /** Opens the text that the address names. */
  follow() {
    const id = location.hash.match(/^#text-(\d+)$/)?.[1];
    if (id && this.texts[id]?.hasWeights) this.bench.open(id);
  }
}
