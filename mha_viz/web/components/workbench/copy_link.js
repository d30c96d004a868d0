// @ts-check
// A button that copies the address of what is shown.

import { make } from "../shared/shared.js";

const CONFIRMED_MS = 2000; // how long the button says that the link was copied
const COPY_TITLE = "Copy link";

/** @returns {HTMLButtonElement} */
export function copyLinkButton() {
  const button = make("button", "button copy-link", COPY_TITLE);
  button.title = "Copy link to what is shown";
  button.addEventListener("click", async () => {
    const isCopied = await copy(globalThis.location.href);
    button.textContent = isCopied ? "Copied" : "See address bar";
    setTimeout(() => (button.textContent = COPY_TITLE), CONFIRMED_MS);
  });
  return button;
}

/** Tell whether a text could be put into the clipboard, which a page without encryption may not reach. */
async function copy(text) {
  try {
    await globalThis.navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
