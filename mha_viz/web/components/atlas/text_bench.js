// @ts-check
// The workbench on a text of an atlas. The weights of all heads on a text are a file, which is read as a script:
// a page that lies on a disk may read no other kind.

import workbench from "../workbench/workbench.js";
import { bytesOf, putPayload, unpack } from "../shared/payload_store.js";
import { make } from "../shared/shared.js";

const [PHONE_WIDTH, BENCH_TOP, BENCH_HEIGHT] = [640, 90, 420]; // pixels: of a window, above the workbench, of it at least
const UNREADABLE = "This browser is too old to read the weights.";

export class TextBench {
  /**
   * @param {{ at: number, layer: number, head: number }} data the head that is shown first, and its place among all
   * @param {HTMLElement} root
   */
  constructor(data, root) {
    this.data = data;
    this.root = root;
    this.title = make("h3");
    this.page = make("a", "page");
    this.benchElement = make("div", "place");
    root.append(this.title, this.page, this.benchElement);
    root.hidden = true;
    /** Who waits for the weights of a text. @type {Map<string, (code: string) => void>} */
    this.waiting = new Map();
    globalThis.mhaAtlas.take = (id, code) => this.waiting.get(id)?.(code);
  }

  /** @param {string} id of the text */
  async open(id) {
    this.id = id;
    this.root.hidden = false;
    this.title.textContent = "Reading the weights …";
    this.page.hidden = true;
    try {
      const payload = await inflated(bytesOf(await this.read(id)));
      if (this.id === id) this.draw(payload);
    } catch (error) {
      this.title.textContent = error.message;
    }
    this.root.scrollIntoView({ block: "start" });
  }

  /** The text of the file with a text's weights. @returns {Promise<string>} */
  read(id) {
    return new Promise((resolve, reject) => {
      this.waiting.set(id, resolve);
      const script = document.createElement("script");
      script.src = `../texts/${id}.js`;
      script.addEventListener("load", () => script.remove());
      script.addEventListener("error", () => reject(new Error(`The file texts/${id}.js is missing.`)));
      document.head.append(script);
    });
  }

  /** @param {Uint8Array} payload */
  draw(payload) {
    this.end?.();
    const { header } = unpack(payload);
    const { layer, head } = this.data;
    this.title.textContent = "All heads on this text";
    this.end = workbench({
      parentElement: this.benchElement,
      data: {
        name: header.id, payload: putPayload(payload), view: { layer, head, scale: "sqrt" },
        height: innerWidth < PHONE_WIDTH ? undefined : Math.max(BENCH_HEIGHT, innerHeight - BENCH_TOP),
        titles: Object.fromEntries(Object.keys(header.facts).map((title) => [title, title])),
      },
      setTriggerValue: (_, { view }) => this.lead(Number(view.layer ?? layer) * header.heads + Number(view.head ?? head)),
    });
  }

  /** Links to the page of the head that was chosen in the workbench. @param {number} head */
  lead(head) {
    const { names, files } = globalThis.mhaAtlas;
    this.page.hidden = head === this.data.at;
    this.page.textContent = `Open the page of ${names[head]}`;
    this.page.href = `${files[head]}#text-${this.id}`;
  }
}

/** @param {Uint8Array} bytes by zlib */
async function inflated(bytes) {
  if (!globalThis.DecompressionStream) throw new Error(UNREADABLE);
  const stream = new Blob([/** @type {any} */ (bytes)]).stream().pipeThrough(new globalThis.DecompressionStream("deflate"));
  return new Uint8Array(await new globalThis.Response(stream).arrayBuffer());
}
