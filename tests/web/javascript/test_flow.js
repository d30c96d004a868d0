import assert from "node:assert/strict";
import test from "node:test";

import { bytesIn, python } from "./python.js";

const { FlowModel, SOURCE } = await import("../../../mha_viz/web/components/flow_graph/flow_model.js");
const { flowItems, flowLayout, itemAt } = await import("../../../mha_viz/web/components/flow_graph/flow_layout.js");
const { headRow, partsInto, walkFlow } = await import("../../../mha_viz/web/components/flow_graph/flow_walk.js");
const { subgraphText, nodeText, partText } = await import("../../../mha_viz/web/components/flow_graph/flow_text.js");
const { svgText } = await import("../../../mha_viz/web/components/flow_graph/flow_paint.js");
const { unpack } = await import("../../../mha_viz/web/components/shared/payload_store.js");

const { header, body } = unpack(bytesIn(python.flow.payload));
const model = new FlowModel(header, body);

const near = (actual, expected) => assert.ok(Math.abs(actual - expected) < 1e-5, `${actual} is not ${expected}`);

test("a threshold keeps in the browser what it keeps in Python", () => {
  for (const { threshold, cut, parts, inputs } of python.flow.cases) {
    const subgraph = model.keep(threshold);
    assert.equal(subgraph.rows.length, parts);
    near(subgraph.cut, cut);
    for (let token = 0; token < model.tokens; token++) near(subgraph.through[token], inputs[token] ?? 0);
  }
  near(model.keep(0).cut, 0);
  assert.equal(model.keep(0).rows.length, header.parts);
});

test("every kept part is a line between nodes that are there, and is found where it lies", () => {
  const subgraph = model.keep(0.03);
  const layout = flowLayout(1000, model, subgraph);
  const items = flowItems(model, subgraph, layout);
  const drawn = items.lines.filter((line) => line.row >= 0).map((line) => line.row);
  assert.deepEqual(drawn.sort(), subgraph.rows.filter((row) => model.sourceOf(row) >= 0).sort());
  for (const [number, node] of items.nodes.entries()) assert.deepEqual(itemAt(items, node.x, node.y), { node: number });
  const { x0, y0, x1, y1 } = items.lines.find((line) => line.kind === SOURCE && Math.abs(line.x1 - line.x0) > 60);
  assert.ok("line" in itemAt(items, (x0 + x1) / 2, (y0 + y1) / 2));
  assert.equal(itemAt(items, 3, 3), null);
});

test("names of nodes overlap neither each other nor another node, and a narrow column has rows", () => {
  const signed = unpack(bytesIn(python.prediction));
  const tokenGraph = new FlowModel(signed.header, signed.body);
  for (const [graph, width] of [[tokenGraph, 1216], [tokenGraph, 358], [tokenGraph.folded(), 358]]) {
    const subgraph = graph.keep(0);
    const layout = flowLayout(width, graph, subgraph);
    assert.ok(layout.isNamed);
    const { nodes } = flowItems(graph, subgraph, layout);
    const boxes = nodes.filter(({ label }) => label).map(({ label, x, y }) => ({ x, y: y + 10, half: 3.5 * label.length }));
    assert.ok(boxes.length >= 5);
    boxes.forEach((box, at) => {
      for (const other of boxes.slice(at + 1)) {
        assert.ok(Math.abs(box.x - other.x) > box.half + other.half || Math.abs(box.y - other.y) >= 12, `${width}`);
      }
      for (const { x, y } of nodes) assert.ok(Math.abs(x - box.x) > box.half + 3 || Math.abs(y - box.y) > 5, `${width}`);
    });
  }
  const subgraph = model.keep(0);
  assert.ok(!flowLayout(358, model, subgraph).isNamed); // of a state that is not scrolled
});

test("keys lead down along the largest parts to an input token, and back up", () => {
  const subgraph = model.keep(0.02);
  const top = { state: model.stateAt(model.top, header.position) };
  let spot = top;
  const way = [];
  while (walkFlow(model, subgraph, spot, "ArrowDown")) way.push((spot = walkFlow(model, subgraph, spot, "ArrowDown")));
  assert.ok(spot.state < model.tokens && way.length >= 2 * model.top);
  for (let step = 0; step < way.length; step++) spot = walkFlow(model, subgraph, spot, "ArrowUp");
  assert.deepEqual(spot, top);
  const [first, second] = partsInto(model, subgraph, top.state);
  assert.deepEqual(walkFlow(model, subgraph, { row: first }, "ArrowRight"), { row: second });
  assert.equal(walkFlow(model, subgraph, { row: first }, "ArrowLeft"), null);
  assert.deepEqual(walkFlow(model, subgraph, spot, "Home"), top);
});

test("parts and nodes say what they are", () => {
  const subgraph = model.keep(0.02);
  assert.match(subgraphText(model, subgraph), /^\d+ parts; [\d.]+ % of “cat” followed, [\d.]+ % cut$/);
  const row = subgraph.rows.find((part) => model.kind[part] === SOURCE);
  assert.equal(headRow(model, { row }), row);
  assert.equal(headRow(model, { state: 0 }), -1);
  assert.match(partText(model, subgraph, row).join(", "), /^L\d H\d: “\S+” takes from “\S+”, .* of the chosen state, attention weight /);
  const { nodes } = flowItems(model, subgraph, flowLayout(500, model, subgraph));
  for (const node of nodes) assert.ok(nodeText(model, subgraph, node).every((line) => line && !line.includes("undefined")));
});

test("a file holds text as text", () => {
  const shape = { text: '<b> & "\u0000', x: 1, y: 2, turn: 0, anchor: "start", fill: "#000000" };
  const text = svgText([shape], { width: 3, height: 4, paper: "#ffffff", font: "a", title: "<t>" });
  assert.ok(text.includes("&lt;b&gt; &amp; &quot;\ufffd") && text.includes("<title>&lt;t&gt;</title>"));
});
