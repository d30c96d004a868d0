// What Python wrote down for these tests (from_python.py; test_javascript.py says where), and the
// palette that it puts in front of the components in a page.

import { readFileSync } from "node:fs";

export const python = JSON.parse(readFileSync(process.env.FROM_PYTHON, "utf8"));
globalThis.PALETTE = python.palette;

/** Bytes that Python wrote as text, as Streamlit hands them over. */
export const bytesIn = (text) => new Uint8Array(Buffer.from(text, "base64"));

/** The bytes of a payload that Python packed. */
export const bytesOf = (name) => bytesIn(python[name]);

/** Weights that Python wrote as text. */
export const weightsIn = (text) => new Float32Array(bytesIn(text).slice().buffer);

/**
 * A header and numbers, as Python packs them.
 * @param {any} header
 * @param {Float32Array | Uint8Array} numbers
 */
export function packed(header, numbers) {
  const text = new TextEncoder().encode(JSON.stringify({ v: 1, ...header }));
  const length = 4 * Math.ceil(text.length / 4);
  const bytes = new Uint8Array(4 + length + numbers.byteLength).fill(32);
  new DataView(bytes.buffer).setUint32(0, length, true);
  bytes.set(text, 4);
  bytes.set(new Uint8Array(numbers.buffer), 4 + length);
  return bytes;
}
