// @ts-check
// What the page is, in one line; an example of how to read a tile; and the start of the tour.

import { ReadingExample } from "./reading_example.js";
import { Tour } from "./tour.js";
import { make, themeOf } from "../shared/shared.js";
/* global PALETTE */

const SEEN = "mha_viz.tour"; // in the browser's storage, once the tour has begun

export class GuideView {
  /** @param {import("./bench.js").Bench} bench */
  constructor(bench) {
    this.bench = bench;
    this.root = make("div", "mha guide");
    this.line = make("span");
    this.how = Object.assign(make("button", "button", "How to read"), { type: "button" });
    this.start = Object.assign(make("button", "button", "Tour"), { type: "button" });
    this.example = new ReadingExample(bench);
    this.how.setAttribute("aria-describedby", "reading-example");
    this.tour = new Tour(bench, () => this.start.focus({ preventScroll: true }));
    const asked = make("span", "asked");
    asked.append(this.how, this.example.root);
    const told = make("span", "line");
    told.append(make("b", "product", "mha_viz"), this.line);
    this.root.append(told, asked, this.start, this.tour.root);
    this.height = undefined;
    this.listen(asked);
  }

  listen(asked) {
    const show = (on) => {
      this.shown = on;
      this.example.root.hidden = !on;
      if (on) this.example.draw();
    };
    asked.addEventListener("pointerenter", () => show(true));
    asked.addEventListener("pointerleave", () => show(false));
    this.how.addEventListener("focus", () => show(true));
    this.how.addEventListener("blur", () => show(false));
    this.how.addEventListener("click", () => show(true)); // a touch that has focus already
    this.how.addEventListener("keydown", (event) => event.key === "Escape" && show(false));
    this.start.addEventListener("click", () => this.begin());
  }

  begin() {
    remember();
    this.tour.begin();
  }

  /** @param {any} [leave] sends Python to another page */
  draw(leave = this.leave) {
    this.leave = leave;
    const theme = themeOf(this.root);
    this.root.style.setProperty("--accent", PALETTE.accent[theme]);
    const more = theme === "dark" ? "brighter" : "darker";
    this.line.textContent =
      `Each tile is one attention head: a row is the token that looks, a column the token it looks at, ${more} means more.`;
    if (this.shown) this.example.draw();
    this.tour.update(leave);
    if (this.bench.known && isNewVisitor()) this.begin();
  }

  close() {
    this.tour.end();
  }
}

/** Whether a person's browser never saw the tour, and came without an address of something else. */
function isNewVisitor() {
  if (globalThis.navigator.webdriver) return false; // a program, such as one that takes pictures
  const [visit] = performance.getEntriesByType?.("navigation") ?? [];
  if (!visit || new URL(visit.name).search) return false;
  try {
    return !globalThis.localStorage.getItem(SEEN);
  } catch {
    return false; // what cannot be remembered would come each time
  }
}

function remember() {
  try {
    globalThis.localStorage.setItem(SEEN, "begun");
  } catch {
    // Storage is switched off: the tour starts by its button only.
  }
}
