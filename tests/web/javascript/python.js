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
