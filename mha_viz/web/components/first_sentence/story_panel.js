// @ts-check
// The words of a step beside the picture: title, text, formula, buttons, and the heads' switches.

import { formatShort, make } from "../shared/shared.js";

const MAX_NEXT_WORDS = 5; // next words beside the switches

export class StoryPanel {
  /**
   * @param {{ go: (step: number) => void, off: (head: number | null) => void, open: (page: string) => void }} callbacks what was chosen
   */
  constructor(callbacks) {
    this.callbacks = callbacks;
    this.root = make("div", "story");
    this.count = make("div", "count");
    this.title = make("h2", "step-title");
    this.text = make("p", "step-text");
    this.formula = make("div", "formula");
    this.switches = make("div", "switches");
    this.words = make("div", "words");
    this.ways = make("div", "ways");
    this.back = make("button", "button", "Back");
    this.next = make("button", "button primary", "Next");
    this.dots = make("div", "dots");
    this.live = make("div", "live");
    this.live.setAttribute("aria-live", "polite");
    const nav = make("div", "nav");
    nav.append(this.back, this.next);
    this.root.append(this.count, this.title, this.text, this.formula, this.switches, this.words, this.ways, nav, this.dots, this.live);
    this.back.addEventListener("click", () => callbacks.go(this.step - 1));
    this.next.addEventListener("click", () => callbacks.go(this.step + 1));
    this.step = 0;
    this.model = null;
  }

  /** Takes a new sentence. @param {import("./sentence_model.js").SentenceModel} model */
  take(model) {
    this.model = model;
    this.dots.replaceChildren(...model.header.steps.map(({ title }, i) => {
      const dot = make("button", "dot");
      dot.title = `${i + 1}. ${title}`;
      dot.setAttribute("aria-label", dot.title);
      dot.addEventListener("click", () => this.callbacks.go(i));
      return dot;
    }));
    this.ways.replaceChildren(...model.header.ways.map((way) => this.way(way)));
    const { layers, heads } = model;
    this.switches.style.setProperty("--heads", String(heads));
    this.switches.setAttribute("role", "group");
    this.switches.setAttribute("aria-label", "Heads: press one to switch it off");
    this.switches.replaceChildren(...Array.from({ length: layers * heads }, (_, i) => {
      const [layer, head] = [Math.floor(i / heads), i % heads];
      const button = make("button", "switch", `${layer}.${head}`);
      const loss = Math.min(Math.max(model.arrays.losses[i], 0), 1);
      button.style.setProperty("--loss", `${Math.round(100 * loss)}%`);
      button.setAttribute("aria-label", `${model.name(layer, head)}${model.labelsOf(layer, head)[0] ? `, ${model.labelsOf(layer, head)[0]}` : ""}`);
      button.title = button.getAttribute("aria-label");
      button.addEventListener("click", () => this.callbacks.off(this.model.off === i ? null : i));
      return button;
    }));
  }

  /** A way on: a link, which the session follows. @param {{ page: string, address: string, label: string, about: string }} way */
  way({ page, address, label, about }) {
    const link = /** @type {HTMLAnchorElement} */ (make("a", "way"));
    link.href = address;
    link.append(make("strong", "", label), make("span", "", about));
    link.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
      event.preventDefault();
      this.callbacks.open(page);
    });
    return link;
  }

  /** Shows a step. @param {number} step @param {boolean} aloud */
  show(step, aloud) {
    const { steps } = this.model.header;
    const { key, title, text, formula } = steps[step];
    this.step = step;
    this.count.textContent = `${step + 1} of ${steps.length}`;
    this.title.textContent = title;
    this.text.textContent = text;
    this.formula.replaceChildren(...markedUp(formula));
    this.formula.hidden = !formula;
    this.back.disabled = step === 0;
    this.next.disabled = step === steps.length - 1;
    this.switches.hidden = this.words.hidden = key !== "off";
    this.ways.hidden = key !== "ways";
    [...this.dots.children].forEach((dot, i) => {
      dot.setAttribute("aria-current", i === step ? "step" : "false");
      dot.classList.toggle("done", i < step);
    });
    if (aloud) this.say(`Step ${step + 1} of ${steps.length}. ${title}. ${text} ${formula}`);
  }

  /** Shows what the model says with the head that is off now. @param {boolean} aloud */
  showWords(aloud) {
    const { model } = this;
    const { off, heads } = model;
    [...this.switches.children].forEach((button, i) => button.setAttribute("aria-pressed", String(i === off)));
    const [before, now] = [model.arrays.withAll, model.probabilities()];
    const best = [...now.keys()].sort((a, b) => now[b] - now[a])[0];
    const shown = [...new Set([0, ...[...now.keys()].sort((a, b) => now[b] - now[a]), ...before.keys()])].slice(0, MAX_NEXT_WORDS);
    this.words.replaceChildren(...shown.map((guess) => {
      const row = make("div", guess === best ? "word best" : "word");
      const bar = make("span", "bar");
      bar.style.setProperty("--before", `${100 * before[guess]}%`);
      bar.style.setProperty("--now", `${100 * now[guess]}%`);
      row.append(make("bdi", "", model.header.guesses[guess]), bar, make("span", "p", formatShort(now[guess])));
      return row;
    }));
    if (!aloud) return;
    const name = off === null ? "All heads are on" : `${model.name(Math.floor(off / heads), off % heads)} is off`;
    this.say(`${name}: “${model.header.guesses[best]}” ${formatShort(now[best])}, “${model.header.guesses[0]}” ${formatShort(now[0])}.`);
  }

  say(text) {
    this.live.textContent = text;
  }
}

/** A formula in which W_Q has a subscript and e^score is a power. @param {string} formula */
function markedUp(formula) {
  return formula.split(/([_^]\w+)/).map((part, i) => (i % 2 ? make(part[0] === "_" ? "sub" : "sup", "", part.slice(1)) : part));
}
