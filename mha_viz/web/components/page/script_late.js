// @ts-check
// Draws a component with the script that `script_carrier.js` brings, as soon as that is there.
// COMPONENT, its name, is put in front by Python.
/* global COMPONENT */

import { markPainted, observed } from "../shared/readiness.js";
import { scriptStore } from "./script_store.js";

export default function late(component) {
  const { byName, waiting } = scriptStore();
  const { parentElement } = component;
  let end;
  const draw = (script) => {
    end = script(observed(component));
    markPainted(parentElement);
  };
  if (byName.has(COMPONENT)) draw(byName.get(COMPONENT));
  else waiting.set(parentElement, { name: COMPONENT, draw }); // in place of older data
  return () => {
    if (waiting.get(parentElement)?.draw === draw) waiting.delete(parentElement);
    end?.();
  };
}
