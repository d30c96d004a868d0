// @ts-check
// Payloads as mha_viz/web/payload.py packs them: unpacked, and kept for whoever draws them.

const VERSION = 1;
const REPLACED = ["notes", "numbers", "prediction"]; // payloads that change under the same id
const OF_A_HEAD = ["head", "shares", "scores", "numbers"]; // payloads of which one head's is kept

/**
 * Header and body of what mha_viz/web/payload.py packed; throws an Error with a plain message.
 * @param {unknown} bytes
 * @returns {{ header: any, body: Uint8Array }}
 */
export function unpack(bytes) {
  if (!(bytes instanceof Uint8Array) || bytes.length < 4) throw new Error("The picture's data is missing.");
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const length = view.getUint32(0, true);
  if (length > bytes.length - 4) throw new Error("The picture's data is cut short.");
  let header;
  try {
    header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  } catch {
    throw new Error("The picture's data cannot be read.");
  }
  if (!header || header.v !== VERSION) throw new Error("The picture's data is of another version.");
  return { header, body: bytes.subarray(4 + length) };
}

/**
 * Payloads by id. One store per page: a component brings the bytes, another one draws them; `request`
 * asks for exact weights of what is shown, where there is somebody to ask.
 */
export function payloadStore() {
  const name = Symbol.for("mha_viz.payloads");
  globalThis[name] ??= { byId: new Map(), listeners: new Set(), request: null };
  return globalThis[name];
}

/**
 * Keeps a payload for who draws it; the oldest ones go. Returns its id.
 * @param {unknown} bytes
 * @returns {string}
 */
export function putPayload(bytes) {
  const store = payloadStore();
  const payload = unpack(bytes);
  const { id, kind, of } = payload.header;
  if (!store.byId.has(id) || REPLACED.includes(kind)) store.byId.set(id, payload);
  // Who waits for a head's weights, or for more of it, takes them at once: one head is enough.
  const heads = OF_A_HEAD.includes(kind) ? [...store.byId.keys()].filter((key) => key.startsWith(`${of} ${kind} `)) : [];
  for (const key of heads) if (key !== id) store.byId.delete(key);
  while (store.byId.size > 16) store.byId.delete(store.byId.keys().next().value);
  for (const listener of store.listeners) listener(id);
  return id;
}

/**
 * The bytes that a text in base64 stands for.
 * @param {string} text
 * @returns {Uint8Array}
 */
export function bytesOf(text) {
  // Where the browser has its own function, a few megabytes take a millisecond. `Uint8Array.from`
  // with a callback takes ten times as long as this loop.
  const constructor = /** @type {any} */ (Uint8Array);
  if (constructor.fromBase64) return constructor.fromBase64(text);
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let at = 0; at < letters.length; at++) bytes[at] = letters.charCodeAt(at);
  return bytes;
}
