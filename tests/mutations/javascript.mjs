// All mutants of the JavaScript files that the command line names, as one JSON list.
// drawing.py chooses among them.

import { readFileSync } from "node:fs";
import * as espree from "espree";

const COMPARISONS = {
  "<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"], "===": ["!=="], "!==": ["==="],
};
const SWAPS = { "+": ["-"], "-": ["+"], "*": ["/"], "/": ["*"], "%": ["*"], "**": ["*"] };
const NEGATED = ["IfStatement", "WhileStatement", "DoWhileStatement", "ForStatement", "ConditionalExpression"];

/** The changes that one node allows: [family, operator, start, end, text]. */
function* changes(node, source) {
  const text = (part) => source.slice(part.start, part.end);
  if (node.type === "BinaryExpression" || node.type === "LogicalExpression") {
    const between = source.slice(node.left.end, node.right.start);
    const start = node.left.end + between.indexOf(node.operator);
    const replace = (family, other) => [family, `${node.operator} to ${other}`, start, start + node.operator.length, other];
    for (const other of COMPARISONS[node.operator] ?? []) yield replace("comparison", other);
    for (const other of SWAPS[node.operator] ?? []) yield replace("arithmetic", other);
    if (node.operator === "&&") yield replace("logical", "||");
    if (node.operator === "||") yield replace("logical", "&&");
  }
  if (node.type === "Literal" && typeof node.value === "number") {
    for (const step of [1, -1]) yield ["number", `number ${step > 0 ? "+" : "-"} 1`, node.start, node.end, `${node.value + step}`];
  }
  if (node.type === "Literal" && typeof node.value === "boolean") {
    yield ["boolean", `${node.value} to ${!node.value}`, node.start, node.end, `${!node.value}`];
  }
  if (NEGATED.includes(node.type) && node.test) {
    yield ["condition", "negated condition", node.test.start, node.test.end, `!(${text(node.test)})`];
  }
  if (node.type === "ExpressionStatement" && node.expression.type === "CallExpression") {
    yield ["call", "removed call", node.start, node.end, ";"];
  }
}

function* walk(node) {
  if (!node || typeof node.type !== "string") return;
  yield node;
  for (const [key, value] of Object.entries(node)) {
    if (key === "loc") continue;
    for (const child of Array.isArray(value) ? value : [value]) yield* walk(child);
  }
}

const mutants = [];
for (const file of process.argv.slice(2)) {
  const source = readFileSync(file, "utf8");
  const tree = espree.parse(source, { ecmaVersion: 2022, sourceType: "module", loc: true });
  for (const node of walk(tree)) {
    for (const [family, operator, start, end, text] of changes(node, source)) {
      const code = source.slice(0, start) + text + source.slice(end);
      try {
        espree.parse(code, { ecmaVersion: 2022, sourceType: "module" });
      } catch {
        continue;
      }
      const first = source.lastIndexOf("\n", start - 1) + 1;
      const last = source.indexOf("\n", end);
      mutants.push({
        file, family, operator,
        line: source.slice(0, start).split("\n").length,
        before: source.slice(first, last),
        after: source.slice(first, start) + text + source.slice(end, last),
      });
    }
  }
}
process.stdout.write(JSON.stringify(mutants));
