// The mark of a page that is ready: the number of the run whose pictures are painted.

import assert from "node:assert/strict";

import { pass, settled, test } from "./dom.js";

const { default: ready } = await import("../../../mha_viz/web/components/page/ready.js");
const readiness = await import("../../../mha_viz/web/components/shared/readiness.js");

const FRAMES = 40; // ms: what is drawn in one frame is seen two frames later
const app = document.createElement("div");
app.dataset.testid = "stApp";
const shown = () => document.documentElement.dataset.ready;
const script = (state) => app.setAttribute("data-test-script-state", state);

async function nextFrame() {
  await settled(); // the observer's turn
  pass(FRAMES);
}

function begin() {
  document.body.append(app);
  app.replaceChildren();
  Object.assign(readiness.readiness(), { session: "", run: 0 });
  readiness.readiness().pending.clear();
}

test("the number of a run is shown once it has ended and is painted", async () => {
  begin();
  script("running");
  ready({ data: { session: "a", run: 3 } });
  await nextFrame();
  assert.equal(shown(), "working");
  script("notRunning");
  await settled();
  assert.equal(shown(), "working"); // until the frame is on the screen
  pass(FRAMES);
  assert.equal(shown(), "3");
});

test("a skeleton, a chart without its drawing and an unpainted component are waited for", async () => {
  for (const [testid, finish] of [
    ["stSkeleton", (element) => element.remove()],
    ["stPlotlyChart", (element) => element.append(Object.assign(document.createElement("i"), { className: "main-svg" }))],
    ["stBidiComponentIsolated", (element) => readiness.markPainted({ host: element })],
    ["stBidiComponentRegular", (element) => readiness.markPainted(element)],
  ]) {
    begin();
    const element = document.createElement("div");
    element.dataset.testid = testid;
    app.append(element);
    script("notRunning");
    ready({ data: { session: testid, run: 2 } });
    await nextFrame();
    assert.equal(shown(), "working", testid);
    finish(element);
    await nextFrame();
    assert.equal(shown(), "2", testid);
  }
});

test("what a component sends is waited for until the next run has ended", async () => {
  begin();
  script("notRunning");
  ready({ data: { session: "a", run: 1 } });
  await nextFrame();
  const messages = [];
  const { setTriggerValue } = readiness.observed({ setTriggerValue: (...message) => messages.push(message) });
  setTriggerValue("view", 7);
  assert.equal(shown(), "working");
  pass(0);
  assert.deepEqual(messages, [["view", 7]]);
  ready({ data: { session: "a", run: 1 } }); // the run before, drawn again
  await nextFrame();
  assert.equal(shown(), "working");
  ready({ data: { session: "a", run: 2 } });
  await nextFrame();
  assert.equal(shown(), "2");
});

test("messages of two components are never in one batch, for which Streamlit runs one fragment", () => {
  begin();
  const batches = []; // as Streamlit makes them: what is sent before its timer is called
  let isOpen = false;
  const component = (name) => ({
    parentElement: document.createElement("div"),
    setTriggerValue: (_, value) => {
      if (!isOpen) batches.push([]);
      if (!isOpen) setTimeout(() => (isOpen = false));
      isOpen = true;
      batches.at(-1).push(`${name}${value}`);
    },
  });
  const [bench, requests] = ["bench", "requests"].map(component).map(readiness.observed);
  requests.setTriggerValue("view", 2);
  bench.setTriggerValue("view", 3);
  bench.setTriggerValue("view", 5);
  requests.setTriggerValue("view", 7);
  pass(50);
  assert.deepEqual(batches, [["requests2", "requests7"], ["bench3", "bench5"]]);
  bench.setTriggerValue("view", 11);
  pass(50);
  assert.deepEqual(batches.at(-1), ["bench11"]);
});

test("a run that never comes is given up", async () => {
  begin();
  script("notRunning");
  ready({ data: { session: "a", run: 5 } });
  readiness.expectRun();
  await nextFrame();
  assert.equal(shown(), "working");
  pass(30_000);
  await nextFrame();
  assert.equal(shown(), "5");
});

test("a server that was started anew counts from one", async () => {
  begin();
  script("notRunning");
  ready({ data: { session: "a", run: 57 } });
  await nextFrame();
  ready({ data: { session: "b", run: 1 } });
  await nextFrame();
  assert.equal(shown(), "1");
});

test("late values keep the page working until they have come", async () => {
  begin();
  script("notRunning");
  readiness.setPending("weights", true);
  ready({ data: { session: "a", run: 4 } });
  await nextFrame();
  assert.equal(shown(), "working");
  readiness.setPending("weights", false);
  await nextFrame();
  assert.equal(shown(), "4");
});

test("a menu that opens is a landmark of its name", async () => {
  ready({ data: { session: "a", run: 1 } });
  const open = async (label) => {
    const [portal, frame, list] = ["div", "div", "div"].map((name) => document.createElement(name));
    list.setAttribute("role", "listbox");
    if (label) list.setAttribute("aria-label", label);
    frame.append(list);
    portal.append(frame);
    document.body.append(portal);
    await Promise.resolve();
    return [portal.getAttribute("role"), portal.getAttribute("aria-label")];
  };
  assert.deepEqual(await open("Model"), ["region", "Model menu"]);
  assert.deepEqual(await open(""), ["region", "menu"]);
});
