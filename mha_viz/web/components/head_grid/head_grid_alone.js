// @ts-check
// The head grid as an element of its own.

import { HeadGrid } from "./head_grid.js";
import { endOf, viewOf } from "../shared/shared.js";

export default function headGrid(component) {
  const { parentElement, data, setTriggerValue } = component;
  const view = viewOf(parentElement, "headGrid", () => new HeadGrid(parentElement));
  view.update(data ?? {}, (value) => setTriggerValue("select", value));
  return endOf(parentElement, "headGrid");
}
