// @ts-check
// Two buttons that draw a Plotly figure as a picture file, here in the browser: PNG and SVG.
// Knows plotly.js: the one that drew the charts of this page or, where that keeps itself to itself,
// one from the app's own server, which comes at the first click, once per page.
// Stands alone: it shares nothing with the components that draw heads.

const FORMATS = {
  png: { label: "PNG", type: "image/png", scale: 2 },
  svg: { label: "SVG", type: "image/svg+xml", scale: 1 },
};
const NO_LIBRARY = "The drawing library did not come from the server. Reload the page and try again.";
const NO_PICTURE = "This picture could not be drawn. The HTML file shows the same figure.";

// -- plotly.js ------------------------------------------------------------------------------------

const usable = (library) => typeof library?.toImage === "function";

/**
 * plotly.js. Streamlit leaves its own in the window once a chart is drawn, but promises nothing.
 * All components of a page share one copy; a failure is forgotten, to be tried again.
 */
async function plotly(address) {
  const name = Symbol.for("mha_viz.plotly");
  if (!globalThis[name] && usable(globalThis.Plotly)) return globalThis.Plotly;
  globalThis[name] ??= load(address).catch((error) => {
    delete globalThis[name];
    throw error;
  });
  return globalThis[name];
}

/** A script element and no import(): a browser may remember for good that an import failed. */
function load(address) {
  return new Promise((resolve, reject) => {
    const url = new URL(address, document.baseURI);
    if (url.origin !== location.origin) throw new Error("not from this server");
    const script = document.createElement("script");
    script.src = url.href;
    script.onload = () => {
      if (usable(globalThis.Plotly)) resolve(globalThis.Plotly);
      else reject(new Error("not plotly.js"));
    };
    script.onerror = () => reject(new Error("not loaded"));
    document.head.append(script);
  });
}

// -- pictures -------------------------------------------------------------------------------------

// With one of these characters in a label no reader opens the SVG, from which PNG is drawn, too.
const NOT_XML = /[^\t\n\r\x20-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu;

const drawable = (_key, value) =>
  typeof value === "string" ? value.replace(NOT_XML, "\ufffd") : value;

/** The figure as a file. imageDataOnly: text for SVG, base64 for PNG, and no address to fetch. */
async function draw(library, json, format) {
  const figure = JSON.parse(json, drawable);
  const { width, height } = figure.layout;
  const { type, scale } = FORMATS[format];
  const data = await library.toImage(figure, { format, width, height, scale, imageDataOnly: true });
  const content = format === "svg" ? data : Uint8Array.from(atob(data), (char) => char.charCodeAt(0));
  return new Blob([content], { type });
}

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** Let the browser show the last change before it is busy drawing. */
function painted() {
  return new Promise((resolve) => setTimeout(resolve, 40));
}

// -- the component --------------------------------------------------------------------------------

class FigureDownload {
  constructor(parent) {
    /** @type {any} what Python said last */
    this.data = null;
    this.root = document.createElement("div");
    this.root.className = "figure-download";
    this.message = document.createElement("div");
    this.message.className = "message";
    this.message.setAttribute("role", "status");
    this.buttons = Object.keys(FORMATS).map((format) => this.button(format));
    this.root.append(...this.buttons, this.message);
    parent.append(this.root);
  }

  button(format) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = FORMATS[format].label;
    button.addEventListener("click", () => this.take(format, button));
    return button;
  }

  /** The buttons stay where the focus is: they say that they are busy and let clicks pass. */
  async take(format, button) {
    if (this.busy) return;
    this.busy = true;
    this.message.textContent = "";
    button.textContent = "Drawing …";
    button.setAttribute("aria-busy", "true");
    try {
      await this.make(format);
    } finally {
      this.busy = false;
      button.textContent = FORMATS[format].label;
      button.removeAttribute("aria-busy");
    }
  }

  async make(format) {
    const { figure, plotly: address, name } = this.data;
    await painted();
    let library;
    try {
      library = await plotly(address ?? "");
    } catch {
      this.message.textContent = NO_LIBRARY;
      return;
    }
    try {
      save(await draw(library, figure, format), `${name}.${format}`);
    } catch {
      this.message.textContent = NO_PICTURE;
    }
  }
}

export default function figureDownload({ parentElement, data }) {
  const view = (parentElement.mhaFigureDownload ??= new FigureDownload(parentElement));
  view.data = data;
  const call = (view.calls = (view.calls ?? 0) + 1);
  return () => {
    if (view.calls !== call) return; // Streamlit's late end of a call that a newer one has overtaken
    view.root.remove();
    delete parentElement.mhaFigureDownload;
  };
}
