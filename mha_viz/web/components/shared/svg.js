// @ts-check
// Elements of SVG, for the pictures that are no canvas.

/**
 * An element of SVG with attributes.
 * @type {(name: string, attributes: Record<string, string | number>) => any}
 */
export function svgElement(name, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
  return element;
}
