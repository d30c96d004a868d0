// @ts-check
// Texts of every decile of a head's score, with its weights as arcs; and a text of one's own among them.

import { ArcLine } from "../sentence_arcs/arc_line.js";
import { endOf, make, themeOf, viewOf } from "../shared/shared.js";
/* global PALETTE */

const ARC_STEP = 7; // pixels from one level of arcs to the next: three texts a row, ten rows

class DecileTexts {
  constructor(parent) {
    this.root = make("div", "mha decile-texts");
    /** @type {ArcLine[]} */
    this.lines = [];
    /** Lines, and the texts that they will draw. @type {[ArcLine, any][]} */
    this.waiting = [];
    parent.append(this.root);
  }

  /** @param {any} data see mha_viz/ui/widgets/components/decile_texts.py */
  update(data) {
    this.close();
    this.root.style.setProperty("--accent", PALETTE.accent[themeOf(this.root)]);
    const { bands, typed } = data;
    this.root.replaceChildren(...bands.flatMap((band) => {
      const rows = [this.band(band, typed)];
      if (typed && typed.band === band.number) rows.push(this.typed(typed));
      return rows;
    }));
    // A band without texts has no row: one's own text stands at the end.
    if (typed && !bands.some((band) => band.number === typed.band)) this.root.append(this.typed(typed));
    for (const [line, text] of this.waiting) line.update(text);
    this.root.dataset.painted = String(this.lines.length);
  }

  /** The row of a band: what it is, and its texts. */
  band(band, typed) {
    const row = make("section", "band");
    row.setAttribute("aria-label", `Decile ${band.number}`);
    const about = make("div", "about");
    about.append(make("b", "", String(band.number)), make("span", "scores", band.scores));
    about.append(track(band, typed), make("span", "", band.n_texts));
    const texts = make("div", "texts");
    texts.append(...band.texts.map((text) => this.text(text)));
    row.append(about, texts);
    return row;
  }

  /** The row of one's own text. */
  typed(typed) {
    const row = make("section", "band typed");
    row.setAttribute("aria-label", typed.title);
    const about = make("div", "about");
    about.append(make("b", "", typed.title));
    const texts = make("div", "texts");
    texts.append(this.text(typed));
    row.append(about, texts);
    return row;
  }

  /** A text: what it scores, a link to it, and its tokens with arcs, which are drawn once it is in the page. */
  text(text) {
    const cell = make("div", "text");
    const says = make("div", "says", text.says);
    const link = make("a", "", "Open in Heads");
    Object.assign(link, { href: text.address, target: "_blank", rel: "noopener" });
    says.append(" ", link);
    cell.append(says);
    const line = new ArcLine(cell, ARC_STEP);
    this.lines.push(line);
    this.waiting.push([line, text]);
    return cell;
  }

  close() {
    for (const line of this.lines) line.close();
    [this.lines, this.waiting] = [[], []];
  }
}

/** A bar with the scores of a band among all, and the mark of the typed text's score. */
function track(band, typed) {
  const scoreTrack = make("div", "track");
  scoreTrack.setAttribute("aria-hidden", "true");
  const bar = make("i");
  bar.style.left = `${100 * band.from}%`;
  bar.style.width = `${100 * (band.to - band.from)}%`;
  scoreTrack.append(bar);
  if (typed) {
    const mark = make("i", "mark");
    mark.style.left = `${100 * typed.at}%`;
    scoreTrack.append(mark);
  }
  return scoreTrack;
}

export default function decileTexts({ parentElement, data }) {
  const view = viewOf(parentElement, "decileTexts", () => new DecileTexts(parentElement));
  view.update(data);
  return endOf(parentElement, "decileTexts");
}
