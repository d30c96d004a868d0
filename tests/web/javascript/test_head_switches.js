// The head switches: what pointer and keys switch, what Python hears of it and when, and what is drawn.

import assert from "node:assert/strict";

import headSwitches from "../../../mha_viz/web/components/head_switches/head_switches.js";
import { formatNumber, putPayload, rgbOf } from "../../../mha_viz/web/components/shared/shared.js";
import { NAMES } from "../../../mha_viz/web/components/head_switches/switch_parts.js";
import { paintedOn, pixelAt } from "./canvas.js";
import { click, dark, lay, mounted, pass, point, press, test } from "./dom.js";
import { bytesIn, python } from "./python.js";

const [LAYERS, HEADS] = [5, 7];
const { values, colours, notes, payload } = python.switches;
const PITCH = 44; // of tiles where there is room
const ABOVE = 20; // pixels of the heads' names

/** The switches as Python draws them, each tile where a page would lay it. */
function shown(more = {}, pitch = [PITCH, PITCH]) {
  lay(({ mhaRow: row, mhaColumn: column }) => row >= 0 && column >= 0
    ? { x: NAMES + column * pitch[0], y: ABOVE + row * pitch[1], width: pitch[0], height: pitch[1] } : undefined);
  const page = mounted(headSwitches);
  let settings = {
    layers: LAYERS, heads: HEADS, off: [], value: values.positive, name: "importance", heard: null,
    payload: null, scale: "sqrt", selected: [1, 2], ...more,
  };
  page.update(settings);
  const update = (news) => page.update((settings = { ...settings, ...news }));
  const tile = (row, column) => page.all(".tile")[row * settings.heads + column];
  const middle = (row, column) => [NAMES + (column + 0.5) * pitch[0], ABOVE + (row + 0.5) * pitch[1]];
  /** A press of the pointer on a tile, and the moment after. */
  const tap = (row, column, later = 0) => {
    click(tile(row, column), ...middle(row, column));
    pass(later);
  };
  const off = () => {
    const tiles = page.all(".tile.off");
    assert.ok(tiles.every((one) => one.getAttribute("aria-label").includes(", off")));
    assert.equal(page.all('.tile[aria-checked="false"]').length, tiles.length);
    return tiles.map((one) => one.getAttribute("aria-label").match(/^L(\d+) H(\d+)/).slice(1).join("."));
  };
  /** Sets that Python was told, "1.3 2.0". */
  const heard = () => page.told.map(([, message]) => message.off.map((head) => head.join(".")).join(" "));
  const last = () => page.told.at(-1)[1].id;
  return { ...page, update, tile, middle, tap, off, heard, last };
}

// -- what Python hears ------------------------------------------------------------------------------

test("a click shows at once, is told once, and older runs do not undo it", () => {
  const { tap, off, told, heard, update, last } = shown();
  tap(3, 4);
  assert.deepEqual(off(), ["3.4"]);
  assert.deepEqual(heard(), ["3.4"]);
  assert.equal(told[0][0], "switch");
  assert.deepEqual(told[0][1].of, [LAYERS, HEADS]);
  update({}); // a run that began before
  assert.deepEqual(off(), ["3.4"]);
  update({ heard: last(), off: [[3, 4]] });
  assert.deepEqual(off(), ["3.4"]);
  pass(1000);
  tap(0, 0);
  tap(3, 4, 150);
  assert.deepEqual(off(), ["0.0"]);
  assert.deepEqual(heard(), ["3.4", "0.0 3.4", "0.0"]);
});

const SCATTERED = Array.from({ length: 30 }, (_, i) => [i % LAYERS, (3 * i) % HEADS]);
const inOrder = (heads) => heads.map(([row, column]) => `${row}.${column}`).sort();

test("clicks at the same time are sent together", () => {
  const { tile, off, heard } = shown();
  for (const [row, column] of SCATTERED) tile(row, column).click(); // as a screen reader does
  pass(1000);
  assert.deepEqual(off(), inOrder(SCATTERED));
  assert.deepEqual(heard(), [inOrder(SCATTERED).join(" ")]);
});

