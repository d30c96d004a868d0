// @ts-check
// The chosen head over many texts: its labels with intervals, and its attention by
// distance and by kind of key.

import { formatNumber, formatWeight, make } from "../shared/shared.js";

export class GeneralView {
  constructor() {
    this.root = make("div", "general");
    this.root.hidden = true;
  }

  /**
   * @param {any} data the numbers of the head; null where they are not shown over many texts
   * @param {string} name the head's
   */
  draw(data, name) {
    this.root.hidden = !data;
    if (!data) return;
    const { labels, offsets, kinds } = data.general;
    const words = labels.map(labelInWords).join(" ") || "It earns no label on these texts.";
    const line = make("p", "in-general");
    line.append(make("b", "", `${name} over ${data.texts}. `), words);
    const pictures = make("div", "profiles");
    pictures.append(
      bars("Mean weight by offset of the key", offsets, "0 is the token itself; a key counts where it exists."),
      bars("Mean weight by kind of key", kinds, "Of all the weight of a query."),
    );
    const unusual = data.unusual ? [make("p", "among-texts", data.unusual)] : [];
    this.root.replaceChildren(line, ...unusual, pictures);
  }
}

function labelInWords({ title, mean, low, high, share_of_texts: share }) {
  return `${title}: ${formatNumber(mean)} (95 % interval ${formatNumber(low)} to ${formatNumber(high)}), on ${formatNumber(100 * share)} % of the texts.`;
}

/** A table of shares with a bar each. @type {(title: string, shares: [string, number][], note: string) => HTMLElement} */
function bars(title, shares, note) {
  const table = make("table", "shares");
  const caption = make("caption", "", title);
  caption.title = note;
  const most = Math.max(...shares.map(([, weight]) => weight), 1e-9);
  const rows = shares.map(([name, weight]) => {
    const row = make("tr");
    const track = make("td", "track");
    const fill = make("div", "fill");
    fill.style.width = `${(100 * weight) / most}%`;
    track.append(fill);
    row.append(Object.assign(make("th", "", name), { scope: "row" }), track, make("td", "weight", formatWeight(weight)));
    return row;
  });
  table.append(caption, ...rows);
  return table;
}
