// @ts-check
// The map of a transformer: lights a lab's blocks, and tells the server which block was clicked, so
// that the session goes on. A click that asks for a new tab or window stays the browser's own.

export default function blockMap({ data, parentElement, setTriggerValue }) {
  for (const link of parentElement.querySelectorAll("a[data-part]")) {
    const lit = data.lit.includes(link.dataset.part);
    link.classList.toggle("lit", lit);
    if (lit) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
    link.onclick = (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
      event.preventDefault();
      setTriggerValue("go", link.dataset.page);
    };
  }
}
