// @ts-check
// Five steps through the page. Each does on the page what it tells of: types a sentence, chooses a
// head, enlarges it, pins a pair of tokens, and switches the head off.

import { loneRows, strongestOf } from "./head_facts.js";
import { formatWeight, make, makeButton } from "../shared/shared.js";

const OPENING_SENTENCE = "The king (who was old and tired) smiled, said nothing, and went to bed."; // the page's own
const TOUR_SENTENCE = "The old dog saw the young dog, and the young dog saw the old cat.";
const CARD_GAP = 10; // pixels between the ring and the card
const HEADER_HEIGHT = "68px"; // of the page, which lies over what is scrolled
const [MAX_TRIES, POLL_MS, SETTLED_MS] = [40, 100, 1500]; // of a busy server; ms between a try and a look at what came of it
const KINDS = ["previous_token", "next_token", "duplicate", "induction", "self"]; // seen at once in a tile

export class Tour {
  /**
   * @param {import("./bench.js").Bench} bench
   * @param {() => void} ended takes the focus back
   */
  constructor(bench, ended) {
    this.bench = bench;
    this.ended = ended;
    this.at = -1; // no step
    this.root = make("div", "tour");
    this.root.setAttribute("popover", "manual"); // above all else of the page, which stays usable
    this.ring = make("div", "ring");
    this.card = make("div", "card");
    this.card.setAttribute("aria-label", "Tour");
    this.count = make("div", "count");
    this.title = make("h3", "title");
    this.text = make("p", "text");
    this.text.setAttribute("aria-live", "polite");
    this.skip = makeButton("button", "Skip", () => this.end());
    this.back = makeButton("button", "Back", () => this.go(this.at - 1));
    this.next = makeButton("button", "Next", () => (this.at < STEPS.length - 1 ? this.go(this.at + 1) : this.leave()));
    const buttons = make("div", "buttons");
    buttons.append(this.skip, this.back, this.next);
    this.card.append(this.count, this.title, this.text, buttons);
    this.root.append(this.ring, this.card);
    this.card.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.end();
    });
  }

  /** Follow what was drawn anew. */
  update() {
    if (this.at >= 0) this.draw();
  }

  begin() {
    this.root.showPopover?.();
    this.root.classList.add("open");
    this.card.setAttribute("role", "dialog"); // while it is one
    this.go(0);
    this.follow();
  }

  end() {
    if (this.at < 0) return;
    this.bench.touring = this.at = -1;
    this.root.hidePopover?.();
    this.root.classList.remove("open");
    this.card.removeAttribute("role");
    this.ended();
  }

  go(step) {
    this.bench.touring = this.at = step;
    STEPS[step].act?.(this.bench);
    const shown = STEPS[step].target(this.bench);
    if (shown instanceof globalThis.HTMLElement) shown.style.scrollMarginTop = HEADER_HEIGHT;
    shown?.scrollIntoView({ block: "nearest" });
    this.draw();
    this.next.focus({ preventScroll: true });
  }

  /** Switches the chosen head off. */
  leave() {
    this.end();
    this.bench.switchOff([this.bench.chosen]);
  }

  draw() {
    const { title, tell, last } = STEPS[this.at];
    this.count.textContent = `${this.at + 1} of ${STEPS.length}`;
    this.title.textContent = title;
    const explanation = tell(this.bench);
    if (this.text.textContent !== explanation) this.text.textContent = explanation;
    this.back.hidden = this.at === 0;
    this.next.textContent = last ? `Switch ${this.bench.name(this.bench.chosen)} off` : "Next";
    this.moveCard();
  }

  /** Move ring and card with the part of the page that they belong to. */
  follow() {
    if (this.at < 0) return;
    this.moveCard();
    requestAnimationFrame(() => this.follow());
  }

  moveCard() {
    const box = STEPS[this.at].target(this.bench)?.getBoundingClientRect();
    this.ring.hidden = !box || !box.width;
    if (!box || !box.width) return;
    const { style } = this.ring;
    [style.left, style.top, style.width, style.height] = [box.left - 4, box.top - 4, box.width + 8, box.height + 8].map((n) => `${n}px`);
    if (innerWidth < 640) return; // the card lies at the lower edge, see the style sheet
    const { offsetWidth: wide, offsetHeight: high } = this.card;
    const below = box.bottom + CARD_GAP + high < innerHeight;
    const top = below ? box.bottom + CARD_GAP : Math.max(CARD_GAP, Math.min(box.top - CARD_GAP - high, innerHeight - high - CARD_GAP));
    const beside = !below && box.top < high + CARD_GAP; // no room above, either
    const left = beside ? (box.left > innerWidth / 2 ? box.left - wide - CARD_GAP : box.right + CARD_GAP) : box.left;
    this.card.style.top = `${beside ? Math.max(CARD_GAP, box.top) : top}px`;
    this.card.style.left = `${Math.max(CARD_GAP, Math.min(left, innerWidth - wide - CARD_GAP))}px`;
  }
}

