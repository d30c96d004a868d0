// Texts of every decile: their rows and links, the weights of each, and a typed text among them.

import assert from "node:assert/strict";

import decileTexts from "../../../mha_viz/web/components/decile_texts/decile_texts.js";
import { lay, mounted, test } from "./dom.js";

const pieces = ["[CLS]", "<b>cats</b>", "sleep"].map((text, at) => ({ text, special: at === 0 }));
const above = [{ start: 2, end: 1, weight: 0.75, label: "", marked: false, says: "2 to 1: 0.75" }];
const text = (says) => ({ says, address: `./?text=${says}`, pieces, above, below: [] });
const band = (number, texts, from, to) => ({
  number, scores: `${from} to ${to}`, n_texts: `${texts.length} texts`, from, to, texts: texts.map(text),
});
const BANDS = [band(10, ["a", "b", "c"], 0.5, 1), band(6, ["d"], 0.25, 0.5), band(1, ["e", "f"], 0, 0.25)];

function shown(data) {
  lay((element) => (element.matches?.(".line") ? { width: 200 } : undefined));
  const page = mounted(decileTexts);
  page.update(data);
  return page;
}

test("each band has its texts with their weights, as text and in its order", () => {
  const { all, texts, find } = shown({ bands: BANDS, typed: null });
  assert.deepEqual(texts(".about b"), ["10", "6", "1"]);
  assert.deepEqual(all(".band").map((row) => row.querySelectorAll(".text").length), [3, 1, 2]);
  assert.equal(all("svg.above .arc").length, 6);
  assert.equal(find(".line b"), null);
  assert.ok(texts(".line bdi").includes("<b>cats</b>"));
  assert.deepEqual(all("a").map((link) => link.getAttribute("href")), ["a", "b", "c", "d", "e", "f"].map((says) => `./?text=${says}`));
  assert.ok(texts(".says").every((says) => /^[a-f] /.test(says)));
  assert.deepEqual(all(".track i").map(({ style }) => [style.left, style.width]), [["50%", "50%"], ["25%", "25%"], ["0%", "25%"]]);
});

test("a typed text lies below its band and is marked in all; without its band it is the last", () => {
  const typed = (number) => ({ band: number, at: 0.3, title: "Your text", ...text("mine") });
  const { all, update, find } = shown({ bands: BANDS, typed: typed(6) });
  const order = () => all(".band").map((row) => row.getAttribute("aria-label"));
  assert.deepEqual(order(), ["Decile 10", "Decile 6", "Your text", "Decile 1"]);
  assert.deepEqual(all(".mark").map(({ style }) => style.left), ["30%", "30%", "30%"]);
  update({ bands: BANDS, typed: typed(4) });
  assert.deepEqual(order(), ["Decile 10", "Decile 6", "Decile 1", "Your text"]);
  update({ bands: BANDS.slice(0, 1), typed: null });
  assert.equal(all(".text").length, 3);
  assert.equal(find(".decile-texts").dataset.painted, "3");
});
