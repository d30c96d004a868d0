// @ts-check
// The order of the heads: by a quantity, among those with a label. Draws nothing.

import { formatNumber } from "../shared/shared.js";

export const AMONG = "among"; // order of heads by how much the chosen tokens look at each other

export class HeadRanking {
  /** @param {import("./bench.js").Bench} bench */
  constructor(bench) {
    this.bench = bench;
  }

  /** Orders of heads: name -> title. @type {Record<string, string>} */
  get titles() {
    const { measured, settings } = this.bench;
    return measured?.titles ?? settings.titles ?? {};
  }

  /** The quantity that heads are sorted by: its title and a value for each head; null for none. */
  get fact() {
    const { view, weights, facts, settings } = this.bench;
    const { sort, query, key } = view;
    if (!sort) return null;
    if (sort === "pair") {
      if (query < 0 || key < 0) return null;
      weights.exact.requestAll();
      return { title: "Weight of the pair", values: weights.ofPair(query, key) };
    }
    const title = this.titles[sort];
    if (title && facts[title]) return { title, values: facts[title] };
    const isCurrent = settings.view?.sort === sort && (sort !== AMONG || String(settings.view.tokens) === String(view.tokens));
    return (isCurrent && settings.fact) || null;
  }

  /** Numbers of the heads with a label; of all heads for "". @param {string} label @returns {number[]} */
  withLabel(label) {
    const { notes, weights } = this.bench;
    const heads = [...Array(weights.count).keys()];
    return label ? heads.filter((head) => notes?.kinds[head]?.includes(label)) : heads;
  }

  /** Numbers of the heads to be drawn in the order of the ranking; null for all, by layer. */
  get order() {
    const { only, sort, least } = this.bench.view;
    const { fact } = this;
    if (!only && !fact) return null;
    const heads = this.withLabel(only);
    if (!fact) return heads;
    const value = (head) => fact.values[head] ?? -Infinity;
    const minimum = sort === "pair" ? 0 : Number(least ?? 0);
    const enough = minimum > 0 ? heads.filter((head) => value(head) >= minimum) : heads;
    return enough.sort((a, b) => value(b) - value(a) || a - b);
  }

  /** Why no head is drawn: none has the chosen label, or none reaches the least value. */
  get whyNone() {
    const { only, least } = this.bench.view;
    const kind = only ? " of that kind" : "";
    const { fact } = this;
    const values = this.withLabel(only).map((head) => fact?.values[head] ?? null);
    if (!fact || !values.length) return `No head${kind} on this text.`;
    const defined = values.filter((value) => value !== null);
    if (!defined.length) return `${fact.title} is not defined for any head${kind} on this text.`;
    return `No head${kind} reaches ${least} in ${fact.title}: the largest is ${formatNumber(Math.max(...defined))}.`;
  }
}
