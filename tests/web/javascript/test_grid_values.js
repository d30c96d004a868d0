import assert from "node:assert/strict";
import test from "node:test";

import { describeCell, ExactWeights } from "../../../mha_viz/web/components/head_grid/grid_values.js";
import "./python.js";

globalThis.location = { origin: "http://here.example" };
globalThis.document = { baseURI: "http://here.example/app/" };
const settled = () => new Promise((done) => setTimeout(done, 0));

/** Serves these weights, ranges too where `ranges`; notes what was asked for. */
function serve(weights, { ranges = true } = {}) {
  const requests = [];
  const all = new Float32Array(weights).buffer;
  globalThis.fetch = async (url, { headers }) => {
    const [start, end] = headers.Range.match(/\d+/g).map(Number);
    requests.push({ url, start, end });
    return new Response(ranges ? all.slice(start, end + 1) : all, { status: ranges ? 206 : 200 });
  };
  return requests;
}

const header = { exact_url: "../media/w.bin", layers: 1, heads: 3, queries: 1, keys: 2 };
const WEIGHTS = [0.5, 0.5, 0.25, 0.75, 0, 1];

for (const ranges of [true, false]) {
  test(`few weights come all at once, once, ${ranges ? "in a range" : "from a server without ranges"}`, async () => {
    const requests = serve(WEIGHTS, { ranges });
    let changes = 0;
    const exact = new ExactWeights(header, () => changes++);
    exact.request(1);
    exact.request(2);
    assert.equal(exact.of(1), null);
    await settled();
    assert.deepEqual(requests, [{ url: "http://here.example/media/w.bin", start: 0, end: 23 }]);
    assert.deepEqual([0, 1, 2].map((head) => [...exact.of(head)]), [[0.5, 0.5], [0.25, 0.75], [0, 1]]);
    assert.equal(changes, 1);
  });
}

test("many weights come head by head", async () => {
  const wide = { ...header, queries: 1000, keys: 1000 };
  const ranges = [];
  globalThis.fetch = async (url, { headers }) => {
    ranges.push(headers.Range);
    return new Response(new ArrayBuffer(4e6), { status: 206 });
  };
  const exact = new ExactWeights(wide, () => {});
  exact.request(2);
  await settled();
  assert.deepEqual(ranges, ["bytes=8000000-11999999"]);
  assert.equal(exact.of(2).length, 1e6);
  assert.equal(exact.of(0), null);
});

test("what is too large, too short or refused leaves the approximate weight, and is not asked again", async () => {
  const answers = {
    "too short": [new Response(new ArrayBuffer(8), { status: 206 }), header],
    refused: [new Response("no", { status: 404 }), header],
    "too large": [new Response(new ArrayBuffer(8), { status: 200 }), { ...header, queries: 3000, keys: 3000 }],
  };
  for (const [failure, [response, header]] of Object.entries(answers)) {
    let [requests, changes] = [0, 0];
    globalThis.fetch = async () => (requests++, response);
    const exact = new ExactWeights(header, () => changes++);
    exact.request(0);
    await settled();
    exact.request(1);
    await settled();
    assert.deepEqual([requests, changes], [1, 0], failure);
    assert.equal(exact.of(0), null, failure);
  }
});

test("another site is never asked", async () => {
  const requests = [];
  globalThis.fetch = async (url) => requests.push(url);
  for (const exact_url of ["http://there.example/w.bin", "//there.example/w", "data:,1", "http://[", null]) {
    const exact = new ExactWeights({ ...header, exact_url }, () => {});
    exact.request(0);
    assert.equal(exact.of(0), null);
  }
  assert.deepEqual(requests, []);
});

test("a cell says its tokens and its weight: the exact one where it is known", () => {
  const payload = {
    header: { pool: 1, queries: 2, keys: 3, rows: 2, cols: 3 },
    body: new Uint8Array([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255]),
  };
  assert.deepEqual(describeCell(payload, 1, 1, 2, null), { query: [1, 1], key: [2, 2], pooled: 0, masked: false, weight: "≈ 1.00" });
  const exact = new Float32Array([0, 0, 0, 0, 0, 0.5]);
  assert.equal(describeCell(payload, 1, 1, 2, exact).weight, "0.500");
});

test("a pooled cell says its ranges, cut at the end, and where its largest weight is", () => {
  const payload = { header: { pool: 2, queries: 3, keys: 3, rows: 2, cols: 2 }, body: new Uint8Array(4).fill(9) };
  const exact = new Float32Array([0, 0, 0.1, 0, 0, 0.4, 0, 0, 0.9]);
  const cell = describeCell(payload, 0, 0, 1, exact);
  assert.deepEqual([cell.query, cell.key, cell.pooled, cell.weight], [[0, 1], [2, 2], 2, "0.400"]);
  assert.deepEqual([cell.top.query, cell.top.key], [1, 2]);
  assert.deepEqual(describeCell(payload, 0, 1, 1, exact).query, [2, 2]);
  assert.equal(describeCell(payload, 0, 1, 1, null).top, null);
});

test("a masked cell says so, whatever weights are known", () => {
  const smallHeader = { ...header, heads: 1, queries: 2, keys: 2, rows: 2, cols: 2, pool: 1 };
  const body = new Uint8Array([255, 0, 1, 255]); // the future of the first query is masked
  for (const weights of [null, new Float32Array([1, 0, 0, 1])]) {
    const masked = describeCell({ header: smallHeader, body }, 0, 0, 1, weights);
    assert.ok(masked.masked);
    assert.equal(masked.weight, "masked: this query cannot see this key");
    const zero = describeCell({ header: smallHeader, body }, 0, 1, 0, weights);
    assert.ok(!zero.masked);
    assert.equal(zero.weight, weights ? "0" : "< 0.0001");
  }
});
