// @ts-check
// Every number of a head: its labels, what is unusual, and a row for each metric with baselines.

import { MIN_HEADS, unusualOf } from "./head_facts.js";
import { GeneralView } from "./general_view.js";
import { chooseIn, segments } from "./workbench_parts.js";
import { clearCanvas, formatNumber, make, makeButton, themeOf } from "../shared/shared.js";
/* global PALETTE */

const MAX_UNUSUAL = 6; // quantities that are named
const NOTHING_UNUSUAL = "Nothing unusual: in no number is this head among the 5 % of heads at either end.";
const TOO_FEW = `Of fewer than ${MIN_HEADS} heads none counts as unusual.`;
const AMONG_TEXTS = { sentence: "This sentence", texts: "Many texts" };
const STRIP = { width: 120, height: 16, edge: 6 }; // pixels of the picture of all heads

export class NumbersView {
  /** @param {import("./bench.js").Bench} bench */
  constructor(bench) {
    this.bench = bench;
    this.root = make("div", "numbers");
    this.root.tabIndex = 0; // to be scrolled by keys, too
    this.unusual = make("div", "unusual");
    this.labels = make("div", "labelled");
    this.compared = segments("Compare with", (among) => bench.choose({ general: among === "texts" }));
    this.study = makeButton("button", "", () => bench.outbox.send?.({ leave: "many_texts" }));
    this.random = makeButton("button", "Add random weights as a baseline", () => bench.outbox.send?.({ random: true }));
    this.line = make("div", "compared");
    this.line.append(this.compared, this.study, this.random);
    this.line.hidden = true; // until it is known what it offers
    this.table = make("div", "metrics");
    this.general = new GeneralView();
    this.notes = make("div", "number-notes");
    this.wait = make("div", "numbers-wait", "Computing the numbers …");
    this.wait.setAttribute("role", "status");
    this.root.append(this.labels, this.unusual, this.line, this.wait, this.general.root, this.table, this.notes);
  }

  /** @type {(head: number) => void} */
  draw(head) {
    const { bench } = this;
    this.head = head;
    const data = bench.extras.numbers.get(head) ?? null;
    const isComing = !data && Boolean(bench.settings.later);
    // The numbers of the head before stay, pale, until these come all at once: nothing moves.
    this.root.classList.toggle("stale", isComing);
    this.root.setAttribute("aria-busy", String(isComing));
    this.wait.hidden = !isComing || this.table.hasChildNodes();
    this.root.dataset.painted = data ? bench.name(head) : "";
    if (isComing) return;
    this.drawUnusual(head);
    this.labels.hidden = this.line.hidden = this.notes.hidden = !data;
    if (data) this.drawLabels(data);
    const texts = data?.texts ?? "";
    const isGeneral = Boolean(texts && bench.view.general);
    this.compared.hidden = !texts;
    chooseIn(this.compared, AMONG_TEXTS, isGeneral ? "texts" : "sentence");
    this.unusual.hidden = isGeneral;
    this.study.textContent = texts ? "Open the study" : "Is this usual? Measure many texts";
    this.random.hidden = !data?.random;
    const shown = data ?? { rows: rowsOfFacts(bench.facts, head), baselines: [], notes: [] };
    const table = make("table");
    table.append(...(isGeneral ? this.rowsOfTexts(shown) : this.rowsOfHeads(shown, head)));
    this.table.replaceChildren(table);
    this.labels.hidden ||= isGeneral;
    this.general.draw(isGeneral ? data : null, bench.name(head));
    this.notes.replaceChildren(...shown.notes.map((note) => make("p", "", note)));
  }

  drawUnusual(head) {
    const { facts, payload } = this.bench;
    const count = payload.header.layers * payload.header.heads;
    const unusual = unusualOf(facts, head, MAX_UNUSUAL);
    const heading = unusual.length ? "Most unusual among all heads" : count < MIN_HEADS ? TOO_FEW : NOTHING_UNUSUAL;
    const measured = count > 1 && Object.keys(facts).length > 0;
    const rows = unusual.map(({ title, value, rank }) => {
      const row = make("span", "unusual-number");
      row.append(make("span", "title", title), make("b", "", formatNumber(value)), make("span", "place", rank));
      return row;
    });
    this.unusual.replaceChildren(make("div", "heading", measured ? heading : ""), ...rows);
  }

