// @ts-check
// The queries and keys of all heads as numbers: where they lie, what is near, what a query weighs.

export const QUERY = 0;
export const KEY = 1;
const CONTEXT_TOKENS = 6; // tokens before and behind one that are its sentence

/** A query or a key of a token. @typedef {{ kind: number, token: number }} Spot */

export class MapModel {
  /**
   * @param {any} header layers, heads, tokens, top, labels, special, text
   * @param {Uint8Array} body see `map_payload` in mha_viz/web/payload.py
   */
  constructor(header, body) {
    this.header = header;
    const { layers, heads, tokens, top } = header;
    const { buffer } = body.slice(); // where arrays of all types may begin
    const points = layers * heads * 4 * tokens;
    const pairs = layers * heads * tokens * top;
    this.coordinates = new Uint16Array(buffer, 0, points);
    this.strongest = new Uint16Array(buffer, 2 * points, pairs);
    this.codes = new Uint8Array(buffer, 2 * (points + pairs), pairs);
  }

  /** The coordinates of a head's query or key, both in [0, 1], downwards. @type {(head: number, spot: Spot) => [number, number]} */
  pointOf(head, { kind, token }) {
    const at = 2 * ((2 * head + kind) * this.header.tokens + token);
    return [this.coordinates[at] / 65535, this.coordinates[at + 1] / 65535];
  }

  /** The keys that a query weighs most, the largest weight first. @type {(head: number, token: number) => { token: number, weight: number }[]} */
  keysOf(head, token) {
    const { tokens, top } = this.header;
    const first = (head * tokens + token) * top;
    const all = Array.from({ length: top }, (_, i) => ({
      token: this.strongest[first + i], weight: (this.codes[first + i] / 255) ** 2,
    }));
    return all.filter(({ weight }) => weight > 0);
  }

  /** The queries that have a key among the ones they weigh most, the largest weight first. */
  queriesOf(head, key) {
    const queries = [];
    for (let token = 0; token < this.header.tokens; token++) {
      const pair = this.keysOf(head, token).find((candidate) => candidate.token === key);
      if (pair) queries.push({ token, weight: pair.weight });
    }
    return queries.sort((a, b) => b.weight - a.weight).slice(0, 2 * this.header.top);
  }

  /** The nearest point of some kinds, at most so far away; null where there is none. */
  nearest(head, x, y, most, kinds) {
    const { tokens } = this.header;
    let [least, closest] = [(65535 * most) ** 2, null];
    for (const kind of kinds) {
      const first = 2 * (2 * head + kind) * tokens;
      for (let token = 0; token < tokens; token++) {
        const [dx, dy] = [this.coordinates[first + 2 * token] - 65535 * x, this.coordinates[first + 2 * token + 1] - 65535 * y];
        if (dx * dx + dy * dy >= least) continue;
        least = dx * dx + dy * dy;
        closest = { kind, token };
      }
    }
    return closest;
  }

  /** The tokens whose label has a text in it. @type {(text: string) => number[]} */
  search(text) {
    const wanted = text.trim().toLowerCase();
    const all = wanted ? [...this.header.labels.keys()] : [];
    return all.filter((token) => this.header.labels[token].toLowerCase().includes(wanted));
  }

  /** A token's position in its text. @param {number} token */
  positionOf(token) {
    return token - this.header.text.indexOf(this.header.text[token]);
  }

  /** The words before a token in its text, and behind it. @param {number} token */
  sentenceOf(token) {
    const { labels, text } = this.header;
    const inside = (from, to) => labels.slice(Math.max(from, 0), to).filter((_, i) => text[Math.max(from, 0) + i] === text[token]);
    return [inside(token - CONTEXT_TOKENS, token), inside(token + 1, token + 1 + CONTEXT_TOKENS)].map((part) => part.join(" "));
  }

  /** A pair's weight, as short as its byte is exact. @param {number} weight */
  weightText(weight) {
    return weight < 0.005 ? "< 0.01" : weight.toFixed(2);
  }

  /** A point in words. @param {number} head @param {Spot} spot */
  linesOf(head, { kind, token }) {
    const { labels, text } = this.header;
    const [before, behind] = this.sentenceOf(token);
    const pairs = kind === QUERY ? this.keysOf(head, token) : this.queriesOf(head, token);
    const several = text.at(-1) > 0 ? ` of text ${text[token] + 1}` : "";
    const neighbours = pairs.map((pair) => `${labels[pair.token]} ${this.weightText(pair.weight)}`);
    const most = kind === QUERY ? "looks at" : "is looked at by";
    return [
      `${kind === QUERY ? "query" : "key"} “${labels[token]}”, position ${this.positionOf(token)}${several}`,
      [before, labels[token], behind].filter(Boolean).join(" "),
      neighbours.length ? `${most} ${neighbours.join(", ")}` : "no query has it among the keys it looks at most",
    ];
  }
}
