// @ts-check
// A sentence in one line, with arcs between its tokens.

import { ArcLine } from "./arc_line.js";
import { endOf, viewOf } from "../shared/shared.js";

export default function sentenceArcs({ parentElement, data }) {
  const view = viewOf(parentElement, "sentenceArcs", () => new ArcLine(parentElement));
  view.update(data);
  return endOf(parentElement, "sentenceArcs");
}
