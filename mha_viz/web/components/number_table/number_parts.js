// @ts-check
// Parts of a matrix of numbers: a table around its cells, or around one canvas where they
// are too small for a number. Nothing here keeps state.

import { colourAt, make, rgbOf, scaleWeight } from "../shared/shared.js";
/* global PALETTE */

const GREY = ["#000000", "#ffffff"]; // a picture is the same in both themes

/** A table for the cells of `data`: { table, cells, canvas }; one of the last two is null. */
export function matrixTable({ names, shown, texts, slanted }) {
  const [rows, columns] = names.map((axis) => axis.length);
  if (!texts && !shown[0] && !shown[1]) {
    const [table, canvas] = [make("div", "picture"), picture(rows, columns)];
    table.append(canvas); // not in a cell: there it could not become narrower than it likes
    return { table, canvas, cells: null };
  }
  const table = make("table", texts ? "" : "pixels");
  table.classList.toggle("slanted", slanted);
  const cells = texts ? [] : null;
  const canvas = texts ? null : picture(rows, columns);
  if (shown[1]) table.createTHead().append(heading(columns, Boolean(shown[0])));
  const body = table.createTBody();
  for (let row = 0; row < rows; row++) {
    const line = body.insertRow();
    if (shown[0]) line.append(headerCell("row"));
    if (cells) for (let column = 0; column < columns; column++) cells.push(line.insertCell());
    else if (row === 0) line.append(cellAround(canvas, rows, columns));
  }
  return { table, cells, canvas };
}

function heading(columns, beside) {
  const line = make("tr");
  if (beside) line.append(make("td", "corner"));
  for (let column = 0; column < columns; column++) line.append(headerCell("col"));
  return line;
}

function headerCell(scope) {
  const cell = make("th");
  cell.scope = scope;
  cell.append(make("bdi"));
  return cell;
}

function picture(rows, columns) {
  const canvas = make("canvas");
  [canvas.width, canvas.height] = [columns, rows];
  canvas.setAttribute("role", "img");
  return canvas;
}

function cellAround(canvas, rows, columns) {
  const cell = make("td", "picture");
  [cell.rowSpan, cell.colSpan] = [rows, columns];
  cell.append(canvas);
  return cell;
}

/** The colour of a number on the scale of `data`, as [red, green, blue]; null for none. */
export function numberColour({ scale, low, high }, theme, number) {
  if (number === null) return null;
  const share = (value) => Math.min(Math.max((value - low) / (high - low), 0), 1);
  if (scale === "colours") return number.map((value) => Math.round(255 * share(value)));
  if (scale === "grey") return colourAt(share(number), GREY);
  if (scale === "sqrt") return colourAt(scaleWeight(share(number), scale), PALETTE.sequential[theme]);
  return colourAt(share(number), PALETTE[scale][theme]);
}

/** One pixel for each cell, grey for one without a number; the page stretches them. */
export function paintPixels(canvas, data, theme) {
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  const missing = rgbOf(PALETTE.missing[theme]);
  data.numbers.forEach((number, index) => {
    image.data.set([...(numberColour(data, theme, number) ?? missing), 255], 4 * index);
  });
  context.putImageData(image, 0, 0);
}
