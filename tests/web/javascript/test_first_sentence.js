// One sentence through a model: its numbers, what they are made of, the way of the camera, steps, hands.

import assert from "node:assert/strict";

import firstSentence from "../../../mha_viz/web/components/first_sentence/first_sentence.js";
import { viewOn, wayBetween, zoomed } from "../../../mha_viz/web/components/first_sentence/camera.js";
import { MatrixImages } from "../../../mha_viz/web/components/first_sentence/matrix_images.js";
import { storyOf } from "../../../mha_viz/web/components/first_sentence/number_story.js";
import { SentenceModel } from "../../../mha_viz/web/components/first_sentence/sentence_model.js";
import { sceneOf } from "../../../mha_viz/web/components/first_sentence/story_steps.js";
import { World } from "../../../mha_viz/web/components/first_sentence/world_layout.js";
import { unpack } from "../../../mha_viz/web/components/shared/payload_store.js";
import { formatNumber } from "../../../mha_viz/web/components/shared/shared.js";
import { paintedOn } from "./canvas.js";
import { click, lay, mounted, pass, point, press, test, wish } from "./dom.js";
import { bytesIn, python } from "./python.js";

const { sentence } = python;
const SIZE = { width: 800, height: 500 };
const close = (actual, expected, far = 1e-5) => assert.ok(Math.abs(actual - expected) <= far * Math.max(1, Math.abs(expected)), `${actual} and ${expected}`);

function numbers() {
  const { header, body } = unpack(bytesIn(sentence.payload));
  return new SentenceModel(header, body);
}

function shown() {
  lay((element) => (element.matches?.(".stage, .stage *") ? SIZE : undefined));
  const page = mounted(firstSentence);
  page.update(bytesIn(sentence.payload));
  const view = page.parentElement.mhaViews.firstSentence;
  pass(50);
  return { ...page, view, canvas: page.find(".picture") };
}

/** Where a number of a matrix lies on the canvas. */
function placeOf({ view: { world, painter } }, kind, layer, head, row, col) {
  const block = world.block(kind, layer, head);
  const x = block.x + ((col + 0.5) / block.cols) * block.width;
  return [painter.x(x), painter.y(block.y + ((row + 0.5) / block.rows) * block.height)];
}

test("every matrix is that of the library", () => {
  const model = numbers();
  const n = model.tokens;
  for (const [layer, head] of [[0, 0], [1, 7], [3, 4]]) {
    for (const kind of ["query", "key", "value", "z"]) {
      for (const row of [0, n - 1]) {
        assert.deepEqual([...model.row(kind, layer, head, row)], sentence[kind][layer][head][row]);
      }
    }
    for (let row = 0; row < n; row++) {
      const scores = Array.from({ length: row + 1 }, (_, col) => model.score(layer, head, row, col));
      const top = Math.max(...scores);
      const sum = scores.reduce((total, score) => total + Math.exp(score - top), 0);
      scores.forEach((score, col) => close(Math.exp(score - top) / sum, sentence.pattern[layer][head][row][col], 1e-5));
    }
    const joined = { kind: "joined", layer, head: 0, rows: n, cols: 256 };
    assert.equal(model.at(joined, n - 1, 32 * head + 5), sentence.z[layer][head][n - 1][5]);
    const after = { kind: "after", layer, head: 0, rows: n, cols: 256 };
    close(model.at(after, 1, 77), sentence.streams[layer][1][77] + sentence.attention[layer][1][77]);
  }
});

test("with a head off later layers have other weights, earlier ones the same", () => {
  const model = numbers();
  model.off = 3; // L0 H3
  assert.equal(model.changed(0, 3), null);
  for (const [layer, head] of [[1, 0], [2, 5], [3, 7]]) {
    const codes = model.changed(layer, head);
    sentence.off[layer][head].flat().forEach((weight, i) => assert.ok(Math.abs((codes[i] / 255) ** 2 - weight) < 5e-3));
  }
  assert.notDeepEqual([...model.probabilities()], [...model.probabilities(null)]);
});

