// What Python wrote down for these tests (test_javascript.py), and the palette that it puts in
// front of the components in a page.

import { readFileSync } from "node:fs";

export const python = JSON.parse(readFileSync(new URL("from_python.json", import.meta.url), "utf8"));
globalThis.PALETTE = python.palette;

/** The bytes of a payload that Python packed, as Streamlit hands them over. */
export const bytesOf = (name) => new Uint8Array(Buffer.from(python[name], "base64"));
