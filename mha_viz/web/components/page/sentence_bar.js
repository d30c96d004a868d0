// @ts-check
// Runs the sentence on Enter: Streamlit commits a text area on Control and Enter only. Shift and
// Enter break the line. Draws nothing, and stays on the page, where it marks a first visit, too.

import { markVisit } from "./first_visit.js";

const BOX = ".st-key-ask_text textarea";
const COMPOSING = 229; // keyCode while an input method composes; Safari says no more than that

/** Tell whether a key runs the sentence. @param {KeyboardEvent} event */
function isRun(event) {
  const { key, shiftKey, ctrlKey, metaKey, altKey, isComposing, keyCode } = event;
  return key === "Enter" && !(shiftKey || ctrlKey || metaKey || altKey || isComposing || keyCode === COMPOSING);
}

/**
 * Send Control and Enter to the sentence's box instead of Enter.
 * @param {any} event
 */
function commitOnEnter(event) {
  const { target } = event;
  if (!target.matches?.(BOX) || !isRun(event)) return;
  event.preventDefault();
  event.stopPropagation();
  const keys = { key: "Enter", code: "Enter", ctrlKey: true, bubbles: true, cancelable: true };
  target.dispatchEvent(new globalThis.KeyboardEvent("keydown", keys));
}

export default function sentenceBar() {
  const name = Symbol.for("mha_viz.sentence_bar");
  if (!globalThis[name]) document.addEventListener("keydown", commitOnEnter, true);
  globalThis[name] = true;
  return markVisit();
}
