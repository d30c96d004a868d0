// @ts-check
// The largest weights of a head as a table; of one row where a query is chosen.

import { loneRows, strongestOf } from "./head_facts.js";
import { formatShort, formatWeight, make, tokenElement } from "../shared/shared.js";

const MAX_PAIRS = 40;

export class PairsView {
  /** @param {import("./bench.js").Bench} bench */
  constructor(bench) {
    this.bench = bench;
    this.root = make("div", "pairs");
    this.root.tabIndex = 0; // to be scrolled by keys, too
  }

  /** @type {(head: number) => void} */
  draw(head) {
    const { bench } = this;
    const { weights, part } = bench;
    const { header } = weights.shown;
    const { top, left } = part ?? { top: 0, left: 0 };
    const columns = part?.cols ?? header.keys;
    const values = weights.partOf(head, part);
    const { query } = bench.pair;
    const exact = weights.knows(head, part);
    const inside = query >= top && query < top + values.length / columns;
    let pairs = strongestOf(values, columns, inside ? values.length : MAX_PAIRS)
      .map((pair) => ({ ...pair, query: pair.query + top, key: pair.key + left }));
    if (inside) pairs = pairs.filter((pair) => pair.query === query);
    const table = make("table");
    const among = part ? " among the tokens that are shown" : "";
    const caption = inside
      ? `All weights of “${header.query_labels[query]}”${among}`
      : `The ${pairs.length} largest weights${among}${top > 0 ? "" : this.aside(head)}`;
    table.append(make("caption", "", exact ? caption : `${caption}, approximate until they are fetched`));
    const titles = make("tr");
    titles.append(...["Looks", "at", "Weight"].map((text) => Object.assign(make("th", "", text), { scope: "col" })));
    table.append(titles, ...pairs.map((pair) => this.row(header, pair, exact)));
    this.root.replaceChildren(table);
  }

  /** A remark on a weight that is 1 in every head. */
  aside(head) {
    const { weights } = this.bench;
    const codes = weights.picture(head);
    const lone = codes ? loneRows(codes, weights.shown.header.keys) : 0;
    return lone ? "; the first token sees only itself, so that its weight is 1 in every head" : "";
  }

  row(header, { query, key, weight }, exact) {
    const row = make("tr");
    const token = (side, position) => {
      const cell = make("td");
      cell.append(tokenElement(header[`${side}_labels`][position], header[`${side}_special`][position]), make("sub", "position", String(position)));
      return cell;
    };
    const number = make("td", "weight");
    const bar = make("span", "bar");
    bar.style.width = `${(Math.min(1, weight) * 60).toFixed(2)}%`;
    const line = make("div", "bar-line");
    line.append(make("span", "number", exact ? formatWeight(weight) : `≈ ${formatShort(weight)}`), bar);
    number.append(line);
    row.append(token("query", query), token("key", key), number);
    row.addEventListener("click", () => this.bench.choosePair({ query, key }));
    return row;
  }
}
