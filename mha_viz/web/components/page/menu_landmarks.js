// @ts-check
// Streamlit draws an open menu at the end of the document, outside all landmarks: those who go from
// landmark to landmark would miss it. It becomes one, of the menu's name.

/** Makes each menu that opens from now on a landmark. */
export function watchMenus() {
  const observer = new MutationObserver((records) => {
    /** @type {any[]} */
    const added = records.flatMap(({ addedNodes }) => [...addedNodes]);
    for (const node of added) {
      const menu = node.querySelector?.("[role=listbox]");
      if (!menu) continue;
      node.setAttribute("role", "region");
      node.setAttribute("aria-label", `${menu.getAttribute("aria-label") ?? ""} menu`.trim());
    }
  });
  observer.observe(document.body, { childList: true });
}