for (const pause of [13, 61, 233]) {
  test(`of clicks ${pause} ms apart none is lost, and none is undone by a run that lags behind`, () => {
    const { tap, off, heard, told, update } = shown();
    SCATTERED.forEach(([row, column], i) => {
      tap(row, column, pause);
      assert.equal(off().length, i + 1);
      for (const known of [told[Math.floor(told.length / 2)], told.at(-1)]) {
        update({ heard: known[1].id, off: known[1].off });
        assert.equal(off().length, i + 1);
      }
    });
    pass(1000);
    assert.equal(heard().at(-1), inOrder(SCATTERED).join(" "));
    assert.equal(new Set(heard()).size, told.length);
    const [from, to] = [0.5, 1.5].map((share) => (share * 30 * pause) / Math.max(150, pause));
    assert.ok(told.length >= from && told.length <= to + 1, `${told.length} messages`);
  });
}

test("there and back is as before, and is not told", () => {
  const { tile, middle, off, told } = shown();
  click(tile(1, 1), ...middle(1, 1));
  click(tile(1, 1), ...middle(1, 1));
  pass(1000);
  assert.deepEqual([off(), told], [[], []]);
});

test("what is pressed elsewhere comes after what was switched here", () => {
  const { tap, heard } = shown();
  tap(0, 0);
  tap(3, 3); // within the same beat, so that it waits
  assert.deepEqual(heard(), ["0.0"]);
  point(document.body, "pointerdown");
  assert.deepEqual(heard(), ["0.0", "0.0 3.3"]);
});

test("what Python changes is shown, once it knows of what was switched last", () => {
  const { tap, off, heard, update, last } = shown();
  update({ off: [[1, 1], [0, 2]] });
  assert.deepEqual(off(), ["0.2", "1.1"]);
  tap(1, 1);
  assert.deepEqual(heard(), ["0.2"]);
  update({ heard: last(), off: [[0, 2]] });
  update({ off: [] });
  assert.deepEqual(off(), []);
  pass(1000);
  tap(2, 2);
  update({ off: [], heard: last() }); // it passes [] again: this change was not kept
  assert.deepEqual(off(), []);
});

test("another model has switches of its own", () => {
  const { tap, off, heard, update, all } = shown();
  tap(0, 1);
  update({ layers: 2, heads: 3, off: [[1, 0]], value: null }); // before it has heard of the change
  assert.equal(all(".tile").length, 6);
  assert.deepEqual(off(), ["1.0"]);
  pass(1000);
  all(".tile")[5].click();
  pass(0);
  assert.equal(heard().at(-1), "1.0 1.2");
});

// -- pointer and keys -------------------------------------------------------------------------------

test("a drag sets all that it passes to what the first became, and is told at its end", () => {
  const { tap, tile, find, middle, off, heard } = shown();
  const stage = find(".stage");
  tap(1, 3, 1000);
  point(tile(1, 1), "pointerdown", ...middle(1, 1));
  point(stage, "pointermove", ...middle(1, 5)); // one jump: what lies between is meant, too
  pass(1000);
  assert.deepEqual(off(), ["1.1", "1.2", "1.3", "1.4", "1.5"]);
  assert.deepEqual(heard(), ["1.3"]); // nothing is said while it goes on
  point(stage, "pointermove", ...middle(2, 5));
  point(stage, "pointermove", ...middle(3, 5));
  point(stage, "pointerup", ...middle(3, 5));
  pass(0);
  assert.deepEqual(heard(), ["1.3", "1.1 1.2 1.3 1.4 1.5 2.5 3.5"]);
  pass(1000);
  point(tile(1, 5), "pointerdown", ...middle(1, 5));
  point(stage, "pointermove", ...middle(1, 2));
  point(stage, "pointermove", 5, 5); // out of the grid
  point(stage, "pointerup", 5, 5);
  pass(1000);
  assert.equal(heard().at(-1), "1.1 2.5 3.5");
  point(tile(0, 0), "pointerdown", ...middle(0, 0), { button: 2 }); // for a menu
  point(stage, "pointerup", ...middle(0, 0), { button: 2 });
  assert.deepEqual(off(), ["1.1", "2.5", "3.5"]);
});

