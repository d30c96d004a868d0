// What Python wrote down for these tests (test_javascript.py), and the palette that it puts in
// front of the components in a page.

import { readFileSync } from "node:fs";

export const python = JSON.parse(readFileSync(new URL("from_python.json", import.meta.url), "utf8"));
globalThis.PALETTE = python.palette;

/** Bytes that Python wrote as text, as Streamlit hands them over. */
export const bytesIn = (text) => new Uint8Array(Buffer.from(text, "base64"));

/** The bytes of a payload that Python packed. */
export const bytesOf = (name) => bytesIn(python[name]);
