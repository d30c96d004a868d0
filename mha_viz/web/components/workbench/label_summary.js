// @ts-check
// How many heads have each label, as buttons that show only these heads. Below the grid.

import { make } from "../shared/shared.js";

export class LabelSummary {
  /** @param {import("./bench.js").Bench} bench */
  constructor(bench) {
    this.bench = bench;
    this.root = make("div", "summary");
    this.root.setAttribute("role", "group");
    this.root.setAttribute("aria-label", "Heads by label");
    this.drawn = "";
    this.root.addEventListener("click", (event) => {
      const kind = event.target.closest("button")?.dataset.kind;
      if (kind) bench.chooseKind(kind === bench.view.only ? "" : kind);
    });
  }

  /** Draw the counts where labels are known, and where `room` (pixels) is left for them. */
  draw(room) {
    const { known, settings, view } = this.bench;
    const titles = settings.kinds ?? {};
    this.root.hidden = !known || !Object.keys(titles).length;
    if (this.root.hidden) return;
    const looks = JSON.stringify([known.id, titles, view.only]);
    if (looks !== this.drawn) this.fill(known.kinds, titles, view.only);
    this.drawn = looks;
    this.root.hidden = this.root.offsetHeight > room;
  }

  /**
   * @param {string[][]} kinds labels of each head
   * @param {Record<string, string>} titles of labels
   * @param {string} only the label whose heads are shown; "" for all
   */
  fill(kinds, titles, only) {
    const counts = Object.keys(titles).map((kind) => ({ kind, n: kinds.filter((own) => own.includes(kind)).length }));
    const earned = counts.filter(({ n }) => n).sort((a, b) => b.n - a.n);
    const buttons = earned.map(({ kind, n }) => {
      const button = make("button", "button");
      button.type = "button";
      button.dataset.kind = kind;
      button.setAttribute("aria-pressed", String(kind === only));
      button.append(titles[kind], make("b", "", String(n)));
      return button;
    });
    const none = kinds.filter((own) => !own.length).length;
    const rest = none ? [make("span", "none", `no label ${none}`)] : [];
    const title = make("span", "title", "Heads by label");
    title.title = this.bench.known.sentence ?? "";
    this.root.replaceChildren(title, ...buttons, ...rest);
  }
}
