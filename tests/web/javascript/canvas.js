// A canvas that records what is painted on it: shapes and texts with their colours, and pixels.

const PLAIN = {
  fillStyle: "#000000", strokeStyle: "#000000", globalAlpha: 1, lineWidth: 1, font: "10px sans-serif",
  textAlign: "start", textBaseline: "alphabetic", direction: "ltr", lineCap: "butt",
};

/** As a browser's, with the text of its commands: "M0 0L5 5". */
export class Path2D {
  constructor(text = "") {
    this.text = text;
  }

  moveTo(...at) {
    this.text += `M${at.join(" ")}`;
  }

  lineTo(...at) {
    this.text += `L${at.join(" ")}`;
  }

  bezierCurveTo(...at) {
    this.text += `C${at.join(" ")}`;
  }

  rect(x, y, width, height) {
    this.text += `M${x} ${y}h${width}v${height}h${-width}z`;
  }
}

/** The 2D context of a canvas. `painted` has what was painted since it was cleared. */
export class Context {
  constructor(canvas) {
    this.canvas = canvas;
    Object.assign(this, PLAIN);
    this.saved = [];
    this.matrix = [1, 0, 0, 1, 0, 0];
    this.painted = [];
    this.cells = null;
    this.path = new Path2D();
  }

  // -- where, and what with -------------------------------------------------------------------------

  save() {
    const look = Object.fromEntries(Object.keys(PLAIN).map((name) => [name, this[name]]));
    this.saved.push({ look, matrix: this.matrix });
  }

  restore() {
    const { look, matrix } = this.saved.pop();
    Object.assign(this, look, { matrix });
  }

  setTransform(...matrix) {
    this.matrix = matrix;
  }

  transform(a, b, c, d, e, f) {
    const [A, B, C, D, E, F] = this.matrix;
    this.matrix = [
      A * a + C * b, B * a + D * b, A * c + C * d, B * c + D * d, A * e + C * f + E, B * e + D * f + F,
    ];
  }

  translate(x, y) {
    this.transform(1, 0, 0, 1, x, y);
  }

  scale(x, y) {
    this.transform(x, 0, 0, y, 0, 0);
  }

  rotate(angle) {
    this.transform(Math.cos(angle), Math.sin(angle), -Math.sin(angle), Math.cos(angle), 0, 0);
  }

  setLineDash(dash) {
    this.dash = dash;
  }

  clip() {}

  measureText(text) {
    return { width: 6.5 * [...text].length };
  }

  // -- shapes and text ------------------------------------------------------------------------------

  note(kind, colour, more) {
    const [, , , , left, top] = this.matrix;
    this.painted.push({ kind, colour, alpha: this.globalAlpha, wide: this.lineWidth, left, top, ...more });
  }

  at(x, y) {
    const [a, b, c, d, e, f] = this.matrix;
    return { x: a * x + c * y + e, y: b * x + d * y + f };
  }

  clearRect() {
    this.painted = [];
    this.cells = null;
  }

  fillRect(x, y, width, height) {
    this.note("fillRect", this.fillStyle, { ...this.at(x, y), width, height });
  }

  strokeRect(x, y, width, height) {
    this.note("strokeRect", this.strokeStyle, { ...this.at(x, y), width, height });
  }

  fillText(text, x, y) {
    this.note("text", this.fillStyle, { ...this.at(x, y), text, font: this.font });
  }

  strokeText(text, x, y) {
    this.note("textStroke", this.strokeStyle, { ...this.at(x, y), text });
  }

  beginPath() {
    this.path = new Path2D();
  }

  moveTo(...at) {
    this.path.moveTo(...at);
  }

  lineTo(...at) {
    this.path.lineTo(...at);
  }

  rect(...box) {
    this.path.rect(...box);
  }

  arc(x, y, radius) {
    this.path.text += `M${x - radius} ${y}a${radius} ${radius}`;
  }

  fill(path = this.path) {
    this.note("fill", this.fillStyle, { path: path.text });
  }

  stroke(path = this.path) {
    this.note("stroke", this.strokeStyle, { path: path.text });
  }

  drawImage(source, x, y, width, height) {
    this.note("drawImage", "", { x, y, width, height, source });
  }

  // -- pixels ---------------------------------------------------------------------------------------

  createImageData(width, height) {
    return { width, height, data: new Uint8ClampedArray(4 * width * height) };
  }

  putImageData(image, left, top) {
    const { width, height } = this.canvas;
    this.cells ??= new Uint8ClampedArray(4 * width * height);
    this.note("image", "", { x: left, y: top, width: image.width, height: image.height });
    const [from, to] = [Math.max(0, -left), Math.min(image.width, width - left)];
    for (let y = Math.max(0, -top); y < Math.min(image.height, height - top); y++) {
      const row = image.data.subarray(4 * (y * image.width + from), 4 * (y * image.width + to));
      this.cells.set(row, 4 * ((top + y) * width + left + from));
    }
  }
}

/** Return what was painted on a canvas since it was cleared, of one kind where one is named. */
export function paintedOn(canvas, kind) {
  const { painted } = canvas.getContext("2d");
  return kind ? painted.filter((shape) => shape.kind === kind) : painted;
}

/** Return the red, green and blue of a pixel; null where nothing was painted. */
export function pixelAt(canvas, x, y) {
  const { cells } = canvas.getContext("2d");
  const at = 4 * (Math.floor(y) * canvas.width + Math.floor(x));
  return cells?.[at + 3] ? [...cells.subarray(at, at + 3)] : null;
}

/** Return a copy of all pixels, to be compared with others by `equals`. */
export const pixelsOf = (canvas) => Buffer.from(canvas.getContext("2d").cells);