test("names switch rows and columns, and say how many heads of theirs are off", () => {
  const { tap, find, off, heard, text } = shown();
  const named = (label) => find(`.name[aria-label="${label}"]`);
  tap(1, 2);
  named("Layer 1: 1 of 7 heads off").click();
  assert.deepEqual(off(), [0, 1, 2, 3, 4, 5, 6].map((head) => `1.${head}`));
  assert.equal(text(".live"), "Layer 1: 7 of 7 heads off");
  named("Head 3: 1 of 5 layers off").click();
  pass(1000);
  assert.equal(heard().at(-1), "0.3 1.0 1.1 1.2 1.3 1.4 1.5 1.6 2.3 3.3 4.3");
  named("Layer 1: 7 of 7 heads off").click();
  pass(1000);
  assert.equal(heard().at(-1), "0.3 2.3 3.3 4.3");
});

test("keys go from tile to tile and to the names, and switch", () => {
  const { tile, find, all, heard, text } = shown();
  const focused = () => document.activeElement.getAttribute("aria-label");
  tile(0, 0).focus();
  press("ArrowRight");
  assert.ok(press("ArrowDown"));
  assert.match(focused(), /^L1 H1, on, importance /);
  assert.equal(text(".tip"), focused());
  press(" ");
  press("End");
  press("Enter");
  pass(1000);
  assert.equal(heard().at(-1), "1.1 1.6");
  assert.equal(text(".tip"), tile(1, 6).getAttribute("aria-label"));
  press("ArrowDown");
  press(" ", { shiftKey: true }); // the whole layer
  pass(1000);
  assert.equal(heard().at(-1), "1.1 1.6 2.0 2.1 2.2 2.3 2.4 2.5 2.6");
  press(" ", { shiftKey: true });
  press("Home");
  press("ArrowLeft"); // the layer's name
  assert.match(focused(), /^Layer 2/);
  press("ArrowUp");
  press("Enter");
  pass(1000);
  assert.equal(heard().at(-1), "1.0 1.1 1.2 1.3 1.4 1.5 1.6");
  press("Escape");
  assert.ok(find(".tip").hidden);
  press("End", { ctrlKey: true });
  assert.match(focused(), /^L4 H6/);
  press(" ");
  assert.equal(all('[tabindex="0"]').length, 1); // one stop of the Tab key
  document.activeElement.blur(); // leaves the grid: nothing waits any longer
  assert.equal(heard().at(-1), "1.0 1.1 1.2 1.3 1.4 1.5 1.6 4.6");
  assert.ok(!press("x"));
});

// -- what is drawn ----------------------------------------------------------------------------------

