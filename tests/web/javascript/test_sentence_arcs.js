// A sentence with arcs: where they begin and end, how strong they are, and what is read aloud.

import assert from "node:assert/strict";

import sentenceArcs from "../../../mha_viz/web/components/sentence_arcs/sentence_arcs.js";
import { lay, mounted, test } from "./dom.js";
import { python } from "./python.js";

const { palette } = python;
const PIECES = [{ text: "[CLS]", special: true }, { text: "<b>cats</b>" }, { text: "sleep" }];
const WIDTH = 300;
const middle = (position) => 100 * position + 30; // of a token that is 60 pixels wide

/** The arcs of a sentence whose tokens begin at 0, 100 and 200. */
function shown(data) {
  lay((element) => {
    if (element.matches?.(".line")) return { width: WIDTH };
    const position = [...(element.parentElement?.children ?? [])].indexOf(element);
    return element.matches?.(".line > *") ? { x: 100 * position, width: 60 } : undefined;
  });
  const page = mounted(sentenceArcs);
  const update = (news) => page.update({ pieces: PIECES, above: [], below: [], ...news });
  update(data);
  const arcs = (side) => page.all(`.${side} .arc`);
  return { ...page, update, arcs };
}

const arc = (start, end, weight, more = {}) => ({ start, end, weight, marked: false, says: `${start} to ${end}: ${weight}`, ...more });
const number = (element, name) => Number(element.getAttribute(name));

test("the sentence is text, and its arcs are read aloud on both sides", () => {
  const { find, texts, update } = shown({ above: [arc(2, 1, 0.75)], below: [arc(0, 2, 0.5), arc(1, 2, 0.25)] });
  assert.deepEqual(texts(".line > *"), PIECES.map((piece) => piece.text));
  assert.equal(find(".line b"), null);
  assert.equal(find(".line .special").textContent, "[CLS]");
  assert.equal(find(".sentence-arcs").getAttribute("aria-label"), "[CLS] <b>cats</b> sleep");
  const stage = find("[role=img]");
  const spoken = stage.getAttribute("aria-label");
  for (const says of ["2 to 1: 0.75", "0 to 2: 0.5; 1 to 2: 0.25"]) assert.ok(spoken.includes(says), spoken);
  update({});
  assert.ok(stage.getAttribute("aria-label") && !/\d/.test(stage.getAttribute("aria-label")));
});

test("an arc leads from the middle of its token to that of the other, stronger ones are wider", () => {
  const { arcs, find } = shown({ above: [arc(2, 1, 0.75), arc(0, 2, 0.25)], below: [arc(0, 1, 1)] });
  const [strong, weak] = arcs("above");
  const [from, ...coordinates] = weak.getAttribute("d").match(/-?\d+(\.\d+)?/g).map(Number);
  assert.ok(Math.abs(from - middle(0)) <= 3 && Math.abs(coordinates.at(-2) - middle(2)) <= 3);
  assert.ok(number(strong, "stroke-width") > number(weak, "stroke-width"));
  assert.ok(number(strong, "opacity") > number(weak, "opacity"));
  assert.equal(strong.querySelector("title").textContent, "2 to 1: 0.75");
  for (const side of ["above", "below"]) {
    assert.equal(number(find(`svg.${side}`), "width"), WIDTH);
    assert.ok(number(find(`svg.${side}`), "height") > 15);
  }
  // Arcs rise above the sentence and hang below it.
  const height = (path) => path.getAttribute("d").match(/-?\d+(\.\d+)?/g).map(Number).filter((_, i) => i % 2);
  assert.equal(height(strong)[0], number(find("svg.above"), "height"));
  assert.equal(height(arcs("below")[0])[0], 0);
});

test("a marked arc lies on top, in the colour of what is chosen; a tree has names", () => {
  const { arcs, texts, find, update } = shown({ above: [arc(2, 1, 0.5, { marked: true }), arc(0, 2, 0.5)] });
  assert.deepEqual(arcs("above").map((path) => path.getAttribute("stroke")), [palette.qualitative.light[0], palette.accent.light]);
  assert.equal(find("svg.below").getAttribute("height"), "0");
  update({ above: [arc(2, 1, 1, { label: "nsubj", marked: true }), arc(2, 0, 1, { label: "punct" })] });
  assert.deepEqual(texts(".above text"), ["punct", "nsubj"]);
  assert.equal(find(".above .marked").textContent, "nsubj");
  assert.ok(find(".line").classList.contains("wide"));
});
