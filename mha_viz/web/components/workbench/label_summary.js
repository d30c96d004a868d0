// @ts-check
// How many heads have each label, in a line below the grid. The menu "View" shows only these heads.

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
    const { known, settings } = this.bench;
    const titles = settings.kinds ?? {};
    this.root.hidden = !known || !Object.keys(titles).length;
    if (this.root.hidden) return;
    const looks = JSON.stringify([known.id, titles]);
    if (looks !== this.drawn) this.fill(titles);
    this.drawn = looks;
    this.root.hidden = this.root.offsetHeight > room;
  }

  /** @param {Record<string, string>} titles of labels */
  fill(titles) {
    const { ranking, known } = this.bench;
    const counts = Object.keys(titles).map((kind) => ({ kind, count: ranking.withLabel(kind).length }));
    const earned = counts.filter(({ count }) => count).sort((a, b) => b.count - a.count);
    const items = earned.map(({ kind, count }) => {
      const item = make("span", "count", `${titles[kind]} `);
      item.append(make("b", "", String(count)));
      return item;
    });
    const unlabelled = known.kinds.filter((labels) => !labels.length).length;
    if (unlabelled) items.push(make("span", "count", `no label ${unlabelled}`));
    this.root.title = this.bench.known.sentence ?? "";
    this.root.replaceChildren(make("span", "title", "Heads by label"), ...items);
  }
}
