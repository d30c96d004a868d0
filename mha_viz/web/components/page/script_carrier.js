// @ts-check
// Brings a component's script into the page and draws nothing; `script_late.js` draws with it. An
// element of its own: its message stays the same while data change, so Streamlit sends it once.
// COMPONENT and DRAW, the component's name and its function, are put in front by Python.
/* global COMPONENT, DRAW */

import { scriptStore } from "./script_store.js";

export default function scriptCarrier() {
  const { byName, waiting } = scriptStore();
  byName.set(COMPONENT, DRAW);
  for (const [parent, { name, draw }] of waiting) {
    if (name !== COMPONENT) continue;
    waiting.delete(parent);
    draw(DRAW);
  }
}