  drawLabels({ labels, withheld, too_short: short }) {
    const lines = labels.map(({ title, meaning, why }) => {
      const line = make("p");
      line.append(make("b", "", title), ` ${meaning} `, make("span", "aside", why));
      return line;
    });
    if (!labels.length) lines.push(make("p", "", "No label: none of its scores passes a threshold, the baselines and chance."));
    if (withheld.length) lines.push(make("p", "aside", `Withheld, because as many heads may reach it by chance: ${withheld.join(", ")}.`));
    if (short.length) lines.push(make("p", "aside", `Too short to tell: ${short.join(", ")}.`));
    this.labels.replaceChildren(...lines);
  }

  /** The head among all heads on this sentence, and beside heads that have learned nothing. */
  rowsOfHeads({ rows, baselines }, head) {
    const titles = ["Metric", "This head", "Among all heads", "Mean", ...baselines];
    const theme = themeOf(this.root);
    return [titleRow(titles), ...rows.map((row) => {
      if (row.text !== undefined) return rowOfCells(metricCell(row), numberCell(row.text, "own"));
      const values = row.heads ?? this.bench.facts[row.title];
      const picture = make("td", "spread");
      if (values && row.value !== null) picture.append(spread(values, head, Object.values(row.baselines), theme));
      picture.append(make("div", "rank", row.rank));
      const baselineCells = baselines.map((name) => numberCell(name in row.baselines ? formatNumber(row.baselines[name]) : ""));
      return rowOfCells(metricCell(row), numberCell(formatNumber(row.value), "own"), picture, numberCell(formatNumber(row.mean)), ...baselineCells);
    })];
  }

  /** The head on this sentence beside the same head on the texts of a study. */
  rowsOfTexts({ rows, texts }) {
    const titles = ["Metric", "This sentence", `Median of ${texts}`, "Among these texts"];
    return [titleRow(titles), ...rows.filter((row) => row.among).map((row) => rowOfCells(
      metricCell(row), numberCell(formatNumber(row.value), "own"), numberCell(formatNumber(row.median)), numberCell(row.among, "among"),
    ))];
  }
}

function titleRow(titles) {
  const row = make("tr");
  row.append(...titles.map((title) => Object.assign(make("th", "", title), { scope: "col" })));
  return row;
}

function rowOfCells(...cells) {
  const row = make("tr");
  row.append(...cells);
  return row;
}

const numberCell = (text, name = "") => make("td", name, text);

/** The metrics that came with the weights, for a page without a server. */
function rowsOfFacts(facts, head) {
  return Object.entries(facts).map(([title, values]) => {
    const headValues = values.filter((value) => value !== null);
    const value = values[head];
    const rank = value === null ? "" : `${headValues.filter((other) => other > value).length + 1} of ${headValues.length}`;
    const mean = headValues.length ? headValues.reduce((sum, each) => sum + each, 0) / headValues.length : null;
    return { title, unit: "", meaning: "", value, mean, rank, heads: null, baselines: {}, among: "" };
  });
}

function metricCell({ title, unit, meaning }) {
  const name = Object.assign(make("th", "metric"), { scope: "row" });
  name.append(make("span", "title", unit ? `${title} (${unit})` : title), make("span", "meaning", meaning));
  return name;
}

/**
 * All heads as ticks between the lowest and the highest, this one as a block, baselines below.
 * @param {(number | null)[]} values
 * @param {number} head
 * @param {number[]} baselines
 * @param {"light" | "dark"} theme
 */
function spread(values, head, baselines, theme) {
  const headValues = values.filter((value) => value !== null);
  const [low, high] = [Math.min(...headValues), Math.max(...headValues)];
  const { width, height, edge } = STRIP;
  const at = (value) => (high > low ? edge + ((value - low) / (high - low)) * (width - 2 * edge) : width / 2);
  const canvas = make("canvas", "strip-of-heads");
  canvas.setAttribute("role", "img");
  canvas.title = `All heads, from ${formatNumber(low)} to ${formatNumber(high)}; the block is this head, triangles are baselines.`;
  canvas.setAttribute("aria-label", canvas.title);
  const { context } = clearCanvas(canvas, width, height);
  context.fillStyle = PALETTE.muted[theme];
  for (const value of headValues) context.fillRect(at(value) - 0.5, 2, 1, 8);
  context.fillStyle = PALETTE.ink[theme];
  for (const value of baselines.filter(Number.isFinite)) {
    const x = Math.min(Math.max(at(value), edge), width - edge);
    for (let step = 0; step < 5; step++) context.fillRect(x - step / 2 - 0.5, 11 + step, step + 1, 1);
  }
  context.fillStyle = PALETTE.accent[theme];
  context.fillRect(at(values[head]) - 3, 1, 6, 10);
  return canvas;
}
