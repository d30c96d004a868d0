// The sentence's box: Enter runs it, and a first visit marks the page.

import assert from "node:assert/strict";

import { mounted, press, test } from "./dom.js";

const { default: sentenceBar } = await import("../../../mha_viz/web/components/page/sentence_bar.js");

/** A text area as Streamlit draws it, which commits on Control and Enter; the keys that it gets. */
function textArea(name) {
  const element = document.createElement("div");
  element.className = name;
  const box = element.appendChild(document.createElement("textarea"));
  const keys = [];
  box.addEventListener("keydown", ({ key, ctrlKey }) => keys.push(ctrlKey ? `Control+${key}` : key));
  document.body.append(element);
  box.focus();
  return keys;
}

test("Enter in the sentence is Control and Enter, and breaks no line", () => {
  mounted(sentenceBar).update({});
  mounted(sentenceBar).update({}); // on another page: it listens once
  const keys = textArea("st-key-ask_text");
  assert.equal(press("Enter"), true);
  assert.deepEqual(keys, ["Control+Enter"]);
});

test("Enter with another key breaks the line, and ends a word that is being composed", () => {
  mounted(sentenceBar).update({});
  const keys = textArea("st-key-ask_text");
  const modified = [{ shiftKey: true }, { altKey: true }, { metaKey: true }, { isComposing: true }, { keyCode: 229 }];
  for (const more of modified) assert.equal(press("Enter", more), false, JSON.stringify(more));
  assert.equal(press("a"), false);
  assert.deepEqual(keys, [...modified.map(() => "Enter"), "a"]);
});

test("Enter in another box of several lines breaks the line", () => {
  mounted(sentenceBar).update({});
  const keys = textArea("st-key-ask_pairs");
  assert.equal(press("Enter"), false);
  assert.deepEqual(keys, ["Enter"]);
});

/** Open the page at an address, in a browser with this storage; the mark, and what ends it. */
function opened(address, storage, { webdriver = false } = {}) {
  delete globalThis[Symbol.for("mha_viz.visit")];
  delete document.documentElement.dataset.visit;
  Object.defineProperty(globalThis, "navigator", { value: { webdriver }, configurable: true });
  globalThis.performance.getEntriesByType = () => [{ name: address }];
  globalThis.localStorage = storage;
  const end = sentenceBar();
  return { mark: document.documentElement.dataset.visit, end };
}

const storageOf = (values = {}) => ({
  getItem: (name) => values[name] ?? null,
  setItem: (name, value) => (values[name] = value),
});

test("the first visit alone is marked, until the page is left", () => {
  const storage = storageOf();
  const { mark, end } = opened("http://here.example/", storage);
  assert.equal(mark, "first");
  end();
  assert.equal(document.documentElement.dataset.visit, undefined);
  sentenceBar(); // back on the page
  assert.equal(document.documentElement.dataset.visit, undefined);
  assert.equal(opened("http://here.example/", storage).mark, undefined);
});

test("no visit is marked by a link, a program, or a browser that remembers nothing", () => {
  assert.equal(opened("http://here.example/?text=a", storageOf()).mark, undefined);
  assert.equal(opened("http://here.example/", storageOf(), { webdriver: true }).mark, undefined);
  const refusing = { getItem: () => null, setItem: () => { throw new Error("full"); } };
  assert.equal(opened("http://here.example/", refusing).mark, undefined);
});
