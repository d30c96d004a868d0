// The workbench: what is chosen in one part is drawn in both at once, and told to Python a moment later.

import assert from "node:assert/strict";

import { putPayload, unpack } from "../../../mha_viz/web/components/shared/payload_store.js";
import { formatWeight } from "../../../mha_viz/web/components/shared/shared.js";
import { largest, N, nameOf, openBench, rowOf, weight } from "./bench_page.js";
import { paintedOn, pixelAt, pixelsOf } from "./canvas.js";
import { enter, lay, pass, point, press, settled, test } from "./dom.js";
import { bytesIn, packed, python } from "./python.js";

// -- heads ------------------------------------------------------------------------------------------

test("a head is painted at once where its tile is clicked, and told a moment later", () => {
  const page = openBench();
  const { find, text, clickHead, cell, views } = page;
  for (const head of [14, 3]) {
    clickHead(head);
    assert.equal(text("h2.name"), nameOf(head));
    assert.equal(find(".heat").dataset.painted, nameOf(head));
    assert.equal(find(".head-grid").dataset.selected, nameOf(head));
    const [{ x, y, width, height }] = paintedOn(find(".cells"), "image").slice(head);
    for (const [row, column] of [[0, 0], [4, 7], [10, 2]]) {
      const small = [x + ((column + 0.5) * width) / N, y + ((row + 0.5) * height) / N];
      assert.deepEqual(pixelAt(find(".heat-cells"), ...cell(row, column)), pixelAt(find(".cells"), ...small));
    }
  }
  pass(149);
  assert.deepEqual(views(), []);
  pass(1);
  assert.deepEqual(views(), [{ layer: "0", head: "3" }]);
  clickHead(3); // what is chosen already
  pass(1000);
  assert.equal(views().length, 1);
});

test("the cell that is pointed at says its exact weight and its rank, and each cell has its number", () => {
  const { find, text, cell, header } = openBench();
  const chosen = 7;
  for (const row of [0, 5]) {
    const column = largest(rowOf(chosen, row));
    point(find(".heat-over"), "pointermove", ...cell(row, column));
    assert.equal(text(".heat .tip .weight"), formatWeight(weight(chosen, row, column)));
    assert.match(text(".heat .tip"), new RegExp(` largest of ${N} in its row$`));
    assert.ok(text(".heat .tip .pair").startsWith(`${header.query_labels[row]}${row} → `));
    const { x, y, width, height } = paintedOn(find(".heat-over"), "strokeRect").at(-1); // its frame
    const middle = [x + width / 2, y + height / 2];
    cell(row, column).forEach((at, i) => assert.ok(Math.abs(at - middle[i]) < 1));
  }
  const texts = paintedOn(find(".heat-cells"), "text").map((shape) => shape.text);
  for (const label of header.query_labels) assert.ok(texts.includes(label), label);
});

test("keys choose a head, and walk through the cells of its picture", () => {
  const { find, text, views, header } = openBench();
  find(".cells").focus();
  press("ArrowRight");
  press("Enter");
  assert.equal(text("h2.name"), "L1 H3");
  const over = find(".heat-over");
  over.focus();
  press("ArrowDown"); // to the first cell
  press("ArrowDown");
  press("ArrowRight");
  const live = text(".head-view > .live");
  assert.ok(live.startsWith(`${header.query_labels[1]} to ${header.key_labels[1]}: `), live);
  press("Enter");
  pass(150);
  assert.deepEqual(views(), [{ head: "3", query: "1", key: "1" }]);
  press("Escape");
  pass(150);
  assert.deepEqual([views()[1].query, views()[1].key], ["-1", "-1"]);
});

test("beside a picture no nearest head is named, and no score is offered before a token is chosen", () => {
  const { find, texts } = openBench();
  putPayload(bytesIn(python.bench.notes));
  putPayload(bytesIn(python.bench.twins));
  assert.ok(find(".twin").hidden && find(".how").hidden);
  const labels = Object.values(unpack(bytesIn(python.bench.notes)).header.labels).flat();
  const counted = texts(".grid-view .summary .count").filter((item) => !item.startsWith("no label"));
  assert.equal(counted.reduce((sum, item) => sum + Number(item.match(/\d+$/)[0]), 0), labels.length);
});

