// @ts-check
// The exact weight behind a cell: fetched when first asked for, one head at a time where large.
// Knows a payload's header and the network; draws nothing.

import { setPending } from "../shared/readiness.js";
import { formatCode, formatWeight } from "../shared/shared.js";

const MAX_BYTES_AT_ONCE = 4e6; // below this many bytes all heads come at once
const MAX_RESPONSE_BYTES = 6.4e7; // a server that knows no ranges must not send more than this

/** Reads exact weights of one payload; `changed` is called when new ones have arrived. */
export class ExactWeights {
  constructor(header, changed) {
    this.header = header;
    this.changed = changed;
    this.heads = new Map(); // head number -> Float32Array, or null while on its way
    this.url = sameOrigin(header.exact_url);
    this.headBytes = header.queries * header.keys * 4;
    this.total = header.layers * header.heads * this.headBytes;
  }

  /**
   * The weights of a head, or null while they are not there.
   * @param {number} head
   * @returns {Float32Array | null}
   */
  of(head) {
    return this.heads.get(head) ?? null;
  }

  request(head) {
    if (!this.url || this.heads.has(head)) return;
    const loadsAll = this.total <= MAX_BYTES_AT_ONCE;
    const count = this.header.layers * this.header.heads;
    const requestedHeads = loadsAll ? [...Array(count).keys()] : [head];
    for (const requestedHead of requestedHeads) if (!this.heads.has(requestedHead)) this.heads.set(requestedHead, null);
    const name = `weights ${this.url} ${head}`;
    setPending(name, true);
    this.load(loadsAll ? 0 : head, requestedHeads.length)
      .catch(() => {
        this.url = null; // the approximate weight stays on screen and says that it is one
      })
      .finally(() => setPending(name, false));
  }

  /** All heads, where they are few bytes: for what is computed of every head. */
  requestAll() {
    if (this.total > MAX_BYTES_AT_ONCE) return;
    const count = this.header.layers * this.header.heads;
    for (let head = 0; head < count; head++) this.request(head); // the first one fetches them all
  }

  async load(first, count) {
    const start = first * this.headBytes;
    const end = start + count * this.headBytes - 1;
    const response = await fetch(this.url, { headers: { Range: `bytes=${start}-${end}` } });
    if (!response.ok) throw new Error(`status ${response.status}`);
    if (response.status === 206) return this.keep(first, count, await response.arrayBuffer());
    if (this.total > MAX_RESPONSE_BYTES) {
      await response.body?.cancel();
      throw new Error("too large");
    }
    return this.keep(0, this.header.layers * this.header.heads, await response.arrayBuffer());
  }

  keep(first, count, buffer) {
    this.put(first, count, buffer);
    this.changed();
  }

  /**
   * Keep the weights of so many heads, for who draws them next.
   * @param {number} first
   * @param {number} count
   * @param {ArrayBuffer} buffer
   */
  put(first, count, buffer) {
    if (buffer.byteLength !== count * this.headBytes) throw new Error("not these weights");
    for (let i = 0; i < count; i++) {
      const size = this.header.queries * this.header.keys;
      this.heads.set(first + i, new Float32Array(buffer, i * this.headBytes, size));
    }
  }
}

function sameOrigin(address) {
  if (!address) return null;
  try {
    const url = new URL(address, document.baseURI);
    return url.origin === location.origin ? url.href : null;
  } catch {
    return null;
  }
}

/**
 * One cell of one head in words: tokens (or their ranges) and the weight as text.
 * @param {{ header: any, body: Uint8Array }} payload
 * @param {number} head
 * @param {number} row
 * @param {number} column
 * @param {Float32Array | null} weights
 */
export function describeCell({ header, body }, head, row, column, weights) {
  const { pool, queries, keys, rows, cols } = header;
  const code = body[(head * rows + row) * cols + column];
  const masked = code === 0;
  if (pool === 1) {
    return {
      query: [row, row], key: [column, column], pooled: 0, masked,
      weight: weights && !masked ? formatWeight(weights[row * keys + column]) : formatCode(code),
    };
  }
  const query = [row * pool, Math.min(row * pool + pool, queries) - 1];
  const key = [column * pool, Math.min(column * pool + pool, keys) - 1];
  const top = weights && !masked ? largest(weights, query, key, keys) : null;
  const weight = top ? formatWeight(top.weight) : formatCode(code);
  return { query, key, pooled: pool, masked, weight, top };
}

function largest(weights, query, key, keys) {
  let best = { weight: -1, query: 0, key: 0 };
  for (let q = query[0]; q <= query[1]; q++) {
    for (let k = key[0]; k <= key[1]; k++) {
      const weight = weights[q * keys + k];
      if (weight > best.weight) best = { weight, query: q, key: k };
    }
  }
  return best;
}