test("a number says what it was made of, and the parts make it", () => {
  const model = numbers();
  const world = new World(model);
  const [layer, head] = model.header.author;
  const last = model.tokens - 1;
  const story = (kind, row, col, of = [layer, head]) => storyOf(model, world.block(kind, ...of), row, col);
  const weight = model.row("weight", layer, head, last)[2];
  assert.match(story("weight", last, 2).lines[0], new RegExp(`^${formatNumber(weight)} = softmax of .* among the ${last + 1} scores`));
  assert.match(story("score", last, 2).lines[0], new RegExp(`^${formatNumber(model.score(layer, head, last, 2))} = q · k / √32 = `));
  assert.match(story("score", 0, 2).lines[0], /comes later/);
  const { inputs, weights, logits, withAll } = model.arrays;
  const beginsWithLargest = (parts, products) => {
    const [factor, other] = parts.replaceAll("−", "-").match(/-?\d[\d.]*(e-?\d+)?/g).map(Number);
    close(Math.abs(factor * other) / Math.max(...products.map(Math.abs)), 1, 0.02); // of three digits each
  };
  for (const [at, kind] of ["query", "key", "value"].entries()) {
    const [product, parts] = story(kind, 1, 3).lines;
    assert.equal(product.match(/column 3 of W_(\w)/)[1], "QKV"[at]);
    assert.match(parts, /\(bias\)$/);
    const weight = (i) => weights[(at * model.width + i) * model.depth + 3];
    beginsWithLargest(parts, Array.from({ length: model.width }, (_, i) => inputs[model.width + i] * weight(i)));
  }
  const [, sum] = story("z", last, 3).lines[0].split("= weights × values: ");
  const weightRow = [...model.row("weight", layer, head, last)].slice(0, last + 1);
  beginsWithLargest(sum, weightRow.map((each, i) => each * model.row("value", layer, head, i)[3]));
  assert.match(story("stream", 2, 9, [0, 0]).lines[0], /\(token “.*”\) \+ .*\(position 2\)$/);
  assert.match(story("attention", last, 4, [layer, 0]).lines[1], /^by head: .*\(H\d\).*\(biases\)$/);
  assert.match(story("guess", 0, 0, [0, 0]).lines[0], /= e\^.* \/ sum of e\^logit/);
  close(Math.exp(logits[0] - model.header.logTotal), withAll[0], 1e-4);
  for (const kind of ["query", "score", "weight", "z", "value"]) assert.ok(story(kind, last, 1).sources.length, kind);
});

test("the way between two views begins and ends at them, and zooms out when it is long", () => {
  const from = { x: 0, y: 0, scale: 8 };
  for (const to of [{ x: 900, y: 400, scale: 8 }, { x: 0, y: 0, scale: 0.5 }, { x: 3, y: 4, scale: 30 }, from]) {
    const way = wayBetween(from, to, 800);
    for (const [share, view] of [[0, from], [1, to]]) {
      for (const name of ["x", "y", "scale"]) close(way.at(share)[name], view[name], 1e-6);
    }
    assert.ok(way.length >= 0);
  }
  assert.ok(wayBetween(from, { x: 900, y: 400, scale: 8 }, 800).at(0.5).scale < 4);
  assert.deepEqual(viewOn({ x: 10, y: 20, width: 100, height: 10 }, 200, 400), { x: 60, y: 25, scale: 2 });
  const near = zoomed(from, 3, 100, 30, 800, 500); // the point under the pointer stays
  for (const [side, at, middle] of [["x", 100, 400], ["y", 30, 250]]) {
    close(near[side] + (at - middle) / near.scale, from[side] + (at - middle) / from.scale);
  }
});

test("nothing lies over anything else, and each step has a view of its own", () => {
  const model = numbers();
  const world = new World(model);
  const apart = (a, b) => a.x + a.width <= b.x + 1e-6 || b.x + b.width <= a.x + 1e-6 || a.y + a.height <= b.y + 1e-6 || b.y + b.height <= a.y + 1e-6;
  world.blocks.forEach((block, i) => world.blocks.slice(i + 1).forEach((other) => assert.ok(apart(block, other), `${block.kind} ${other.kind}`)));
  for (const { key } of model.header.steps) {
    const { box } = sceneOf(world, key);
    for (const side of Object.values(box)) assert.ok(Number.isFinite(side), key);
    assert.ok(box.width > 0 && box.height > 0);
  }
});

test("pictures have a pixel for each number, masked ones in grey", () => {
  const images = new MatrixImages(numbers());
  const matrix = { kind: "weight", layer: 0, head: 0, rows: images.model.tokens, cols: images.model.tokens };
  const { canvas } = images.of(matrix, "light");
  assert.deepEqual([canvas.width, canvas.height], [matrix.cols, matrix.rows]);
  assert.equal(images.of(matrix, "light").canvas, canvas);
  assert.notEqual(images.of(matrix, "dark").canvas, canvas);
});

