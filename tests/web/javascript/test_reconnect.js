// The long texts of a page that was loaded again: sent until the server has them.

import assert from "node:assert/strict";

import { pass, test } from "./dom.js";
import reconnect from "../../../mha_viz/web/components/page/reconnect.js";

const TEXTS = { text: "The old dogs slept." };

/** A page that was loaded again with texts of the session "old"; what it sends, by its runs. */
function loadedAgain() {
  const kept = { pathname: location.pathname, search: "", session: "old", texts: TEXTS };
  sessionStorage.setItem("mha_viz texts", JSON.stringify(kept));
  performance.getEntriesByType = () => [{ type: "reload", name: location.href }];
  const sent = [];
  const parentElement = document.createElement("div");
  const setTriggerValue = (_, held) => sent.push(held);
  const run = (after, texts = {}) =>
    reconnect({ parentElement, data: { session: "new", after, texts }, setTriggerValue });
  return { sent, run };
}

test("texts are sent again until the server has taken them", () => {
  const { sent, run } = loadedAgain();
  run("");
  assert.deepEqual(sent.map(({ session, texts }) => [session, texts]), [["old", TEXTS]]);
  run(""); // a run that has not heard of them
  assert.equal(sent.length, 1);
  pass(2000);
  assert.equal(sent.length, 2);
  const end = run("old", TEXTS);
  pass(10_000);
  assert.equal(sent.length, 2);
  end();
});

test("a browser without an entry of the navigation still says whether the page was loaded again", () => {
  for (const [type, n] of [[0, 0], [1, 1], [2, 1]]) {
    const { sent, run } = loadedAgain();
    performance.getEntriesByType = () => [];
    performance.navigation = { type };
    const end = run("");
    assert.equal(sent.length, n);
    end();
  }
});

test("what is drawn anew before the server has the texts goes on with them, and not after", () => {
  const { sent, run } = loadedAgain();
  run("")();
  const end = run("");
  assert.deepEqual(sent.map(({ texts }) => texts), [TEXTS, TEXTS]);
  run("old", TEXTS);
  end();
  const again = run("old", TEXTS);
  pass(10_000);
  assert.equal(sent.length, 2);
  again();
});

test("texts are kept before the next page can ask for them, and until this one has gone", () => {
  const { run } = loadedAgain();
  const end = run("old", TEXTS);
  const page = document.defaultView;
  const kept = () => JSON.parse(sessionStorage.getItem("mha_viz texts"))?.texts ?? null;
  for (const event of ["beforeunload", "pagehide"]) {
    sessionStorage.clear();
    page.dispatchEvent(new page.Event(event));
    assert.deepEqual(kept(), TEXTS);
  }
  end();
  sessionStorage.clear();
  page.dispatchEvent(new page.Event("beforeunload"));
  assert.equal(kept(), null);
});

test("a server that never takes them is left alone after a while", () => {
  const { sent, run } = loadedAgain();
  run("");
  pass(300_000);
  const end = run("");
  assert.equal(sent.length, 60);
  end();
});

test("a page that has left sends nothing", () => {
  const { sent, run } = loadedAgain();
  run("")();
  pass(60_000);
  assert.equal(sent.length, 1);
});

test("an open menu is a landmark of its name, until the page has left", async () => {
  const { run } = loadedAgain();
  const end = run("");
  const open = async (label) => {
    const portal = document.createElement("div");
    portal.innerHTML = `<div><div role="listbox" ${label}></div></div>`;
    document.body.append(portal);
    await Promise.resolve();
    return [portal.getAttribute("role"), portal.getAttribute("aria-label")];
  };
  assert.deepEqual(await open('aria-label="Model"'), ["region", "Model menu"]);
  assert.deepEqual(await open(""), ["region", "menu"]);
  end();
  assert.deepEqual(await open('aria-label="Model"'), [null, null]);
});

test("texts are left to the next page while there are some, and taken away afterwards", () => {
  const { run } = loadedAgain();
  const { defaultView: view } = document;
  const leave = () => view.dispatchEvent(new view.Event("pagehide"));
  const stored = () => JSON.parse(sessionStorage.getItem("mha_viz texts"));
  run("old", TEXTS);
  assert.equal(stored(), null);
  leave();
  assert.deepEqual(stored().texts, TEXTS);
  assert.equal(stored().pathname, location.pathname);
  const end = run("new", {});
  leave();
  assert.equal(stored(), null);
  end();
});
