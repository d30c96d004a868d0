import assert from "node:assert/strict";
import test from "node:test";

import payloadCarrier from "../../../mha_viz/web/components/page/payload_carrier.js";
import * as shared from "../../../mha_viz/web/components/shared/shared.js";
import * as store from "../../../mha_viz/web/components/shared/payload_store.js";
import { bytesOf, python } from "./python.js";

test("a payload that Python packed is unpacked", () => {
  const { header, body } = store.unpack(bytesOf("grid"));
  assert.deepEqual([header.layers, header.heads, header.rows, header.cols], [2, 3, 5, 7]);
  assert.deepEqual(header.key_labels, ["k0", "k1", "k2", "k3", "k4", "k5", "k6"]);
  const codes = python.pattern.flat(3).map((weight) => Math.max(1, Math.round(255 * Math.sqrt(weight))));
  assert.deepEqual([...body], codes);
});

test("payloads of one message are kept each under its id, with floats where they may start", () => {
  payloadCarrier({ data: bytesOf("bundle") });
  const { byId } = store.payloadStore();
  const [grid, head] = [bytesOf("grid"), bytesOf("head")].map(store.unpack);
  assert.deepEqual([...byId.get(grid.header.id).body], [...grid.body]);
  const body = byId.get(head.header.id).body;
  assert.equal(body.byteOffset % 4, 0);
  assert.deepEqual([...body], [...head.body]);
  const odd = [...byId.values()].find(({ header }) => header.kind === "odd");
  assert.equal(new TextDecoder().decode(odd.body), "12345");
});

test("base64 is read alike with the browser's own function and without it", () => {
  const bytes = bytesOf("grid");
  const text = Buffer.from(bytes).toString("base64");
  const nativeDecoder = Uint8Array.fromBase64;
  for (const read of [nativeDecoder, undefined, (text) => new Uint8Array(Buffer.from(text, "base64"))]) {
    Uint8Array.fromBase64 = read;
    assert.deepEqual([...store.bytesOf(text)], [...bytes]);
  }
  Uint8Array.fromBase64 = nativeDecoder;
});

test("a payload that is none is refused in plain words", () => {
  const gridBytes = bytesOf("grid");
  const withHeader = (text) => {
    const head = new TextEncoder().encode(text);
    const bytes = new Uint8Array(4 + head.length);
    new DataView(bytes.buffer).setUint32(0, head.length, true);
    bytes.set(head, 4);
    return bytes;
  };
  assert.throws(() => store.unpack(null), /data is missing/);
  assert.throws(() => store.unpack(gridBytes.subarray(0, 3)), /data is missing/);
  assert.throws(() => store.unpack(gridBytes.subarray(0, 20)), /cut short/);
  assert.throws(() => store.unpack(withHeader("{")), /cannot be read/);
  assert.throws(() => store.unpack(withHeader("null")), /another version/);
  assert.throws(() => store.unpack(withHeader('{"v": 99}')), /another version/);
});

test("the store keeps sixteen payloads, the oldest go, and tells who listens", () => {
  const packed = (id, more = {}) => {
    const head = new TextEncoder().encode(JSON.stringify({ v: 1, id, ...more }));
    return new Uint8Array([head.length, 0, 0, 0, ...head]);
  };
  const heard = [];
  const payloads = store.payloadStore();
  payloads.listeners.add((id) => heard.push(id));
  for (let id = 0; id < 19; id++) assert.equal(store.putPayload(packed(`p${id}`)), `p${id}`);
  assert.deepEqual([...payloads.byId.keys()], Array.from({ length: 16 }, (_, i) => `p${i + 3}`));
  assert.equal(heard.length, 19);
  assert.equal(store.payloadStore(), payloads);
  // Equal content has an equal id, so what is there stays; notes are named by their grid, and change.
  const [payload, first] = [payloads.byId.get("p18"), packed("n", { kind: "notes", labels: [1] })];
  store.putPayload(packed("p18"));
  assert.equal(payloads.byId.get("p18"), payload);
  store.putPayload(first);
  store.putPayload(packed("n", { kind: "notes", labels: [2] }));
  assert.deepEqual(payloads.byId.get("n").header.labels, [2]);
});

test("weights read as Python writes them", () => {
  for (const [weight, text] of python.weights) assert.equal(shared.formatWeight(weight), text);
});

test("numbers read as Python writes them", () => {
  for (const [number, text, signed, short] of python.quantities) {
    assert.equal(shared.formatNumber(number), text);
    assert.equal(shared.formatNumber(number, { signed: true }), signed);
    assert.equal(shared.formatShort(number), short);
  }
});

test("a short number has two digits and a true minus", () => {
  assert.equal(shared.formatShort(-0.0123), "−0.012");
  assert.equal(shared.formatShort(-1.26e-7), "−1.3e−7");
  assert.equal(shared.formatShort(12345), "12,000");
  assert.equal(shared.formatShort(NaN), "–");
});