test("steps go on and back by buttons, dots and keys, and are said", () => {
  const page = shown();
  const { steps } = page.view.model.header;
  assert.equal(page.text(".step-title"), steps[0].title);
  assert.equal(page.text(".live"), "");
  assert.equal(page.find(".nav .button").disabled, true);
  for (let i = 1; i < steps.length; i++) {
    click(page.find(".nav .primary"));
    pass(2000);
    assert.equal(page.text(".step-title"), steps[i].title);
    assert.equal(page.text(".step-text"), steps[i].text);
    assert.ok(page.text(".live").startsWith(`Step ${i + 1} of ${steps.length}. ${steps[i].title}.`));
  }
  assert.equal(page.find(".nav .primary").disabled, true);
  page.canvas.focus();
  assert.ok(press("ArrowLeft"));
  assert.equal(page.text(".step-title"), steps.at(-2).title);
  press("Home");
  assert.equal(page.text(".step-title"), steps[0].title);
  press("ArrowRight");
  assert.equal(page.view.step, 1);
  click(page.all(".dot")[8]);
  assert.equal(page.text(".step-title"), steps[8].title);
  assert.equal(page.all(".dot[aria-current=step]").length, 1);
  assert.equal(press("a"), false);
});

test("a step moves the view in time, and at once for who wants less motion", () => {
  const page = shown();
  click(page.find(".nav .primary"));
  pass(100);
  const target = page.view.target();
  assert.notEqual(page.view.view.y, target.y);
  pass(3000);
  close(page.view.view.y, target.y, 1e-3);
  wish("(prefers-reduced-motion: reduce)", true);
  click(page.find(".nav .primary"));
  assert.deepEqual(page.view.view, page.view.target());
});

test("drag, wheel, pinch and keys move the picture, and Escape leads back to the step", () => {
  const page = shown();
  const { canvas, view } = page;
  const before = { ...view.view };
  point(canvas, "pointerdown", 100, 100);
  point(canvas, "pointermove", 140, 100);
  point(canvas, "pointerup", 140, 100);
  close(view.view.x, before.x - 40 / before.scale);
  const scale = view.view.scale;
  point(canvas, "pointerdown", 100, 100, { pointerId: 1, pointerType: "touch" });
  point(canvas, "pointerdown", 200, 100, { pointerId: 2, pointerType: "touch" });
  point(canvas, "pointermove", 300, 100, { pointerId: 2, pointerType: "touch" });
  close(view.view.scale, 2 * scale);
  for (const pointerId of [1, 2]) point(canvas, "pointerup", 0, 0, { pointerId, pointerType: "touch" });
  canvas.focus();
  press("-");
  close(view.view.scale, (2 * scale) / 1.6);
  press("ArrowRight", { shiftKey: true });
  assert.equal(view.crosshair, true);
  press("Escape");
  pass(3000);
  close(view.view.scale, before.scale, 1e-3);
  assert.equal(view.crosshair, false);
});

test("a number that is pointed at shows its story, and what it was made from", () => {
  const page = shown();
  const { view, canvas } = page;
  const [layer, head] = view.model.header.author;
  const last = view.model.tokens - 1;
  for (let i = 0; i < 6; i++) press("ArrowRight");
  click(page.all(".dot")[6]); // weights
  pass(3000);
  point(canvas, "pointermove", ...placeOf(page, "weight", layer, head, last, 1));
  pass(50);
  assert.match(page.text(".tip-title"), /^weight of “/);
  assert.equal(page.find(".tip").hidden, false);
  assert.equal(view.story.sources[0].kind, "score");
  point(canvas, "pointerleave");
  assert.equal(page.find(".tip").hidden, true);
  click(page.all(".dot")[3]); // the same place before there are weights
  pass(3000);
  point(canvas, "pointermove", ...placeOf(page, "weight", layer, head, last, 1));
  assert.equal(page.find(".tip").hidden, true);
});

