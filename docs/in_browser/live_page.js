// @ts-check
// The live page: a shipped model runs a typed text in the browser, and the workbench shows its attention weights.

import { benchOf } from "../../mha_viz/web/components/workbench/bench.js";
import workbench from "../../mha_viz/web/components/workbench/workbench.js";
import { exactCodes } from "../../mha_viz/web/components/workbench/head_parts.js";
import { payloadStore } from "../../mha_viz/web/components/shared/payload_store.js";
import { make } from "../../mha_viz/web/components/shared/shared.js";
import { tokenHeader, tokensOf } from "./text_tokens.js";

const MAX_TOKENS = 128; // positions that both models have
const FIELDS = ["model", "text", "pair"]; // of the form, and of the address
const TABS = { heatmap: "Heatmap", lines: "Lines", table: "Table" }; // numbers are computed by the app alone
const START = { layer: 0, head: 3, scale: "sqrt" };

const addressOf = (/** @type {string} */ name) => new URL(name, import.meta.url).href;
const missing = (/** @type {string} */ name) => new Error(`The file live/${name} could not be loaded: check the connection and load the page again.`);

/** A file of this page's folder. @param {string} name */
async function fetched(name) {
  const response = await fetch(addressOf(name)).catch(() => null);
  if (!response?.ok) throw missing(name);
  return response;
}

/** A module of the same folder. @param {string} name @returns {Promise<any>} */
const library = (name) => import(addressOf(name)).catch(() => Promise.reject(missing(name)));

/** The bytes of a file by gzip. @param {string} name */
async function inflated(name) {
  if (!globalThis.DecompressionStream) throw new Error("This browser is too old to unpack the model's runtime.");
  const stream = (await fetched(name)).body.pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

/** The library that runs models; it is loaded once. @type {Promise<any> | undefined} */
let runtime;

async function loadRuntime() {
  const [ort, wasmBinary] = await Promise.all([library("onnxruntime.mjs"), inflated("onnxruntime.bin")]);
  Object.assign(ort.env.wasm, { wasmBinary, numThreads: 1 }); // threads need headers that a static host does not send
  return ort;
}

/** @param {string} name */
async function loadModel(name) {
  runtime ??= loadRuntime();
  const json = (file) => fetched(`${name}/${file}`).then((response) => response.json());
  const [ort, { Tokenizer }, file, ...settings] = await Promise.all([
    runtime, library("tokenizers.mjs"), fetched(`${name}.onnx`).then((response) => response.arrayBuffer()),
    json("tokenizer.json"), json("tokenizer_config.json"),
  ]);
  const session = await ort.InferenceSession.create(new Uint8Array(file)).catch(({ message }) => {
    throw new Error(`This browser cannot run the model: ${message}`);
  });
  return { name, ort, session, tokenizer: new Tokenizer(...settings), takesPair: session.inputNames.includes("token_type_ids") };
}

/** All heads of a model on one text or two, as a payload of the workbench. */
async function gridOf({ name, ort, session, tokenizer, takesPair }, texts) {
  const { tokens, types, cut } = tokensOf(tokenizer, texts, MAX_TOKENS);
  const n = tokens.length;
  const input = (numbers) => new ort.Tensor("int64", BigInt64Array.from(numbers, BigInt), [1, n]);
  const ids = { input_ids: input(tokens.map((token) => tokenizer.token_to_id(token.name))) };
  const { pattern } = await session.run(takesPair ? { ...ids, token_type_ids: input(types) } : ids);
  const weights = pattern.data;
  const exact_url = URL.createObjectURL(new Blob([weights]));
  // BERT, which takes pairs, sees all tokens; GPT-2 those up to the query.
  const visibleWeights = takesPair ? weights : weights.map((weight, at) => (at % n > Math.floor(at / n) % n ? -0 : weight));
  const body = exactCodes(visibleWeights);
  const [layers, heads] = pattern.dims;
  const header = {
    v: 1, id: exact_url, kind: "grid", layers, heads, queries: n, keys: n, rows: n, cols: n, pool: 1, masked: body.includes(0),
    ...tokenHeader(tokens, texts), facts: {}, exact_url, title: `${name} on “${[...texts[0]].slice(0, 80).join("")}”`,
  };
  return { header, body, cut };
}

class LivePage {
  /** @param {any} root with the form, a line for sentences, and the place of the workbench */
  constructor(root) {
    this.form = root.querySelector("form");
    this.status = root.querySelector(".status");
    this.host = root.querySelector(".place");
    this.bench = make("div");
    this.models = new Map(); // name -> model, on its way perhaps
    this.request = 0;
    this.opened = this.openPlace();
    this.readAddress();
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.run();
    });
    this.form.model.addEventListener("change", () => this.run());
    // The site notes its colour scheme on the body; canvases have to be painted anew.
    const scheme = new MutationObserver(() => globalThis.dispatchEvent(new Event("resize")));
    scheme.observe(document.body, { attributeFilter: ["data-md-color-scheme"] });
    this.run();
  }

  readAddress() {
    const { form } = this;
    for (const [name, value] of new URLSearchParams(location.search)) if (FIELDS.includes(name)) form[name].value = value;
    form.model.selectedIndex = Math.max(0, form.model.selectedIndex); // of an unknown model
  }

  /** Run what stands in the form, unless another request comes meanwhile. */
  async run() {
    const request = (this.request += 1);
    const name = this.form.model.value;
    this.form.pair.disabled = name !== "tiny-bert";
    try {
      const texts = this.texts();
      if (!this.models.has(name)) {
        this.models.set(name, loadModel(name));
        this.status.textContent = "Loading the model …";
      }
      const [model] = await Promise.all([this.models.get(name), this.opened]);
      if (request !== this.request) return;
      this.turn = Promise.allSettled([this.turn]).then(() => gridOf(model, texts)); // one at a time
      const grid = await this.turn;
      if (request === this.request) this.draw(grid);
    } catch (error) {
      if (request === this.request) this.status.textContent = error.message;
    }
  }

  /** The texts in the form, cleaned as mha_viz/text/cleaning.py does. */
  texts() {
    const { text, pair } = this.form;
    if (!text.value.trim()) throw new Error("The sentence is empty: type at least one word.");
    const sentences = pair.disabled || !pair.value.trim() ? [text.value] : [text.value, pair.value];
    return sentences.map((value) => value.replace(/(?!\t)\p{Cc}/gu, " ").replace(/\p{Cs}/gu, "\ufffd"));
  }

  /** Put the workbench where the site's styles do not reach it. */
  async openPlace() {
    const style = await (await fetched("workbench.css")).text();
    this.host.attachShadow({ mode: "open" }).append(make("style", "", style), this.bench);
  }

  draw({ header, body, cut }) {
    const { byId } = payloadStore();
    for (const id of byId.keys()) URL.revokeObjectURL(id);
    byId.clear();
    byId.set(header.id, { header, body });
    const view = this.host.dataset.payload ? {} : { view: START };
    const data = { name: "live", payload: header.id, titles: {}, shows: TABS, ...view };
    workbench({ parentElement: this.bench, data, setTriggerValue() {} });
    benchOf(data.name).weights.exact.requestAll();
    this.host.dataset.payload = header.id;
    this.status.textContent = cut ? `The text was cut to ${MAX_TOKENS} tokens, the longest that the model reads: ${cut} were left out.` : "";
    history.replaceState(null, "", `?${new URLSearchParams(/** @type {any} */ (new FormData(this.form)))}`);
  }
}

new LivePage(document.getElementById("live"));
