// What ESLint holds the browser's modules to: `make check` runs it where npm is.

const browser = [
  "atob", "cancelAnimationFrame", "clearTimeout", "devicePixelRatio", "document", "fetch",
  "getComputedStyle", "history", "innerHeight", "innerWidth", "location", "matchMedia",
  "addEventListener", "performance", "removeEventListener",
  "requestAnimationFrame", "setTimeout", "Blob", "DOMRect", "Path2D", "MutationObserver", "ResizeObserver",
  "DecompressionStream", "Event", "FormData", "Response", "TextDecoder", "TextEncoder", "URL", "URLSearchParams",
];

const node = ["Buffer", "process", "setImmediate"];

// Words that tell a reader nothing of what a name holds.
const emptyWords = [
  "asked", "found", "given", "held", "here", "it", "its", "kept", "known", "looks", "made", "one", "ones",
  "others", "own", "place", "places", "rest", "said", "seen", "stands", "taken", "there", "thing", "things",
  "those", "told", "what", "which", "whole",
];

const rules = {
  "eqeqeq": "error",
  "id-denylist": ["error", ...emptyWords],
  "no-const-assign": "error",
  "no-dupe-keys": "error",
  "no-eval": "error",
  "no-fallthrough": "error",
  "no-redeclare": ["error", { builtinGlobals: false }],
  "no-self-assign": "error",
  "no-shadow-restricted-names": "error",
  "no-undef": "error",
  "no-unreachable": "error",
  "no-unused-vars": "error",
  "no-use-before-define": ["error", { functions: false, classes: false, variables: false }],
  "no-var": "error",
  "prefer-const": "error",
};

export default [
  // What is installed or built is not ours.
  { ignores: [".venv/", ".lowest/", "node_modules/", "build/", "dist/", "site/"] },
  {
    files: ["mha_viz/web/components/**/*.js", "docs/in_browser/*.js"],
    languageOptions: {
      ecmaVersion: 2022,
      sourceType: "module",
      globals: Object.fromEntries([...browser, "PALETTE", "COMPONENT", "DRAW"].map((name) => [name, "readonly"])),
    },
    rules,
  },
  {
    files: ["tests/web/javascript/*.js"],
    languageOptions: {
      ecmaVersion: 2022,
      sourceType: "module",
      globals: Object.fromEntries([...browser, ...node].map((name) => [name, "readonly"])),
    },
    rules,
  },
];
