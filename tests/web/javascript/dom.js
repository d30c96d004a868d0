// A page for tests of what draws: jsdom, with a clock, sizes and canvases of ours. Nothing is laid
// out here: an element is as large as a test says.

import assert from "node:assert/strict";
import nodeTest from "node:test";
import { JSDOM, VirtualConsole } from "jsdom";

import { Context, Path2D } from "./canvas.js";
import { bytesIn } from "./python.js";

const faults = []; // what event listeners threw: jsdom tells of it here and nowhere else
const reports = new VirtualConsole();
reports.on("jsdomError", (error) => faults.push(error));
const { window } = new JSDOM("<!doctype html><body></body>", {
  url: "http://here.example/app/", virtualConsole: reports,
});
const { document, HTMLElement, Element, HTMLCanvasElement } = window;

// -- the clock --------------------------------------------------------------------------------------
// Of our own: in node 18 the test runner's forgets all timers where `clearTimeout` is given none.

const clock = { now: 0, timers: new Map(), count: 0 };

const globals = {
  window, document, HTMLElement, Path2D,
  location: window.location,
  history: window.history,
  MutationObserver: window.MutationObserver,
  KeyboardEvent: window.KeyboardEvent,
  scrollY: 0,
  innerWidth: 1280,
  innerHeight: 600,
  devicePixelRatio: 1,
  getComputedStyle: (element) => window.getComputedStyle(element),
  addEventListener: (...parameters) => window.addEventListener(...parameters),
  removeEventListener: (...parameters) => window.removeEventListener(...parameters),
  performance: { now: () => clock.now },
  setTimeout: (call, delay = 0) => {
    clock.timers.set(++clock.count, { call, due: clock.now + delay });
    return clock.count;
  },
  clearTimeout: (timer) => clock.timers.delete(timer),
  requestAnimationFrame: (call) => globalThis.setTimeout(() => call(clock.now), 16),
  cancelAnimationFrame: (frame) => clock.timers.delete(frame),
};

/** Let so many milliseconds pass: timers that are due by then are called in their order. */
export function pass(milliseconds) {
  const end = clock.now + milliseconds;
  for (;;) {
    const due = [...clock.timers].filter(([, timer]) => timer.due <= end);
    if (!due.length) break;
    const [name, { call, due: at }] = due.sort(([, first], [, other]) => first.due - other.due)[0];
    clock.timers.delete(name);
    clock.now = Math.max(clock.now, at);
    call();
  }
  clock.now = end;
}

/** Wait until all promises that can be settled are settled. */
export const settled = () => new Promise((done) => setImmediate(done));

// -- sizes ------------------------------------------------------------------------------------------

const observers = new Set();

globals.ResizeObserver = class {
  constructor(call) {
    this.call = call;
    observers.add(this);
  }

  observe() {}

  disconnect() {
    observers.delete(this);
  }
};

globals.DOMRect = class {
  constructor(x = 0, y = 0, width = 0, height = 0) {
    Object.assign(this, { x, y, width, height, left: x, top: y, right: x + width, bottom: y + height });
  }
};

const WINDOW = { x: 0, y: 0, width: 1000, height: 700 };
let boxes = () => WINDOW;

/**
 * Set how large elements are from now on, and call their observers.
 * @param {(element: any) => { x?: number, y?: number, width?: number, height?: number } | undefined} of
 * a function of an element; undefined is as large as the window
 */
export function lay(of) {
  boxes = (element) => ({ ...WINDOW, ...of(element) });
  for (const observer of observers) observer.call();
}

const measures = {
  clientWidth: (box) => box.width, clientHeight: (box) => box.height,
  offsetWidth: (box) => box.width, offsetHeight: (box) => box.height, offsetTop: (box) => box.y,
  offsetLeft: (box) => box.x,
};
for (const [name, of] of Object.entries(measures)) {
  const owner = name in Element.prototype ? Element.prototype : HTMLElement.prototype;
  Object.defineProperty(owner, name, { configurable: true, get() { return of(boxes(this)); } });
}
Element.prototype.getBoundingClientRect = function () {
  const { x, y, width, height } = boxes(this);
  return new globals.DOMRect(x, y, width, height);
};
for (const name of ["scrollLeft", "scrollTop"]) {
  const offsets = new WeakMap();
  Object.defineProperty(Element.prototype, name, {
    get() { return offsets.get(this) ?? 0; },
    set(to) { offsets.set(this, Math.max(0, to)); }, // jsdom keeps what is below 0
  });
}
Element.prototype.scrollIntoView = function () {};
Element.prototype.setPointerCapture = function () {};

