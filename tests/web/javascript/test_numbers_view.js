// The numbers of a head: what is unusual, a row for each metric, labels, and the same head on many texts.

import assert from "node:assert/strict";

import { putPayload } from "../../../mha_viz/web/components/shared/payload_store.js";
import { formatNumber } from "../../../mha_viz/web/components/shared/shared.js";
import { openBench } from "./bench_page.js";
import { paintedOn } from "./canvas.js";
import { pass, test } from "./dom.js";
import { bytesIn, packed, python } from "./python.js";

const ENTROPY = { title: "entropy", unit: "nats", meaning: "How undecided the head is.", heads: null };
const DATA = {
  rows: [
    { ...ENTROPY, value: 0.5, mean: 0.7, rank: "9 of 15", baselines: { uniform: 1.25 }, median: 0.25, among: "higher than on 97 % of the texts" },
    { title: "Induction", unit: "", meaning: "", heads: Array(15).fill(0.1), value: null, mean: null, rank: "", baselines: {}, median: null, among: "" },
    { title: "Induction, 95 % interval", text: "0.1 to 0.2", meaning: "Over 8 texts." },
  ],
  baselines: ["uniform", "random"],
  labels: [{ title: "<b>Local</b>", meaning: "Looks near.", why: "distance 1.2" }],
  withheld: ["Broad"], too_short: ["Induction"], texts: "", unusual: "", notes: ["A note."], random: true,
};

/** The page on its numbers, and what brings those of a head. */
function opened(more = {}, view = {}) {
  const page = openBench({ show: "numbers", ...view }, { more });
  const { id } = page.header;
  const bring = (data, head = 7) => putPayload(packed({ kind: "numbers", of: id, head, id: `${id} numbers ${head} ${JSON.stringify(data).length}`, ...data }, new Float32Array(0)));
  const cells = () => page.all(".metrics tr").slice(1).map((row) => [...row.children].map((cell) => cell.textContent));
  return { ...page, bring, cells };
}

test("the unusual numbers of a head are those in which it is among the 5 % at either end", () => {
  const { entropy, grid } = python.many; // of 20 heads: one at either end
  const { texts, clickHead, say } = opened({ later: false });
  const shown = () => texts(".unusual > *");
  assert.deepEqual(shown(), ["Of fewer than 20 heads none counts as unusual."]);
  say({ payload: putPayload(bytesIn(grid)) });
  const ascending = [...entropy.keys()].sort((first, second) => entropy[first] - entropy[second]);
  clickHead(ascending[1]);
  assert.deepEqual(shown(), ["Nothing unusual: in no number is this head among the 5 % of heads at either end."]);
  for (const [head, rank] of [[ascending[0], "lowest of 20"], [ascending[19], "highest of 20"]]) {
    clickHead(head);
    assert.equal(shown().length, 2);
    assert.equal(shown()[0], "Most unusual among all heads");
    assert.ok(shown()[1].endsWith(rank), shown()[1]);
  }
});

test("all numbers of a head come at once, and those of the head before stay until then", () => {
  const { find, text, cells, clickHead, bring } = opened();
  assert.ok(!find(".numbers-wait").hidden);
  assert.deepEqual(cells(), []);
  bring(DATA, 7);
  assert.ok(find(".numbers-wait").hidden && !find(".numbers.stale"));
  clickHead(3);
  assert.equal(find(".numbers").getAttribute("aria-busy"), "true");
  assert.ok(find(".numbers.stale") && cells().length === 3);
  bring({ ...DATA, labels: [{ title: "Self", meaning: "", why: "" }] }, 3);
  assert.ok(!find(".numbers.stale") && text(".labelled").startsWith("Self"));
});

test("without a server the metrics that came with the weights stand there", () => {
  const { find, cells, clickHead } = opened({ later: false });
  const { entropy } = python.heads;
  clickHead(3);
  const rank = entropy.filter((value) => value > entropy[3]).length + 1;
  const mean = entropy.reduce((sum, value) => sum + value, 0) / entropy.length;
  assert.deepEqual(cells(), [["entropy", formatNumber(entropy[3]), cells()[0][2], formatNumber(mean)]]);
  assert.ok(cells()[0][2].endsWith(`${rank} of 15`));
  assert.ok(find(".numbers-wait").hidden && find(".labelled").hidden);
});

