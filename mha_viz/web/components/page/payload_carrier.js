// @ts-check
// Brings payloads into the page's store and draws nothing. An element of its own: its message
// stays the same while selection and scale change, so Streamlit does not send the bytes again.

import { putPayload, unpack } from "../shared/payload_store.js";

export default function payloadCarrier({ data }) {
  try {
    for (const bytes of bundled(data)) putPayload(bytes);
  } catch {
    // The element that waits for this payload says what is wrong.
  }
}

/**
 * The payloads of a bundle, as web/payload.py packs several; another payload is the only one.
 * @param {Uint8Array} bytes
 * @returns {Uint8Array[]}
 */
export function bundled(bytes) {
  const { header, body } = unpack(bytes);
  if (header.kind !== "bundle") return [bytes];
  let start = 0;
  return header.sizes.map((/** @type {number} */ size) => {
    const part = body.subarray(start, start + size);
    start += Math.ceil(size / 4) * 4;
    return part;
  });
}
