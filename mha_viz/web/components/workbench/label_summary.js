// @ts-check
// A line below the grid with the number of heads for each label. The menu "View" shows only these heads.

import { make } from "../shared/shared.js";

export class LabelSummary {
  /** @param {import("./bench.js").Bench} bench */
  constructor(bench) {
    this.bench = bench;
    this.root = make("p", "summary");
    this.drawn = "";
  }

  /** Draw the counts where labels are known, and where `room` (pixels) is left for them. */
  draw(room) {
    const { notes, settings } = this.bench;
    const titles = settings.kinds ?? {};
    this.root.hidden = !notes || !Object.keys(titles).length;
    if (this.root.hidden) return;
    const fingerprint = JSON.stringify([notes.id, titles]);
    if (fingerprint !== this.drawn) this.fill(titles);
    this.drawn = fingerprint;
    this.root.hidden = this.root.offsetHeight > room;
  }

  /** @param {Record<string, string>} titles of labels */
  fill(titles) {
    const { ranking, notes } = this.bench;
    const counts = Object.keys(titles).map((kind) => ({ kind, count: ranking.withLabel(kind).length }));
    const earned = counts.filter(({ count }) => count).sort((a, b) => b.count - a.count);
    const items = earned.map(({ kind, count }) => {
      const item = make("span", "count", `${titles[kind]} `);
      item.append(make("b", "", String(count)));
      return item;
    });
    const unlabelled = notes.kinds.filter((labels) => !labels.length).length;
    if (unlabelled) items.push(make("span", "count", `no label ${unlabelled}`));
    this.root.title = this.bench.notes.sentence ?? "";
    this.root.replaceChildren(make("span", "title", "Heads by label"), ...items);
  }
}
