// The contents of a page: which link is marked, where a click leads, and what stays the browser's own.

import assert from "node:assert/strict";

import contentsBar from "../../../mha_viz/web/components/contents_bar/contents_bar.js";
import { lay, mounted, pass, test } from "./dom.js";

const { Event, MouseEvent } = document.defaultView;

const NAMES = ["All heads", "One head", "Search"];
const TOPS = [300, 1100, 2300]; // where the sections begin, before anybody scrolls

/** A page of three sections below a bar of 100 pixels; `scrolled(y)` is what one sees after y pixels. */
function page() {
  const sections = NAMES.map((name, number) => {
    const section = document.createElement("div");
    section.className = `st-key-section-${number}`;
    section.innerHTML = `<h2>${name}</h2>`;
    section.went = [];
    section.scrollIntoView = (how) => section.went.push(how.behavior);
    document.body.append(section);
    return section;
  });
  const bar = mounted(contentsBar);
  const scrolled = (y) => {
    lay((element) => {
      const at = sections.indexOf(element);
      if (at >= 0) return { y: TOPS[at] - y };
      return { y: 60, height: 40 };
    });
    document.body.dispatchEvent(new Event("scroll")); // an element scrolls, not the document
    pass(17);
  };
  scrolled(0);
  bar.update(NAMES.map((name, number) => ({ name, key: `section-${number}` })));
  pass(17);
  const marked = () => bar.all("a[aria-current=location]").map((link) => link.textContent);
  return { ...bar, sections, scrolled, marked };
}

test("a named row of links marks the section in the upper part of the screen", () => {
  const { find, all, scrolled, marked } = page();
  assert.equal(find("nav").getAttribute("aria-label"), "Sections of this page");
  assert.deepEqual(all("a").map((link) => link.textContent), NAMES);
  assert.deepEqual(marked(), ["All heads"]);
  // 600 pixels high, of which 500 are below the bar: a quarter of them ends at 225
  scrolled(1100 - 226);
  assert.deepEqual(marked(), ["All heads"]);
  scrolled(1100 - 225);
  assert.deepEqual(marked(), ["One head"]);
  scrolled(2300 - 100);
  assert.deepEqual(marked(), ["Search"]);
});

test("a click goes to the section and its heading, and leaves the address as it is", () => {
  const { all, sections } = page();
  const [, second] = all("a");
  const before = location.href;
  const event = new MouseEvent("click", { bubbles: true, cancelable: true });
  second.dispatchEvent(event);
  assert.ok(event.defaultPrevented && location.href === before);
  assert.deepEqual(sections.map((section) => section.went), [[], ["smooth"], []]);
  assert.equal(document.activeElement, sections[1].querySelector("h2"));
});

test("the next data are drawn in the same row, and at the end nothing listens any more", () => {
  const bar = page();
  const [first] = bar.all("a");
  const data = NAMES.map((name, number) => ({ name, key: `section-${number}` }));
  const end = bar.update(data);
  assert.equal(bar.all("a")[0], first);
  end();
  bar.scrolled(2300);
  assert.deepEqual([bar.all("nav"), first.getAttribute("aria-current")], [[], "location"]);
});
