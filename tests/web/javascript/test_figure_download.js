// Figures as files: what plotly.js is asked to draw, the file that is saved, and what may fail.

import assert from "node:assert/strict";

import figureDownload from "../../../mha_viz/web/components/figure_download/figure_download.js";
import { click, mounted, pass, settled, test } from "./dom.js";

const FIGURE = JSON.stringify({ data: [{ y: [1, 2] }], layout: { width: 640, height: 360, title: "a\u0001b 1 < 2" } });

/** The buttons, and the files that are saved: name, type and bytes. */
function shown(library) {
  const files = [];
  const revoked = [];
  globalThis.URL.createObjectURL = (blob) => (files.push({ blob }), `blob:${files.length}`);
  globalThis.URL.revokeObjectURL = (address) => revoked.push(address);
  document.defaultView.HTMLAnchorElement.prototype.click = function () {
    Object.assign(files.at(-1), { name: this.download, address: this.href });
  };
  delete globalThis[Symbol.for("mha_viz.plotly")];
  globalThis.Plotly = library;
  const page = mounted(figureDownload);
  page.update({ figure: FIGURE, name: "heads", plotly: "media/plotly.js" });
  const button = (label) => page.all("button").find((button) => button.textContent === label);
  /** Press a button and wait until the file is there. */
  const take = async (label) => {
    click(button(label));
    pass(50);
    await settled();
    await settled();
  };
  return { ...page, files, revoked, button, take };
}

/** A plotly.js that notes what it draws. */
function drawing(result) {
  const calls = [];
  return { calls, toImage: async (figure, options) => (calls.push({ figure, options }), result) };
}

test("a PNG has twice the pixels of the figure, and a name", async () => {
  const library = drawing(Buffer.from([0x89, 0x50, 0x4e, 0x47, 0xff]).toString("base64"));
  const { take, files, revoked } = shown(library);
  await take("PNG");
  const [{ figure, options }] = library.calls;
  assert.deepEqual(options, { format: "png", width: 640, height: 360, scale: 2, imageDataOnly: true });
  assert.deepEqual(figure.data, [{ y: [1, 2] }]);
  assert.equal(figure.layout.title, "a\ufffdb 1 < 2"); // no reader opens an SVG with the other one in it
  const [{ blob, name, address }] = files;
  assert.deepEqual([files.length, name, blob.type], [1, "heads.png", "image/png"]);
  assert.deepEqual([...new Uint8Array(await blob.arrayBuffer())], [0x89, 0x50, 0x4e, 0x47, 0xff]);
  assert.deepEqual(revoked, []);
  pass(120_000);
  assert.deepEqual(revoked, [address]);
});

test("an SVG is text, and a click while one is drawn is let pass", async () => {
  const library = drawing("<svg/>");
  const { take, files, button, all } = shown(library);
  click(button("SVG"));
  assert.equal(all("[aria-busy=true]").length, 1);
  await take("PNG");
  assert.equal(library.calls.length, 1);
  assert.deepEqual([files[0].name, files[0].blob.type, await files[0].blob.text()], ["heads.svg", "image/svg+xml", "<svg/>"]);
  assert.equal(all("[aria-busy]").length, 0);
  assert.ok(button("SVG"));
});

test("a figure that cannot be drawn is said, and the next click tries again", async () => {
  const library = { toImage: () => Promise.reject(new Error("too large")) };
  const { take, files, text } = shown(library);
  await take("SVG");
  assert.equal(files.length, 0);
  assert.ok(text("[role=status]"));
  library.toImage = async () => "<svg/>";
  await take("SVG");
  assert.equal(files.length, 1);
  assert.equal(text("[role=status]"), "");
});

test("plotly.js comes from the app's server alone, once, and again after a failure", async () => {
  const { take, text, files, update } = shown(undefined);
  const scripts = () => [...document.head.querySelectorAll("script")];
  update({ figure: FIGURE, name: "heads", plotly: "http://elsewhere.example/plotly.js" });
  await take("SVG");
  assert.deepEqual(scripts(), []);
  assert.ok(text("[role=status]"));
  update({ figure: FIGURE, name: "heads", plotly: "/media/plotly.js" });
  await take("SVG");
  assert.deepEqual(scripts().map((script) => script.src), ["http://here.example/media/plotly.js"]);
  scripts()[0].onerror();
  await settled();
  assert.ok(text("[role=status]"));
  await take("SVG");
  globalThis.Plotly = drawing("<svg/>");
  scripts()[1].onload();
  await settled();
  await settled();
  assert.equal(files.length, 1);
  assert.equal(text("[role=status]"), "");
  for (const script of scripts()) script.remove();
});