const sentenceBox = () => /** @type {HTMLTextAreaElement | null} */ (document.querySelector('textarea[aria-label="Sentence"]'));

/**
 * Type over the page's opening sentence only, so that no sentence of a visitor is lost. A run that is
 * under way puts back what stood there: so it waits until the page is idle, and looks again afterwards.
 */
function type(bench, tries = MAX_TRIES) {
  const box = sentenceBox();
  if (!box || box.value !== OPENING_SENTENCE || bench.touring !== 0 || !tries) return;
  const again = (ms, left) => setTimeout(() => type(bench, left), ms);
  if (document.querySelector("[data-test-script-state=running]")) return again(POLL_MS, tries);
  const set = Object.getOwnPropertyDescriptor(globalThis.HTMLTextAreaElement.prototype, "value")?.set; // React hears of this one
  set?.call(box, TOUR_SENTENCE);
  box.dispatchEvent(new globalThis.Event("input", { bubbles: true }));
  setTimeout(() => {
    box.dispatchEvent(new globalThis.KeyboardEvent("keydown", { key: "Enter", code: "Enter", keyCode: 13, bubbles: true }));
    again(SETTLED_MS, tries - 1);
  }, POLL_MS);
}

/** The first head whose label is seen at once in its tile, and the label; else the chosen head. */
function labelled(bench) {
  const { notes, settings } = bench;
  for (const kind of KINDS) {
    const head = notes?.kinds.findIndex((labels) => labels.includes(kind)) ?? -1;
    if (head >= 0) return { head, title: settings.kinds?.[kind] ?? kind };
  }
  return { head: bench.chosen, title: "" };
}

/** The strongest pair of the chosen head, but for what the first token sees, which is itself. */
function strongestPair(bench) {
  const { chosen, weights } = bench;
  const { header } = weights.shown;
  const of = weights.of(chosen);
  if (!of) return null;
  const [best] = strongestOf(of, header.keys, 1, loneRows(weights.picture(chosen), header.keys));
  return best && { ...best, from: header.query_labels[best.query], to: header.key_labels[best.key] };
}

/** @type {{ title: string, target: (bench: any) => Element | null | undefined, act?: (bench: any) => void, tell: (bench: any) => string, last?: boolean }[]} */
const STEPS = [
  {
    title: "A sentence",
    target: () => sentenceBox()?.closest('[data-testid="stTextArea"]'),
    act: (bench) => type(bench),
    tell: () => {
      const typed = sentenceBox()?.value === TOUR_SENTENCE ? "This sentence was just typed here. " : "";
      return `${typed}The model reads it, and the page draws its heads. Type one of your own at any time, and press Enter.`;
    },
  },
  {
    title: "All heads",
    target: ({ panels }) => panels.grid,
    act: (bench) => bench.chooseHead(labelled(bench).head),
    tell: (bench) => {
      const { layers, heads } = bench.payload.header;
      const { head, title } = labelled(bench);
      const label = title && head === bench.chosen ? ` Its label is “${title}”.` : "";
      return `${layers * heads} tiles, one for each head: layers from top to bottom. ${bench.name(bench.chosen)} is chosen now.${label}`;
    },
  },
  {
    title: "One head",
    target: ({ panels }) => panels.head,
    act: (bench) => bench.choose({ show: "heatmap" }),
    tell: (bench) => `${bench.name(bench.chosen)}, enlarged. Each row is a token that looks at the tokens above the columns; its weights sum to 1.`,
  },
  {
    title: "A pair of tokens",
    target: ({ panels }) => panels.head?.querySelector(".sentence") ?? panels.head,
    act: (bench) => {
      const pair = strongestPair(bench);
      if (pair) bench.choosePair(pair);
    },
    tell: (bench) => {
      const pair = strongestPair(bench);
      if (!pair) return "Click a token, and see what it looks at in this head; every tile marks the pair.";
      return `“${pair.from}” looks at “${pair.to}” with a weight of ${formatWeight(pair.weight)}. The pair is pinned, and marked in every tile.`;
    },
  },
  {
    title: "Switch it off",
    target: ({ panels }) => panels.head?.querySelector(".about"),
    tell: (bench) => `With ${bench.name(bench.chosen)} switched off, its output is zero. What the model predicts then stands below the sentence.`,
    last: true,
  },
];
