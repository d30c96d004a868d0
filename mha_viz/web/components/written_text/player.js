// @ts-check
// Play and pause beside a slider of a lab: the button alone.

import { Player } from "./play_button.js";
import { endOf, viewOf } from "../shared/shared.js";

export default function player({ parentElement, data, setTriggerValue }) {
  const view = viewOf(parentElement, "player", () => new Player(parentElement));
  view.update(data, (value) => setTriggerValue("step", value));
  return endOf(parentElement, "player");
}
