// The token lines of the workbench: which lines are painted, what they say, pins and keys.

import assert from "node:assert/strict";

import { putPayload } from "../../../mha_viz/web/components/shared/payload_store.js";
import { formatWeight } from "../../../mha_viz/web/components/shared/shared.js";
import { openBench } from "./bench_page.js";
import { paintedOn } from "./canvas.js";
import { click, enter, lay, pass, point, press, serve, settled, test } from "./dom.js";
import { bytesIn, packed, python, weightsIn } from "./python.js";

const N = 11;
const weights = weightsIn(python.heads.exact);
const weight = (head, query, key) => weights[(head * N + query) * N + key];
const SHOWN = { show: "lines", layer: 0, head: 0, heads: [[0, 1], [0, 2]] };

/** The lines of the first three heads, once their exact weights are there. */
async function shown(view = {}) {
  serve(python.heads.exact);
  const page = openBench({ ...SHOWN, ...view });
  await settled();
  pass(16); // the next frame
  const [queries, keys] = ["queries", "keys"].map((side) => page.find(`.token-lines .side.${side}`));
  const rows = (list) => [...list.querySelectorAll(".row")];
  const hover = (list, index) => {
    point(rows(list)[index], "pointermove");
    pass(16);
  };
  const pin = (list, index) => {
    click(rows(list)[index]);
    pass(150); // what was chosen is told when nothing follows
  };
  const values = (side, index) => page.all(`.token-lines .values.${side} .value-row`)
    .find((row) => Number(row.dataset.index) === index);
  const numbers = (side, index) => [...values(side, index).querySelectorAll(".number")].map((element) => element.textContent);
  return { ...page, queries, keys, rows, hover, pin, numbers, canvas: page.find(".token-lines canvas") };
}

test("a query that is pointed at has the exact weights of all heads beside its keys, and a key likewise", async () => {
  lay(() => ({ width: 1600 }));
  const { hover, queries, keys, numbers, find } = await shown();
  assert.equal(find(".head-view").dataset.exact, "true");
  assert.ok(!find(".token-lines").hidden && find(".heat").hidden);
  hover(queries, 3);
  for (let key = 0; key < N; key++) {
    assert.deepEqual(numbers("keys", key), [0, 1, 2].map((head) => formatWeight(weight(head, 3, key))));
  }
  hover(keys, 0);
  assert.deepEqual(numbers("queries", 5), [0, 1, 2].map((head) => formatWeight(weight(head, 5, 0))));
  point(keys, "pointerleave");
  pass(16);
  assert.equal(find(".value-row"), null);
});

test("lines go from each query to the keys that hold the share, in the colours of their heads", async () => {
  const { canvas, hover, queries, find } = await shown({ mass: 0.5 });
  const colours = python.palette.qualitative.light.slice(0, 3);
  const strokes = () => paintedOn(canvas, "stroke");
  const lines = (path) => [...path.matchAll(/M2 ([\d.-]+)(?:L|C\S+ \S+ \S+ \S+ )\S+ ([\d.-]+)/g)].map(([, from, to]) => [+from, +to]);
  assert.deepEqual([...new Set(strokes().map(({ colour }) => colour))].sort(), [...colours].sort());
  const height = parseFloat(find(".token-lines .row").style.height);
  [0, 1, 2].forEach((head) => {
    const headLines = strokes().filter(({ colour }) => colour === colours[head]).flatMap(({ path }) => lines(path));
    const drawnPairs = headLines.map((ends) => ends.map((y) => Math.floor(y / height)).join()).sort();
    assert.deepEqual(drawnPairs, largestPairs(head, 0.5).map(([query, key]) => `${query},${key}`).sort());
  });
  hover(queries, 3);
  const some = strokes().flatMap(({ path }) => lines(path));
  assert.ok(some.length > 0 && some.every(([from]) => Math.floor(from / height) === 3));
});

/** Queries and keys of the fewest lines of a head that hold a share of each row. */
function largestPairs(head, share) {
  const pairs = [];
  for (let query = 0; query < N; query++) {
    const row = [...Array(N).keys()].sort((a, b) => weight(head, query, b) - weight(head, query, a));
    let mass = 0;
    for (const key of row) {
      if (mass >= share - 1e-5) break;
      mass += weight(head, query, key);
      pairs.push([query, key]);
    }
  }
  return pairs;
}

test("the gap has at least 45 % of any width, and the tokens and numbers the rest", async () => {
  for (const width of [340, 560, 744, 1300]) {
    document.body.replaceChildren();
    lay(() => ({ width }));
    const { find } = await shown();
    const columns = find(".token-lines .stage").style.gridTemplateColumns.split(" ").map(parseFloat);
    assert.ok(columns[2] >= 0.45 * width, `${columns[2]} of ${width}`);
    assert.ok(columns.reduce((sum, column) => sum + column, 0) <= width);
    assert.ok(columns[1] >= 60 && columns[3] === columns[1]);
  }
});

test("the tokens across are tinted by the weight of the one that is pointed at", async () => {
  const { hover, queries, keys, rows } = await shown({ heads: [] });
  const luminance = (row) => row.style.background.match(/\d+/g).map(Number).reduce((sum, part) => sum + part);
  hover(queries, 3);
  const order = [...Array(N).keys()].sort((a, b) => weight(0, 3, a) - weight(0, 3, b));
  const tints = order.map((key) => luminance(rows(keys)[key]));
  assert.deepEqual(tints, [...tints].sort((a, b) => b - a)); // the more weight, the darker
  assert.ok(tints[0] > tints.at(-1));
  assert.ok(rows(queries).every((row) => !row.style.background));
  point(queries, "pointerleave");
  pass(16);
  assert.ok(rows(keys).every((row) => !row.style.background));
});