test("steps are told to Python, Back leads to the step of the address, the last one leads on", () => {
  const page = shown();
  press("End");
  const last = page.all(".dot").length - 1;
  assert.deepEqual(page.messages.at(-1), ["step", { to: last, playing: false }]);
  assert.equal(page.all(".way").length, 3);
  assert.equal(page.find(".ways").hidden, false);
  click(page.all(".way")[0]);
  assert.deepEqual(page.messages.at(-1), ["way", "lab-soft-lookup"]);
  const messageCount = page.messages.length;
  history.pushState(null, "", "?step=3");
  document.defaultView.dispatchEvent(new document.defaultView.Event("popstate"));
  assert.equal(page.text(".count"), `3 of ${last + 1}`);
  assert.equal(page.messages.length, messageCount);
  history.pushState(null, "", "?");
});

test("the step of switches turns heads off: other words, other weights, said aloud", () => {
  const page = shown();
  const { view } = page;
  const [layer, head] = view.model.header.carrier;
  page.canvas.focus();
  press("End");
  press("ArrowLeft");
  pass(3000);
  assert.equal(view.model.off, 8 * layer + head);
  assert.equal(page.all(".switch[aria-pressed=true]").length, 1);
  const before = page.texts(".word .p");
  click(page.all(".switch")[0]);
  assert.equal(view.model.off, 0);
  assert.match(page.text(".live"), /^L0 H0 is off: “/);
  assert.notDeepEqual(page.texts(".word .p"), before);
  click(page.all(".switch")[0]);
  assert.equal(view.model.off, null);
  assert.match(page.text(".live"), /^All heads are on: “/);
  press("ArrowLeft");
  assert.equal(view.model.off, null);
  assert.equal(page.find(".switches").hidden, true);
});

test("near by numbers are written, far away they are not", () => {
  const page = shown();
  const written = () => paintedOn(page.canvas, "text").filter(({ text }) => /^−?\d\.\d\d/.test(text)).length;
  assert.equal(written(), 0);
  click(page.all(".dot")[4]); // scores
  pass(3000);
  assert.ok(written() > 10);
});

test("each step paints the layers and matrices of its view, each matrix in a frame", () => {
  wish("(prefers-reduced-motion: reduce)", true);
  const page = shown();
  const { world, painter, model } = page.view;
  const boxOf = (block) => ({ x: painter.x(block.x), y: painter.y(block.y), width: block.width * page.view.view.scale, height: block.height * page.view.view.scale });
  const isInView = ({ x, y, width, height }) => x + width > 0 && y + height > 0 && x < SIZE.width && y < SIZE.height;
  const near = (first, second) => ["x", "y", "width", "height"].every((side) => Math.abs(first[side] - second[side]) < 3);
  const checkedKinds = new Set();
  for (const dot of page.all(".dot")) {
    click(dot);
    pass(50);
    const [images, frames] = ["drawImage", "strokeRect"].map((kind) => paintedOn(page.canvas, kind));
    for (const block of world.blocks.filter(({ kind }) => ["stream", "joined", "attention", "after", "final"].includes(kind))) {
      const box = boxOf(block);
      if (!isInView(box)) continue;
      checkedKinds.add(block.kind);
      assert.ok(images.some((image) => near(image, box)), `${block.kind} ${block.layer}`);
      assert.ok(frames.some((frame) => near(frame, box)), `${block.kind} ${block.layer}`);
    }
    const words = paintedOn(page.canvas, "text").map(({ text }) => text);
    world.layers.forEach((layer, i) => {
      const box = boxOf(layer);
      if (isInView(box) && box.width > 130) assert.ok(words.includes(`Layer ${i}`), `${dot.textContent}: Layer ${i}`);
    });
  }
  assert.ok(["stream", "attention", "final"].every((kind) => checkedKinds.has(kind)), [...checkedKinds].join());
  assert.equal(world.layers.length, model.layers);
});

test("parts of a sum stand in brackets where they are below zero, and a head that is off has its name", () => {
  const model = numbers();
  const world = new World(model);
  for (const col of [4, 5, 6, 7]) {
    const [, sum] = storyOf(model, world.block("attention", 1, 0), model.tokens - 1, col).lines;
    const parts = sum.match(/\(?−?\d[\d.e−]*\)?(?= \()/g);
    assert.ok(parts.length > 2, sum);
    for (const part of parts) assert.equal(part.startsWith("("), part.includes("−") && !/^\d/.test(part), sum);
  }
  for (const [layer, head] of [[0, 3], [2, 5]]) {
    model.off = layer * model.heads + head;
    assert.ok(storyOf(model, world.block("guess", 0, 0), 1, 0).lines[0].includes(`L${layer} H${head}`));
  }
});