test("the nearest head stands with the numbers and is a click away", () => {
  const { find, text, texts, clickHead, say } = openBench({ show: "numbers" });
  assert.deepEqual(texts(".head-view .labels .none"), ["labels are on their way …"]);
  putPayload(bytesIn(python.bench.notes));
  assert.deepEqual(texts(".head-view .labels .label"), ["Previous token", "Local"]);
  assert.ok(find(".twin").hidden);
  putPayload(bytesIn(python.bench.twins));
  assert.equal(find(".twin").textContent, "Nearest: L2 H1"); // of L1 H2, as Python says
  assert.match(find(".twin").title, /^Hellinger distance 0\.25.* smaller than by chance$/);
  find(".twin").click();
  assert.equal(text("h2.name"), "L2 H1");
  clickHead(3);
  assert.equal(text(".twin"), "No twin (nearest: L1 H2)");
  assert.match(find(".twin").title, /no smaller than by chance$/);
  clickHead(0); // it has no distance from any other
  assert.ok(find(".twin").hidden);
  clickHead(7);
  say({ payload: putPayload(bytesIn(python.pooled.grid)) }); // another text: its twins are not known
  assert.ok(find(".twin").hidden);
});

// -- pictures and axes -------------------------------------------------------------------------

test("the picture is chosen, with the pointer and with keys", () => {
  const { button, find, all } = openBench();
  const shown = () => [".heat", ".token-lines", ".pairs", ".numbers"].filter((part) => !find(part).hidden);
  assert.deepEqual(shown(), [".heat"]);
  button("Lines").click();
  assert.deepEqual(shown(), [".token-lines"]);
  assert.ok(find(".token-lines").dataset.painted);
  button("Table").click();
  assert.deepEqual(shown(), [".pairs"]);
  assert.equal(all(".pairs tr").length, 41);
  assert.equal(button("Table").getAttribute("aria-checked"), "true");
  button("Table").focus();
  press("ArrowLeft");
  assert.equal(document.activeElement, button("Lines"));
  assert.deepEqual(shown(), [".token-lines"]);
  button("Numbers").click();
  assert.deepEqual(shown(), [".numbers"]);
});

test("on a phone all pictures have the height of the heatmap, and scroll in it", () => {
  globalThis.innerWidth = 390;
  const barHeight = 48;
  lay((element) => ({ width: 358, ...(element.className === "heat-bar" ? { height: barHeight } : {}) }));
  const { button, find } = openBench();
  const reserved = () => find(".head-view > .middle").style.minHeight;
  const height = reserved();
  assert.equal(parseFloat(height), barHeight + parseFloat(find(".heat").style.height));
  for (const [name, part] of [["Lines", ".token-lines"], ["Table", ".pairs"], ["Numbers", ".numbers"]]) {
    button(name).click();
    assert.equal(reserved(), height);
    assert.equal(find(part).style.maxHeight, height);
  }
  globalThis.innerWidth = 1280;
});

test("on a projector a head has as many of its own pixels as without, however the window changes", () => {
  const { find } = openBench();
  const { innerHeight } = globalThis;
  const elements = document.defaultView.Element.prototype;
  const heights = () => [1050, 997].map((tall) => {
    globalThis.innerHeight = tall;
    lay(() => ({ width: tall })); // the page is laid out anew, and nothing comes from Python
    return parseFloat(find(".heat").style.height);
  });
  const ordinary = heights();
  Object.defineProperty(elements, "currentCSSZoom", { configurable: true, value: 1.3125 });
  assert.deepEqual(heights(), ordinary);
  assert.ok(ordinary[0] > ordinary[1]);
  delete elements.currentCSSZoom;
  globalThis.innerHeight = innerHeight;
  lay(() => undefined);
});

test("a scale recolours both pictures", () => {
  const { button, find, opened } = openBench();
  opened();
  const painted = () => [".heat-cells", ".cells"].map((name) => pixelsOf(find(name)));
  const before = painted();
  button("Log").click();
  painted().forEach((pixels, i) => assert.ok(!pixels.equals(before[i])));
  assert.equal(find(".legend-kind").textContent, "logarithmic");
});