/** The colour that the page's own style makes of a tile's. */
function mixed(text) {
  const [, to, share, from] = text.match(/^color-mix\(in srgb, (#\w+) ([\d.e-]+)%, (#\w+)\)$/);
  return rgbOf(from).map((value, i) => value + ((rgbOf(to)[i] - value) * share) / 100);
}

for (const theme of ["light", "dark"]) {
  test(`values around 0 have the colours and the legend of their scale: ${theme}`, () => {
    dark(theme === "dark");
    const { all, find, texts, tap, text } = shown({ value: values.signed });
    assert.equal(find(".head-switches").dataset.theme, theme);
    colours[Number(theme === "dark")].forEach((colour, index) => {
      const found = mixed(all(".tile")[index].style.getPropertyValue("--tile"));
      assert.ok(colour.every((value, i) => Math.abs(value - found[i]) <= 1), `${index}: ${found}`);
    });
    const reach = formatNumber(values.signed.high);
    assert.deepEqual(texts(".end"), [`−${reach}`, reach]);
    assert.equal(text(".count"), "All 35 heads on");
    tap(2, 2);
    assert.equal(text(".count"), "1 of 35 heads off");
  });
}

test("a tile names its head and its value, or that there is none, and never as markup", () => {
  const { tile, find, text, update, all } = shown({ value: values.gaps, name: "<b>bold</b> $x$" });
  const hover = (...place) => point(tile(...place), "pointermove");
  hover(0, 1);
  assert.equal(text(".tip"), "L0 H1, on, <b>bold</b> $x$ 0.0123");
  hover(0, 2);
  assert.equal(text(".tip"), "L0 H2, on, <b>bold</b> $x$ not defined");
  assert.ok(tile(0, 2).classList.contains("missing") && !tile(0, 1).classList.contains("missing"));
  assert.match(text(".legend"), /not defined/);
  assert.equal(find("b"), null);
  point(find(".stage"), "pointerleave");
  assert.ok(find(".tip").hidden);
  update({ value: null });
  hover(0, 1);
  assert.equal(text(".tip"), "L0 H1, on");
  assert.deepEqual(all(".ramp"), []);
  assert.equal(tile(0, 1).style.getPropertyValue("--tile"), "");
  update({ layer_numbers: [3, 7, 8, 9, 12] }); // of a model in which other layers have no attention
  hover(1, 2);
  assert.equal(text(".tip"), "L7 H2, on");
  assert.ok(find('.name[aria-label="Layer 12: 0 of 7 heads off"]'));
});

const SIDE = 103; // of tiles with patterns and the gap around them, in this window

for (const theme of ["light", "dark"]) {
  test(`a tile holds its head's pattern and label: ${theme}`, () => {
    dark(theme === "dark");
    const id = putPayload(bytesIn(payload));
    const { tile, find } = shown({ payload: id }, [SIDE, SIDE]);
    putPayload(bytesIn(notes)); // they come after the patterns
    const canvas = find("canvas.patterns");
    assert.equal(find(".head-switches").dataset.painted, id);
    const images = paintedOn(canvas, "image");
    assert.equal(images.length, LAYERS * HEADS);
    const { x, y, width, height } = images[HEADS + 1]; // all of its rows look at the first token
    assert.ok(x > SIDE && x + width < 2 * SIDE && y > SIDE && y + height < 2 * SIDE);
    assert.ok(width > 60 && width === height);
    const scale = python.palette.sequential[theme].map(rgbOf);
    for (const down of [1, height / 2, height - 1]) {
      assert.deepEqual(pixelAt(canvas, x, y + down), scale.at(-1));
      const beside = pixelAt(canvas, x + width / 2, y + down);
      assert.ok(beside.every((value, i) => Math.abs(value - scale[0][i]) <= 12));
    }
    assert.deepEqual([tile(1, 1).textContent, tile(1, 2).textContent], ["Sink +1", ""]);
    assert.match(tile(1, 1).getAttribute("aria-label"), /^L1 H1, on, Sink, <b>Other<\/b>, importance /);
    assert.equal(canvas.getAttribute("aria-hidden"), "true");
  });
}

test("patterns are painted when they come, and not again for a switch", () => {
  const bytes = bytesIn(payload);
  const id = putPayload(bytes);
  globalThis[Symbol.for("mha_viz.payloads")].byId.clear();
  const { find, tap, update, off } = shown({ payload: id }, [SIDE, SIDE]);
  const canvas = find("canvas.patterns");
  assert.ok(canvas.hidden);
  putPayload(bytes);
  assert.ok(!canvas.hidden);
  const { painted } = canvas.getContext("2d");
  assert.equal(painted.length, LAYERS * HEADS);
  tap(2, 3, 1000);
  tap(2, 4, 1000);
  update({ off: [[2, 3]] });
  assert.deepEqual(off(), ["2.3", "2.4"]);
  assert.equal(canvas.getContext("2d").painted, painted);
  assert.equal(painted.length, LAYERS * HEADS);
  update({ scale: "linear" });
  assert.notEqual(canvas.getContext("2d").painted, painted);
});

test("while the pointer drags, the tip describes the tile below it", () => {
  const { tile, middle, find, off } = shown();
  const about = (row, column) => assert.ok(find(".tip").textContent.startsWith(`L${row} H${column}`), find(".tip").textContent);
  point(tile(1, 1), "pointerdown", ...middle(1, 1));
  for (const column of [2, 4]) {
    point(tile(1, column), "pointermove", ...middle(1, column));
    about(1, column);
    assert.equal(find(".tip").hidden, false);
  }
  point(tile(1, 4), "pointerup", ...middle(1, 4));
  assert.deepEqual(off(), ["1.1", "1.2", "1.3", "1.4"]);
});

test("samples in the legend have the colours of their tiles", () => {
  const value = { ...values.positive, numbers: values.positive.numbers.with(3, null) };
  const { all } = shown({ value });
  const colour = (name) => all(`.sample .${name}`).map((swatch) => swatch.style.getPropertyValue("--tile"));
  assert.deepEqual(colour("missing"), [value.missing.light]);
  assert.ok(value.light.includes(colour("off")[0]));
});

test("after its end a component hears no pointer, and Python nothing more", () => {
  const { tap, told, update } = shown();
  tap(3, 4);
  tap(2, 2); // waits for the answer to the first
  const end = update({});
  const n = told.length;
  end();
  point(document.body, "pointerdown");
  pass(10_000);
  assert.equal(told.length, n);
});