test("of more than 80 tokens only the lines of the chosen one are drawn", () => {
  const { grid, exact } = python.pooled;
  const page = openBench({ show: "lines" }, { grid, exact: null });
  const { id, keys: size } = page.header;
  const head = 1 * page.header.heads + 2;
  const headWeights = weightsIn(exact).slice(head * size * size, (head + 1) * size * size);
  putPayload(packed({ kind: "head", id: `${id} head ${head}`, of: id, head }, headWeights));
  pass(16);
  const canvas = page.find(".token-lines canvas");
  assert.ok(size > 80 && page.find(".token-lines").dataset.painted);
  assert.deepEqual(paintedOn(canvas, "stroke"), []);
  click(page.all(".token-lines .queries .row")[9]);
  pass(200);
  const froms = paintedOn(canvas, "stroke").flatMap(({ path }) => [...path.matchAll(/M2 ([\d.-]+)/g)].map(([, from]) => from));
  assert.ok(froms.length > 0 && new Set(froms).size === 1);
});

test("how many lines are hidden is said, heads can be left out, and the slider changes the share", async () => {
  const { text, all, find, views } = await shown();
  const hidden = (heads, share) => heads.reduce((sum, head) => sum + N * N - largestPairs(head, share).length, 0);
  const hiddenText = () => {
    pass(16);
    return text(".token-lines .hidden");
  };
  assert.equal(hiddenText(), `${hidden([0, 1, 2], 0.9)} fainter lines not drawn`);
  assert.deepEqual(all(".token-lines .head").map((head) => head.textContent), ["L0 H0", "L0 H1", "L0 H2"]);
  all(".token-lines .head")[0].click();
  assert.equal(all(".token-lines .head")[0].getAttribute("aria-pressed"), "false");
  assert.equal(hiddenText(), `${hidden([1, 2], 0.9)} fainter lines not drawn`);
  const range = find(".token-lines input[type=range]");
  range.value = "70";
  range.dispatchEvent(new globalThis.window.Event("input"));
  assert.equal(hiddenText(), `${hidden([1, 2], 0.7)} fainter lines not drawn`);
  pass(1000);
  assert.deepEqual(views(), []); // until the slider is let go
  enter(range, "100");
  assert.equal(hiddenText(), "All lines drawn");
  assert.equal(text(".token-lines .percent"), "100 %");
  pass(1000);
  assert.deepEqual(views(), [{ mass: "1" }]);
});

test("a query is pinned, with a key it is a pair, and Escape lets go", async () => {
  const { pin, queries, keys, all, views, rows, find } = await shown();
  pin(queries, 3);
  assert.deepEqual(all(".token-lines .pinned"), [rows(queries)[3]]);
  assert.match(find(".token-lines .hint").textContent, /^Pinned\. Choose a key/);
  pin(keys, 8);
  assert.deepEqual(all(".token-lines .pair"), [rows(keys)[8]]);
  keys.focus();
  press("Escape");
  pass(1000);
  assert.deepEqual(all(".token-lines .pinned"), []);
  assert.deepEqual(views(), [{ query: "3" }, { query: "3", key: "8" }, { query: "-1", key: "-1" }]);
});

test("a token that the address pins is pinned", async () => {
  const { all, rows, queries } = await shown({ query: 4 });
  assert.deepEqual(all(".token-lines .pinned"), [rows(queries)[4]]);
});

test("keys walk through the tokens, say their partners and choose a pair", async () => {
  const { find, queries, keys, text, views, header, rows } = await shown();
  const stops = [...find(".token-lines").querySelectorAll("button, input, [tabindex='0']")];
  const order = [...stops.slice(3)];
  assert.deepEqual(order, [find(".token-lines input"), queries, keys]); // of the Tab key, behind the heads
  assert.deepEqual([queries.getAttribute("role"), rows(queries)[0].getAttribute("role")], ["listbox", "option"]);
  queries.focus();
  assert.ok(press("ArrowDown"));
  const best = [...Array(N).keys()].sort((a, b) => weight(0, 1, b) - weight(0, 1, a)).slice(0, 3);
  const partners = best.map((key) => `${header.key_labels[key]} ${formatWeight(weight(0, 1, key))}`).join(", ");
  assert.ok(text(".token-lines .live").startsWith(`The looks at L0 H0: ${partners}; L0 H1: `));
  assert.equal(queries.getAttribute("aria-activedescendant"), "query-1");
  press("Enter");
  pass(16);
  press("ArrowRight");
  assert.equal(document.activeElement, keys);
  press("ArrowDown");
  press("ArrowDown");
  press("Enter");
  pass(1000);
  assert.deepEqual(views(), [{ query: "1", key: "2" }]);
  press("ArrowLeft");
  assert.equal(document.activeElement, queries);
  assert.ok(!press("x"));
});

test("what is said of a token of one side names those of the other", async () => {
  const bytes = bytesIn(python.heads.grid), begin = 4 + new DataView(bytes.buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.slice(4, begin)));
  header.key_labels = header.key_labels.map((label) => `${label}-`);
  const grid = Buffer.from(packed(header, bytes.slice(begin))).toString("base64");
  const { find, text } = openBench(SHOWN, { grid });
  await settled();
  for (const [side, sentence] of [["queries", /^The looks at L0 H0: \S+- /], ["keys", /^The- is looked at by L0 H0: \S+[^-] /]]) {
    find(`.token-lines .side.${side}`).focus();
    assert.ok(press("ArrowDown"));
    assert.match(text(".token-lines .live"), sentence);
  }
});
