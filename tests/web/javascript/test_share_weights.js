// The heatmap of weights times the length of the values: other numbers in the same picture.

import assert from "node:assert/strict";

import { payloadStore, putPayload } from "../../../mha_viz/web/components/shared/payload_store.js";
import { formatWeight } from "../../../mha_viz/web/components/shared/shared.js";
import { openBench } from "./bench_page.js";
import { pixelsOf } from "./canvas.js";
import { enter, pass, point, test } from "./dom.js";
import { packed } from "./python.js";

const N = 11;
const share = (query, key) => (key > query ? -0 : (2 * (key + 1)) / ((query + 1) * (query + 2)));
const SHARES = Float32Array.from({ length: N * N }, (_, at) => share(Math.floor(at / N), at % N));
const bring = (of, head, numbers = SHARES) => putPayload(packed({ kind: "shares", of, head, id: `${of} shares ${head}` }, numbers));

/** The page, and what its tooltip says of a cell. */
function opened(view = {}, more = {}) {
  const page = openBench(view, { more: { values: true, ...more } });
  const at = (row, column) => {
    point(page.find(".heat-over"), "pointermove", ...page.cell(row, column));
    return [page.text(".heat .tip .weight"), page.text(".heat .tip .tip-note")];
  };
  return { ...page, at, wait: () => (page.find(".head-view .wait").hidden ? "" : page.text(".head-view .wait")) };
}

test("the switch asks for shares at once, and draws them where the weights were", () => {
  const page = opened();
  const requests = [];
  payloadStore().request = (values) => requests.push(values);
  const weights = pixelsOf(page.find(".heat-cells"));
  page.button("Weight × value").click();
  assert.ok(page.find(".heat").classList.contains("stale") && !page.find(".heat").hidden);
  pass(50);
  assert.deepEqual(requests.map(({ weighted, layer, head }) => [weighted, layer, head]), [["1", "1", "2"]]);
  bring(page.header.id, 7);
  assert.ok(!page.find(".heat").classList.contains("stale"));
  assert.ok(!pixelsOf(page.find(".heat-cells")).equals(weights));
  assert.deepEqual(page.at(5, 3), [formatWeight(Math.fround(share(5, 3))), " of the row’s weight × value"]);
  assert.match(page.at(2, 7)[0], /^masked/);
  page.button("Weight").click();
  assert.ok(pixelsOf(page.find(".heat-cells")).equals(weights));
  pass(1000);
  assert.equal(requests.length, 1); // they stay with the browser
});

test("shares of each head are kept", () => {
  const page = opened({ weighted: true });
  bring(page.header.id, 7);
  bring(page.header.id, 3, SHARES.map((value) => value / 2));
  page.clickHead(3);
  assert.equal(page.at(5, 3)[0], formatWeight(Math.fround(share(5, 3)) / 2));
  page.clickHead(7);
  assert.equal(page.at(5, 3)[0], formatWeight(Math.fround(share(5, 3))));
});

test("shares stand on the axes that are shown: what is left of a row is scaled to 1", () => {
  const page = opened({ weighted: true });
  bring(page.header.id, 7);
  enter(page.box("Hide first token"), true);
  const remaining = 1 - share(5, 0);
  const [text] = (point(page.find(".heat-over"), "pointermove", ...page.cell(4, 2, N - 1, N - 1)), [page.text(".heat .tip .weight")]);
  assert.ok(Math.abs(Number(text) - share(5, 3) / remaining) < 1e-4);
});

test("a family that shows no values says so, and a page without a server has no switch", () => {
  const page = opened({ weighted: true }, { values: false });
  assert.ok(page.wait() && page.find(".heat").hidden);
  page.button("Weight").click();
  assert.ok(!page.find(".heat").hidden && page.wait() === "");
  document.body.replaceChildren();
  assert.ok(opened({}, { values: undefined }).find(".heat-bar .segments").hidden);
});
