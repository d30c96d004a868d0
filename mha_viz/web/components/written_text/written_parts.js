// @ts-check
// Parts of the written text: its tokens and their alternatives. Nothing here keeps state.

import { make, ordinal, tokenElement } from "../shared/shared.js";

/**
 * A probability as people read it.
 * @param {number} share in [0, 1]
 * @returns {string}
 */
export function percent(share) {
  if (share >= 0.9995 && share < 1) return "> 99.9 %";
  if (share > 0 && share < 0.0005) return "< 0.1 %";
  return `${(100 * share).toFixed(share > 0 && share < 0.0995 ? 1 : 0)} %`;
}

/**
 * The label of a token's button for a screen reader.
 * @param {any} token
 * @param {boolean} coming whether it is not written yet
 * @returns {string}
 */
export function spoken(token, coming) {
  const origin = coming ? "next" : token.branched ? "chosen by you" : "written";
  return `${token.text}, ${percent(token.probability)}, ${origin}: show what else might stand here`;
}

/**
 * A token's rank among the likeliest, in words.
 * @param {any} token
 * @param {boolean} coming
 * @param {boolean} drawing whether tokens are drawn, and not the likeliest one taken
 * @returns {string}
 */
export function placed(token, coming, drawing) {
  const rank = token.rank === 1 ? "the likeliest token" : `the ${ordinal(token.rank)} likeliest token`;
  const drawn = drawing && !token.branched ? `, drawn with ${percent(token.drawn_with)}` : "";
  const yours = token.branched ? ", chosen by you" : "";
  const when = coming ? " A step writes it, or another one:" : " Write another one in its place:";
  return `: ${percent(token.probability)} by the model${drawn}, ${rank} here${yours}.${when}`;
}

/** A button for a token of the text, with its probability. */
export function tokenButton(token, coming, selected) {
  const button = make("button", coming ? "piece coming" : token.branched ? "piece branched" : "piece");
  button.append(tokenElement(token.text, token.ends), make("span", "share", percent(token.probability)));
  button.setAttribute("aria-pressed", String(selected));
  button.setAttribute("aria-label", spoken(token, coming));
  return button;
}

/** A button for a token that might stand there; one that ends the text cannot be chosen. */
export function otherButton(other, drawing) {
  const button = make("button", "other");
  button.disabled = other.ends;
  button.style.setProperty("--share", `${100 * other.probability}%`);
  button.append(tokenElement(other.text, other.ends), make("span", "share", percent(other.probability)));
  if (drawing) button.append(make("span", "drawn", `drawn ${percent(other.drawn_with)}`));
  const why = other.ends ? "it ends the text" : "write it here";
  button.setAttribute("aria-label", `${other.text}, ${percent(other.probability)}: ${why}`);
  return button;
}