// The first case is of no wish: its payload is what the browser has, and others are made of it.
const { cases, pattern } = python.reduced;
for (const wish of ["words", "no_special", "no_first"]) {
  test(`weights on other axes are those that Python finds: ${wish}`, () => {
    const { grid, pattern: expected } = cases.find(({ wish: axesWish }) =>
      axesWish[wish] && Object.values(axesWish).filter(Boolean).length === 1);
    const page = openBench({ layer: 1, head: 1, show: "table" }, { grid: cases[0].grid, exact: null });
    const exact = new Float32Array(pattern[1][1].flat());
    const { id } = page.header;
    putPayload(packed({ kind: "head", id: `${id} head 3`, of: id, head: 3 }, exact));
    const labels = { words: "Whole words", no_special: "Hide special tokens", no_first: "Hide first token" };
    enter(page.box(labels[wish]), true);
    const { query_labels: words } = headerOf(grid);
    assert.deepEqual(page.texts(".head-view .word"), words);
    const listedPairs = page.all(".pairs tr").slice(1).map((row) => {
      const [from, to] = [...row.querySelectorAll(".position")].map((cell) => Number(cell.textContent));
      const names = [...row.querySelectorAll("bdi")].map((token) => token.textContent);
      return { from, to, names, weight: row.querySelector(".weight .number").textContent };
    });
    const rows = expected[1][1];
    const most = rows.flat().filter((positive) => positive > 0).sort((a, b) => b - a).slice(0, 40);
    assert.equal(listedPairs.length, most.length);
    listedPairs.forEach(({ from, to, names, weight: value }, i) => {
      assert.equal(value, formatWeight(most[i]));
      assert.equal(value, formatWeight(rows[from][to]));
      assert.deepEqual(names, [words[from], words[to]]);
    });
  });
}

const headerOf = (grid) => {
  const bytes = bytesIn(grid);
  return JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true))));
};

// -- what Python says -----------------------------------------------------------------------------------

test("another text takes the place of the one before; what cannot be drawn is told in words", () => {
  const { say, find, text } = openBench();
  say({ error: "This picture cannot be drawn: it is cut short." });
  assert.match(text(".workbench > .message"), /cannot be drawn/);
  assert.ok(find(".grid-view").hidden && find(".head-view").hidden);
  say({ error: undefined, payload: putPayload(bytesIn(cases[0].grid)), view: { ...python.bench.settings.view, head: 1 } });
  assert.ok(!find(".grid-view").hidden && find(".workbench > .message").hidden);
  assert.equal(paintedOn(find(".cells"), "image").length, 4);
  assert.equal(text("h2.name"), "L1 H1");
});

test("on a phone a tap on a head brings its picture into view, elsewhere nothing moves", () => {
  const classNames = [];
  const { scrollIntoView } = globalThis.window.Element.prototype;
  globalThis.window.Element.prototype.scrollIntoView = function () {
    classNames.push(this.className);
  };
  openBench().clickHead(4);
  assert.deepEqual(classNames, []);
  globalThis.innerWidth = 390;
  document.body.replaceChildren();
  lay(() => ({ width: 390 }));
  openBench().clickHead(9);
  globalThis.innerWidth = 1280;
  globalThis.window.Element.prototype.scrollIntoView = scrollIntoView;
  assert.ok(classNames.length > 0 && classNames.every((name) => name.includes("head-view")));
});

test("the divider shares out the width, by keys too, and F shows the head alone", () => {
  const page = openBench({}, { more: { guide: true } });
  const divider = page.find(".divider");
  const bench = page.find(".workbench");
  const share = () => Number(divider.getAttribute("aria-valuenow"));
  const before = share();
  divider.focus();
  press("ArrowRight");
  assert.ok(share() > before);
  assert.equal(bench.style.getPropertyValue("--grid"), `${share()}fr`);
  press("f");
  assert.ok(bench.classList.contains("alone"));
  press("Escape");
  assert.ok(!bench.classList.contains("alone"));
  document.body.append(Object.assign(document.createElement("input"), { id: "typed" }));
  document.querySelector("#typed").focus();
  press("f"); // a letter of a text
  assert.ok(!bench.classList.contains("alone"));
});

