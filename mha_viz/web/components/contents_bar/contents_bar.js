// @ts-check
// The contents of a page: a row of links to its sections, which stays in view. The link of the
// section that is being read is marked. The address stays as it is, for it holds a visitor's choices.

import { endOf, make, viewOf } from "../shared/shared.js";

const READ = 0.25; // a section is read once it begins above this share of the room below the bar

class ContentsBar {
  constructor(parent) {
    this.root = make("nav", "contents-bar");
    this.root.setAttribute("aria-label", "Sections of this page");
    /** @type {{ name: string, key: string }[]} */
    this.sections = [];
    this.frame = 0;
    this.marked = () => {
      this.frame ||= requestAnimationFrame(() => this.mark());
    };
    parent.append(this.root);
    // Not the document scrolls but an element of it, so that it is heard on the way down.
    document.addEventListener("scroll", this.marked, { capture: true, passive: true });
  }

  update(sections) {
    if (JSON.stringify(sections) !== JSON.stringify(this.sections)) {
      this.sections = sections;
      this.links = sections.map((section) => this.link(section));
      this.root.replaceChildren(...this.links);
    }
    this.marked();
  }

  link({ name, key }) {
    const link = make("a", "", name);
    link.href = `#${key}`;
    link.onclick = (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
      event.preventDefault();
      this.go(key);
    };
    return link;
  }

  go(key) {
    const section = sectionOf(key);
    if (!section) return;
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    section.scrollIntoView({ behavior: still ? "auto" : "smooth", block: "start" });
    /** @type {HTMLElement | null} */
    const heading = section.querySelector("h2, h3");
    if (!heading) return;
    heading.tabIndex = -1; // the tab key goes on from here
    heading.focus({ preventScroll: true });
  }

  /** Mark the last section that begins in the upper part of the screen. */
  mark() {
    this.frame = 0;
    const bar = this.root.getBoundingClientRect().bottom;
    const line = bar + READ * (innerHeight - bar);
    const begins = this.sections.map(({ key }) => sectionOf(key)?.getBoundingClientRect().top ?? Infinity);
    const at = Math.max(0, begins.filter((top) => top <= line).length - 1);
    if (this.links[at] === this.current) return;
    this.current?.removeAttribute("aria-current");
    this.current = this.links[at];
    this.current?.setAttribute("aria-current", "location");
    this.show(this.current);
  }

  /** Scroll the row, and nothing else, until a link is in the middle of it. */
  show(link) {
    if (!link) return;
    const [row, own] = [this.root, link].map((element) => element.getBoundingClientRect());
    this.root.scrollLeft += own.left + own.width / 2 - row.left - row.width / 2;
  }

  close() {
    cancelAnimationFrame(this.frame);
    document.removeEventListener("scroll", this.marked, { capture: true });
  }
}

/** @returns {HTMLElement | null} the container that Streamlit draws for a key */
const sectionOf = (key) => document.querySelector(`.st-key-${key}`);

export default function contentsBar({ parentElement, data }) {
  viewOf(parentElement, "contentsBar", () => new ContentsBar(parentElement)).update(data);
  return endOf(parentElement, "contentsBar");
}
