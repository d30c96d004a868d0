// @ts-check
// The workbench in a notebook, as anywidget draws it: Python's traits in, what is chosen out.

import { make, putPayload } from "./shared.js";
import workbench from "./workbench.js";

function render({ model, el }) {
  const root = el.attachShadow({ mode: "open" }); // the notebook's styles stay outside, ours inside
  const parent = make("div");
  root.append(make("style", "", model.get("styles")), parent);
  const bring = (name) => {
    const bytes = model.get(name);
    if (bytes.byteLength) putPayload(new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength));
  };
  bring("payload");
  bring("exact");
  const send = (_, message) => {
    model.set("sent", message);
    model.save_changes();
  };
  const draw = () => {
    const data = { ...model.get("settings"), heard: model.get("heard") };
    return workbench({ parentElement: parent, data, setTriggerValue: send });
  };
  model.on("change:settings", draw);
  model.on("change:heard", draw);
  model.on("change:exact", () => bring("exact"));
  return draw();
}

export default { render };