test("heads are switched off beside the name and in a selection, and the prediction follows", () => {
  const page = openBench({}, { more: { switches: true } });
  const { id } = page.header;
  const shown = () => !page.find(".prediction-view").hidden;
  const veils = () => page.all(".head-grid .veil").length;
  assert.ok(!shown() && veils() === 0);
  page.clickHead(7);
  page.button("Switch off").click();
  pass(150);
  assert.deepEqual(page.views().at(-1), { off: "1.2" });
  assert.ok(shown() && veils() === 1);
  assert.equal(page.find(".prediction-view").getAttribute("aria-busy"), "true");
  const before_and_after = [["bed", 0.5, 0.125], ["<b>", 0.25, 0.75]];
  putPayload(packed({ kind: "prediction", id: `${id} prediction`, off: [[1, 2]], how: "Scaled by 0.5", where: "Next", rows: before_and_after, kl: 0.7 }, new Float32Array(0)));
  assert.equal(page.find(".prediction-view").getAttribute("aria-busy"), "false");
  assert.deepEqual(page.texts(".prediction-view .token"), ["bed", "<b>"]);
  assert.deepEqual(page.texts(".prediction-view b"), ["12.5 %", "75.0 %"]);
  assert.match(page.text(".prediction-view .kl"), /0\.7/);
  assert.match(page.text(".prediction-view .words"), /^Scaled by 0\.5: L1 H2\. Next/);
  page.say({ heard: page.last(), view: { ...python.bench.settings.view, layer: 1, head: 2, off: [[1, 2]], heads: [[0, 3]] } });
  page.all(".selection button").find((button) => button.textContent === "Switch off").click();
  assert.equal(veils(), 2);
  assert.equal(page.find(".prediction-view").getAttribute("aria-busy"), "true"); // what is known is of one head
  putPayload(packed({ kind: "prediction", id: `${id} prediction`, off: [[0, 3], [1, 2]], where: "Next", rows: [["bed", 0.5, 0.25]], kl: 0.1 }, new Float32Array(0)));
  assert.deepEqual(page.texts(".prediction-view b"), ["25.0 %"]); // another one under the same id
  page.button("Switch all on").click();
  assert.ok(!shown() && veils() === 0);
});

test("a head that is changed by something else than zero is not said to be off", () => {
  const page = openBench({ off: [[0, 3]] }, { more: { switches: true, intervenes: true } });
  assert.deepEqual(page.texts(".head-grid .veil"), ["changed"]);
  page.clickHead(3);
  assert.equal(page.find(".head-view").textContent.includes("Undo change"), true);
  page.button("Undo all changes").click();
  assert.equal(page.all(".head-grid .veil").length, 0);
});

test("what keeps a model from a prediction stands in its place", () => {
  const page = openBench({ off: [[0, 1]] }, { more: { switches: true } });
  putPayload(packed({ kind: "prediction", id: `${page.header.id} prediction`, off: [[0, 1]], message: "No prediction here." }, new Float32Array(0)));
  assert.equal(page.text(".prediction-view .words"), "No prediction here.");
  assert.equal(page.all(".prediction-view .outcome").length, 0);
});

test("the link of what is shown is copied, or where it cannot be, the button says where it stands", async () => {
  const page = openBench({}, { more: { switches: true } });
  const copied = [];
  const { navigator } = globalThis;
  Object.defineProperty(globalThis, "navigator", { configurable: true, value: { clipboard: { writeText: async (text) => copied.push(text) } } });
  page.find(".copy-link").click();
  await settled();
  assert.deepEqual(copied, [location.href]);
  assert.equal(page.text(".copy-link"), "Copied");
  pass(2000);
  assert.equal(page.text(".copy-link"), "Copy link");
  Object.defineProperty(globalThis, "navigator", { configurable: true, value: {} });
  page.find(".copy-link").click();
  await settled();
  assert.match(page.text(".copy-link"), /address bar/);
  Object.defineProperty(globalThis, "navigator", { configurable: true, value: navigator });
});
