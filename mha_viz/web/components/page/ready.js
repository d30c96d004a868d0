// @ts-check
// Says on the page whether it is ready: `data-ready` of the document is the number of the run whose
// pictures are all painted, and "working" while anything of a run is still to come. Draws nothing.
// It stays on the page, and so watches its menus, too.

import { endRun, readiness } from "../shared/readiness.js";
import { watchMenus } from "./menu_landmarks.js";

const STATE = "data-test-script-state"; // Streamlit's own word for it, on the whole app
const IDLE = `[data-testid="stApp"][${STATE}="notRunning"]`;
const COMPONENTS = '[data-testid="stBidiComponentIsolated"], [data-testid="stBidiComponentRegular"]';
const UNFINISHED = [
  '[data-testid="stSkeleton"]',
  '[data-testid="stSpinner"]',
  `:is(${COMPONENTS}):not([data-painted])`,
  '[data-testid="stPlotlyChart"]:not(:has(.main-svg))',
].join(", ");

/** Tell whether the last run has ended and all its pictures are there. */
function isReady() {
  const { run, pending } = readiness();
  return run > 0 && pending.size === 0 && document.querySelector(IDLE) !== null && !document.querySelector(UNFINISHED);
}

class ReadyMark {
  constructor() {
    this.waiting = false;
    this.observer = new MutationObserver(() => this.update());
    const attributeFilter = [STATE, "data-painted"];
    this.observer.observe(document.body, { subtree: true, childList: true, attributes: true, attributeFilter });
    readiness().onChange = () => this.update();
    watchMenus();
  }

  update() {
    if (!isReady()) this.show("working");
    else if (!this.waiting) this.showWhenPainted();
  }

  /** Wait two frames: what is drawn in this one is then on the screen. */
  showWhenPainted() {
    this.waiting = true;
    requestAnimationFrame(() => requestAnimationFrame(() => {
      this.waiting = false;
      if (isReady()) this.show(String(readiness().run));
      else this.show("working");
    }));
  }

  /** @param {string} value */
  show(value) {
    const { dataset, style } = document.documentElement;
    if (dataset.ready === value) return;
    dataset.ready = value;
    // Menus are drawn outside of the app, whose theme says what is light and dark in them, too.
    const app = document.querySelector('[data-testid="stApp"]');
    if (app) style.colorScheme = getComputedStyle(app).colorScheme;
  }
}

/** @param {{ data: { session: string, run: number } }} component */
export default function ready({ data: { session, run } }) {
  const name = Symbol.for("mha_viz.ready_mark");
  globalThis[name] ??= new ReadyMark();
  endRun(session, run);
}