test("a code says no more digits than it carries", () => {
  assert.equal(shared.formatCode(0), "masked: this query cannot see this key");
  assert.equal(shared.formatCode(255), "≈ 1.00");
  assert.equal(shared.formatCode(1), "< 0.0001");
  for (let code = 2; code < 256; code++) {
    const codeText = shared.formatCode(code);
    const digits = codeText.split(".")[1].length;
    const off = Math.abs(Number(codeText.replace("≈ ", "")) - (code / 255) ** 2);
    assert.ok(off <= 0.5 * 10 ** -digits + 1e-12, `${code}: ${codeText}`);
  }
});

test("any quantity is short", () => {
  const texts = [0.5, 3, 1234, 0.000123, -2.54321, null, NaN, Infinity].map((value) => shared.formatNumber(value));
  const none = "not defined";
  assert.deepEqual(texts, ["0.5", "3", "1,234", "0.000123", "−2.54", none, none, none]);
});

test("colours begin and end where the scale does, and lie between in between", () => {
  const stops = ["#000000", "#ff8040", "#ffffff"];
  assert.deepEqual(shared.rgbOf("#ff8040"), [255, 128, 64]);
  assert.deepEqual(shared.colourAt(0, stops), [0, 0, 0]);
  assert.deepEqual(shared.colourAt(0.25, stops), [128, 64, 32]);
  assert.deepEqual(shared.colourAt(0.5, stops), [255, 128, 64]);
  assert.deepEqual(shared.colourAt(1, stops), [255, 255, 255]);
  assert.deepEqual(shared.colourAt(7, stops), shared.colourAt(1, stops));
  assert.deepEqual(shared.colourAt(-7, stops), shared.colourAt(0, stops));
});

test("every scale keeps 0 and 1 and rises", () => {
  for (const scale of ["linear", "sqrt", "log"]) {
    const scaled = [0, 0.1, 0.3, 0.9, 1].map((weight) => shared.scaleWeight(weight, scale));
    assert.equal(scaled[0], 0);
    assert.ok(Math.abs(scaled[4] - 1) < 1e-12);
    scaled.slice(1).forEach((number, i) => assert.ok(number > scaled[i]));
  }
});

test("the table of pixels has opaque colours of the palette, lowest byte red", () => {
  const table = shared.colourTable("linear", "dark");
  for (const [code, hex] of [[0, python.palette.missing.dark], [255, python.palette.sequential.dark.at(-1)]]) {
    const [red, green, blue] = shared.rgbOf(hex);
    assert.equal(table[code], ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0);
  }
});

test("ink is read on its colour", () => {
  assert.equal(shared.inkOn([0, 0, 0]), "#ffffff");
  assert.equal(shared.inkOn([255, 255, 255]), "#000000");
  assert.equal(shared.inkOn([0, 255, 0]), "#000000"); // green is bright
  assert.equal(shared.inkOn([185, 111, 39]), "#000000"); // where white has a contrast of 3.9
});

test("ordinals are English", () => {
  const texts = [1, 2, 3, 4, 10, 11, 12, 13, 21, 22, 101, 111, 113, 123].map(shared.ordinal).join(" ");
  assert.equal(texts, "1st 2nd 3rd 4th 10th 11th 12th 13th 21st 22nd 101st 111th 113th 123rd");
});

test("a view belongs to the newest call: the end of an older one leaves it", () => {
  const [parent, gone] = [{}, []];
  const create = () => ({ close: () => gone.push("closed"), root: { remove: () => gone.push("removed") } });
  const first = shared.viewOf(parent, "grid", create);
  const endOfFirst = shared.endOf(parent, "grid");
  assert.equal(shared.viewOf(parent, "grid", create), first);
  const endOfSecond = shared.endOf(parent, "grid");
  endOfFirst();
  assert.deepEqual(gone, []);
  endOfSecond();
  assert.deepEqual(gone, ["closed", "removed"]);
  assert.notEqual(shared.viewOf(parent, "grid", create), first);
});

test("a canvas has the pixels of its screen, as many as a phone takes, and is drawn on in CSS pixels", () => {
  const calls = [];
  const context = {
    setTransform: (...numbers) => calls.push(["scale", numbers[0], numbers[3]]),
    clearRect: (...box) => calls.push(["clear", ...box]),
  };
  const canvas = { width: 0, height: 0, style: {}, getContext: () => context };
  globalThis.devicePixelRatio = 2;
  assert.deepEqual(shared.clearCanvas(canvas, 300.2, 150), { context, ratio: 2 });
  assert.deepEqual([canvas.width, canvas.height], [600, 300]);
  assert.deepEqual(canvas.style, { width: "300.2px", height: "150px" });
  assert.deepEqual(calls, [["scale", 2, 2], ["clear", 0, 0, 300.2, 150]]);
  assert.equal(shared.clearCanvas(canvas, 4000, 4000).ratio, 1);
  assert.deepEqual([canvas.width, canvas.height], [4000, 4000]);
  assert.ok(shared.clearCanvas(canvas, 8000, 8000).ratio < 1);
  assert.ok(canvas.width * canvas.height <= 16e6);
});