test("a row has the head's value, its rank, the mean and each baseline, and text stays text", () => {
  const { bring, cells, text, texts, all } = opened();
  bring(DATA);
  assert.deepEqual(texts(".metrics th[scope=col]"), ["Metric", "This head", "Among all heads", "Mean", "uniform", "random"]);
  const [entropy, induction, interval] = cells();
  assert.deepEqual([entropy[0], entropy[1], ...entropy.slice(3)], ["entropy (nats)How undecided the head is.", "0.5", "0.7", "1.25", ""]);
  assert.deepEqual(induction.slice(1), ["not defined", "", "not defined", "", ""]);
  assert.deepEqual(interval, ["Induction, 95 % intervalOver 8 texts.", "0.1 to 0.2"]);
  assert.equal(all(".strip-of-heads").length, 1); // what is not defined has no place
  assert.ok(text(".labelled").startsWith("<b>Local</b> Looks near. distance 1.2"));
  assert.equal(all(".labelled b").length, 1);
  assert.deepEqual(texts(".labelled .aside").slice(1), [
    "Withheld, because as many heads may reach it by chance: Broad.", "Too short to tell: Induction.",
  ]);
  assert.deepEqual(texts(".number-notes p"), ["A note."]);
});

test("the picture of all heads has a tick for each, and marks the head at its value", () => {
  const { bring, find } = opened();
  bring(DATA);
  const { entropy } = python.heads;
  const painted = paintedOn(find(".strip-of-heads"), "fillRect");
  const ticks = painted.filter(({ height }) => height === 8).map(({ x }) => x + 0.5);
  assert.equal(ticks.length, 15);
  assert.deepEqual([Math.min(...ticks), Math.max(...ticks)], [6, 114]);
  const order = (values) => [...values.keys()].sort((a, b) => values[a] - values[b] || a - b);
  assert.deepEqual(order(ticks), order(entropy));
  const ownTick = painted.at(-1);
  assert.equal(ownTick.colour, python.palette.accent.light);
  assert.ok(Math.abs(ownTick.x + ownTick.width / 2 - ticks[7]) < 1e-9);
  assert.ok(painted.some(({ colour }) => colour === python.palette.ink.light)); // the baseline
});

test("a finished study offers the same head on many texts", () => {
  const { all, bring, button, cells, find, text, texts } = opened();
  bring(DATA);
  assert.ok(find(".numbers .segments").hidden && button("Is this usual? Measure many texts"));
  const labels = [{ title: "<b>Local</b>", mean: 1.25, low: 1, high: 1.5, share_of_texts: 0.75 }];
  const general = { labels, offsets: [["−1", 0.5], ["0", 0.25]], kinds: [["special", 0.125]] };
  bring({ ...DATA, texts: "120 sentences of the sample", unusual: "Entropy 0.5, higher than on 97 %", general });
  assert.deepEqual(texts(".among-texts"), []);
  button("Many texts").click();
  assert.deepEqual(texts(".among-texts"), ["Entropy 0.5, higher than on 97 %"]);
  assert.deepEqual(texts(".metrics th[scope=col]").slice(2), ["Median of 120 sentences of the sample", "Among these texts"]);
  assert.deepEqual(cells(), [["entropy (nats)How undecided the head is.", "0.5", "0.25", "higher than on 97 % of the texts"]]);
  assert.equal(text(".in-general"), "L1 H2 over 120 sentences of the sample. <b>Local</b>: 1.25 (95 % interval 1 to 1.5), on 75 % of the texts.");
  assert.deepEqual(texts(".shares th"), ["−1", "0", "special"]);
  assert.deepEqual(texts(".shares .weight"), ["0.500", "0.250", "0.125"]);
  assert.deepEqual(all(".shares .fill").map((fill) => fill.style.width), ["100%", "50%", "100%"]);
  button("This sentence").click();
  assert.ok(find(".general").hidden);
  assert.equal(cells().length, 3);
});

test("buttons ask Python for a study, and for random weights as a baseline", () => {
  const { bring, button, find } = opened();
  const sent = [];
  globalThis[Symbol.for("mha_viz.benches")].get("bench").outbox.send = (message) => sent.push(message);
  bring({ ...DATA, random: false });
  assert.ok(button("Add random weights as a baseline").hidden);
  bring(DATA);
  button("Add random weights as a baseline").click();
  button("Is this usual? Measure many texts").click();
  pass(150);
  assert.deepEqual(sent, [{ random: true }, { leave: "many_texts" }]);
  assert.ok(find(".numbers").dataset.painted);
});
