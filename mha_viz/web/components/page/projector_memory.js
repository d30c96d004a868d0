// @ts-check
// Remembers in this tab that the page is shown in larger type, so that a reload keeps it. Draws nothing.

const KEY = "mha_viz.projector"; // in the storage of this tab

/** @param {{ data: { on: boolean | null }, setTriggerValue: (name: string, value: any) => void }} component */
export default function projectorMemory({ data: { on }, setTriggerValue }) {
  try {
    if (on !== null) globalThis.sessionStorage.setItem(KEY, on ? "1" : "");
    else if (globalThis.sessionStorage.getItem(KEY)) setTriggerValue("remembered", true); // the server was not told
  } catch {
    // Without storage nothing is remembered.
  }
}