// -- what the reader's system wants -----------------------------------------------------------------

const queries = new Map(); // by their text
const wishes = { "(prefers-color-scheme: dark)": false };

globals.matchMedia = (text) => {
  if (!queries.has(text)) {
    const query = new window.EventTarget();
    queries.set(text, Object.defineProperty(query, "matches", { get: () => wishes[text] ?? false }));
  }
  return queries.get(text);
};

/** Set what a media query finds, and call its listeners. */
export function wish(text, on) {
  wishes[text] = on;
  queries.get(text)?.dispatchEvent(new window.Event("change"));
}

export const dark = (on) => wish("(prefers-color-scheme: dark)", on);

// -- what jsdom lacks -------------------------------------------------------------------------------

HTMLCanvasElement.prototype.getContext = function () {
  this.context ??= new Context(this);
  return this.context;
};

const matches = Element.prototype.matches;
Element.prototype.matches = function (selector) {
  return selector === ":popover-open" ? Boolean(this.popsUp) : matches.call(this, selector);
};
Object.defineProperty(HTMLElement.prototype, "popover", {
  get() { return this.getAttribute("popover"); },
  set(kind) { this.setAttribute("popover", kind); },
});
HTMLElement.prototype.showPopover = function () {
  assert.ok(this.popover && !this.popsUp); // as in a browser, where it throws
  this.popsUp = true;
};
HTMLElement.prototype.hidePopover = function () {
  this.popsUp = false;
};

class PointerEvent extends window.MouseEvent {
  constructor(kind, { pointerId = 1, pointerType = "mouse", isPrimary = true, ...options } = {}) {
    super(kind, options);
    Object.assign(this, { pointerId, pointerType, isPrimary });
  }
}

for (const [name, value] of Object.entries(globals)) {
  Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
}

// -- tests and components ---------------------------------------------------------------------------

/** Run a test on an empty page; an error in an event listener fails it. */
export function test(name, body) {
  nodeTest(name, async () => {
    document.body.replaceChildren();
    for (const symbol of ["payloads", "benches", "scripts"]) delete globalThis[Symbol.for(`mha_viz.${symbol}`)];
    for (const text of Object.keys(wishes)) wishes[text] = false;
    Object.assign(clock, { timers: new Map() });
    queries.clear();
    observers.clear();
    boxes = () => WINDOW;
    globalThis.fetch = async () => new Response("", { status: 404 }); // until a test serves something
    await body();
    assert.deepEqual(faults.splice(0).map((fault) => fault.detail ?? fault), []);
  });
}

/** Put a component on the page: `update(data)` is a run of Python, `messages` what it sends to Python. */
export function mounted(component) {
  const parentElement = document.createElement("div");
  document.body.append(parentElement);
  const messages = [];
  const setTriggerValue = (name, value) => messages.push([name, value]);
  const update = (data) => component({ parentElement, data, setTriggerValue });
  const find = (selector) => parentElement.querySelector(selector);
  const all = (selector) => [...parentElement.querySelectorAll(selector)];
  const text = (selector) => find(selector).textContent;
  const texts = (selector) => all(selector).map((element) => element.textContent);
  return { parentElement, update, messages, find, all, text, texts };
}

/** Serve exact weights that Python wrote, in ranges; return the addresses that are asked for. */
export function serve(text) {
  const [all, addresses] = [bytesIn(text), []];
  globalThis.fetch = async (address, { headers }) => {
    addresses.push(address);
    const [from, to] = headers.Range.match(/\d+/g).map(Number);
    return new Response(all.slice(from, to + 1), { status: 206 });
  };
  return addresses;
}

// -- hands ------------------------------------------------------------------------------------------

/** Dispatch a pointer's event at a point of the window. */
export function point(element, kind, x = 0, y = 0, more = {}) {
  const bubbles = kind !== "pointerleave";
  element.dispatchEvent(new PointerEvent(kind, { bubbles, cancelable: true, clientX: x, clientY: y, ...more }));
}

/** Click at a point: press, release, click. */
export function click(element, x = 0, y = 0, more = {}) {
  for (const kind of ["pointerdown", "pointerup", "click"]) point(element, kind, x, y, more);
}

/** Press a key where the focus is; return whether the page has prevented the default. */
export function press(key, more = {}) {
  const event = new window.KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more });
  return !document.activeElement.dispatchEvent(event);
}

/** Change the value of a field as a person does, with the events that follow. */
export function enter(field, value) {
  if (field.type === "checkbox") field.checked = value;
  else field.value = value;
  for (const kind of ["input", "change"]) field.dispatchEvent(new window.Event(kind, { bubbles: true }));
}
