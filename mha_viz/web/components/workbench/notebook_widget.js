// @ts-check
// The workbench in a notebook, as anywidget draws it: Python's traits in, what is chosen out.

import { putPayload } from "../shared/payload_store.js";
import { make, systemTheme, themeOfColour } from "../shared/shared.js";
import workbench from "./workbench.js";

/**
 * The theme of what lies behind an element: notebooks have themes of their own.
 * @param {HTMLElement} el
 */
function themeBehind(el) {
  for (let behind = el; behind; behind = behind.parentElement) {
    const theme = themeOfColour(getComputedStyle(behind).backgroundColor);
    if (theme) return theme;
  }
  return systemTheme();
}

function render({ model, el }) {
  const root = el.attachShadow({ mode: "open" }); // the notebook's styles stay outside, ours inside
  const parent = make("div");
  const look = make("style");
  root.append(look, parent);
  const dress = () => {
    const theme = model.get("themes")[themeBehind(el)];
    look.textContent = `:host { ${theme} color: var(--st-text-color); font: 14px/1.5 var(--st-font); }
${model.get("styles")}`;
  };
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
    dress();
    return workbench({ parentElement: parent, data: model.get("settings"), setTriggerValue: send });
  };
  model.on("change:settings", draw);
  model.on("change:exact", () => bring("exact"));
  // Notebooks note their theme on the page's own elements; this one is there a moment later.
  const themes = new MutationObserver(() => requestAnimationFrame(draw));
  for (const element of [document.documentElement, document.body]) {
    themes.observe(element, { attributeFilter: ["class", "style", "theme", "data-jp-theme-name", "data-theme"] });
  }
  requestAnimationFrame(draw);
  const end = draw();
  return () => {
    themes.disconnect();
    end?.();
  };
}

export default { render };
