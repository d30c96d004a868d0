// @ts-check
// A text as a model's tokens, labelled as mha_viz/text labels them: npm's tokenizer gives no offsets. Knows text only.

const MAX_LETTERS = 24; // of a label, as in mha_viz/web/labels.py
const JOINER = /[\u200c\u200d]/;
const SELECTOR = /[\u180b-\u180d\u180f\ufe00-\ufe0f\u{e0100}-\u{e01ef}]/u;
const HIDDEN = /[\p{Cc}\p{Cf}\p{Co}\p{Z}\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0]/u;
const IDEOGRAPH = /[\u{20000}-\u{2fa1f}]/u; // a word of its own, which npm's tokenizer misses
const SPACE = /^[^\S\ufeff]+|[^\S\ufeff]+$/g;
const SIGNS = { " ": "␠", "\n": "⏎", "\t": "⇥" };
// Kinds of characters, and words over them, as in mha_viz/text/cleaning.py.
const KINDS = Object.entries({
  j: JOINER, v: new RegExp(`${SELECTOR.source}|[\u{1f3fb}-\u{1f3ff}]`, "u"), f: /[\u{1f1e6}-\u{1f1ff}]/u,
  i: /[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u{20000}-\u{3ffff}]/u, "'": /['’]/, a: /\p{L}/u, n: /[\p{N}_]/u, m: /\p{M}/u,
});
const WORD = /[ ]*(?:[anm](?:[anm]|(?<=[am])'(?=a)|[vj]|(?<=j)\S)*|f(?:[fmvj]|(?<=j)\S)*|i(?:[mvj]|(?<=j)\S)*|([^\sanmfi])\1*(?:[mvj]|(?<=j)\S)*)|[ ]+|(\s)\2*/gu;

/** @typedef {{ name: string, label: string, special: boolean, segment: number, start?: number, end?: number, word?: number }} Token */

/**
 * The tokens of a text or a pair, of which at most so many are kept.
 * @param {any} tokenizer of `@huggingface/tokenizers`
 * @param {string[]} texts one or two
 * @param {number} most
 * @returns {{ tokens: Token[], types: number[] | undefined, cut: number }} cut: tokens that were left out
 */
export function tokensOf(tokenizer, texts, most) {
  const parts = texts.map((text, segment) => tokensOfText(tokenizer, [...text], segment));
  const laid = (parts) => tokenizer.post_processor(parts[0], parts[1] ?? null, true);
  const lengths = parts.map((part) => part.length);
  if (lengths.includes(0)) throw new Error("There is nothing that this model can read in this text.");
  const shares = sharesOf(lengths, most - laid(parts.map(() => [])).tokens.length);
  const { tokens, token_type_ids: types } = laid(parts.map((part, at) => part.slice(0, shares[at])));
  let segment = 0;
  const all = tokens.map((token) => {
    segment = token.segment ?? segment;
    return token.name ? token : { name: token, label: token, special: true, segment }; // the template adds names
  });
  return { tokens: all, types, cut: lengths.reduce((sum, length, at) => sum + length - shares[at], 0) };
}

/** Tokens of each text that stay: all of the shorter one if it fits in half of the room. @type {(lengths: number[], room: number) => number[]} */
function sharesOf(lengths, room) {
  const [first, second = 0] = lengths;
  if (first + second <= room) return lengths;
  if (lengths.length === 1) return [room];
  const short = Math.min(first, second, Math.floor(room / 2));
  return first <= second ? [short, room - short] : [room - short, short];
}

/** @param {any} tokenizer @param {string[]} chars @param {number} segment @returns {Token[]} */
function tokensOfText(tokenizer, chars, segment) {
  const names = [...tokenizer.get_added_tokens_decoder().values()].map(({ content }) => content);
  const words = wordNumbers(chars);
  const tokens = Array.from(piecesOf(tokenizer, chars, names), ({ name, start, end }) => {
    while (end - start > 1 && chars[start] === " ") start++;
    while (end - start > 1 && chars[end - 1] === " ") end--;
    const text = chars.slice(start, end).join("");
    const special = names.includes(name) && !["[UNK]", "[MASK]"].includes(name);
    const label = visible(text) + (name === "[UNK]" && text !== name ? " [UNK]" : "");
    return { name, label, special, segment, start, end, word: special ? undefined : words[start] };
  });
  return numbered(tokens);
}

/** Names of tokens, and the characters that each was made of. @param {any} tokenizer @param {string[]} chars @param {string[]} added names of added tokens */
function* piecesOf(tokenizer, chars, added) {
  const escaped = added.map((name) => name.replace(/[[\]|]/g, "\\$&"));
  let from = 0;
  for (const section of chars.join("").split(new RegExp(`(${escaped.join("|")})`))) {
    const { length } = [...section];
    if (added.includes(section)) yield { name: section, start: from, end: from + length };
    else yield* modelPieces(tokenizer, [...section], from);
    from += length;
  }
}

/** Likewise for a text without added tokens, which begins at a place. The tokenizer reads letters of characters, or bytes. */
function* modelPieces({ normalizer, pre_tokenizer: wordsOf, model }, chars, from) {
  const lettersOf = (char) => [...normalizer(IDEOGRAPH.test(char) ? ` ${char} ` : char)];
  const read = chars.map((char) => (normalizer ? lettersOf(char) : [...new TextEncoder().encode(char)]));
  const origins = read.flatMap((units, at) => units.map(() => from + at));
  const units = read.flat();
  let at = 0;
  for (const word of wordsOf((normalizer ? units : chars).join(""))) {
    while (normalizer && /\s/.test(units[at])) at++;
    const [begin, end] = [at, at + [...word].length];
    for (const name of model([word])) {
      const prefix = at > begin ? (model.config.continuing_subword_prefix ?? "").length : 0;
      const next = name === model.unk_token ? end : at + [...name].length - prefix;
      yield { name, start: origins[at], end: origins[next - 1] + 1 };
      at = next;
    }
  }
}

/** Counts the tokens that share one slice of the text, such as bytes of an emoji. @param {Token[]} tokens */
function numbered(tokens) {
  const isSame = (first, second) => first && second && first.start === second.start && first.end === second.end;
  return tokens.map((token, at) => {
    let [first, last] = [at, at];
    while (isSame(tokens[first - 1], token)) first--;
    while (isSame(tokens[last + 1], token)) last++;
    return last > first ? { ...token, label: `${token.label} ${at - first + 1}/${last - first + 1}` } : token;
  });
}

/** The number of each character's word. @param {string[]} chars @returns {number[]} */
function wordNumbers(chars) {
  const kinds = chars.map((char) => KINDS.find(([, pattern]) => pattern.test(char))?.[0] ?? char).join("");
  return [...kinds.matchAll(WORD)].flatMap(([word], number) => [...word].map(() => number));
}

/** A sign in place of each character that would not show. @param {string} text */
function visible(text) {
  if (/^\s+$/.test(text)) {
    return [...text.matchAll(/(.)\1*/gsu)].map(([run, char]) => glyph(char) + (run === char ? "" : `×${run.length}`)).join("");
  }
  const shown = [...text].map((char, at, { length }) => (char === " " ? char : glyph(char, at > 0, at === length - 1))).join("");
  return /^\p{M}/u.test(shown) ? `◌${shown}` : shown;
}

function glyph(char, inside = false, last = true) {
  const joins = JOINER.test(char);
  const hidden = joins || SELECTOR.test(char) ? !inside || (last && joins) : HIDDEN.test(char);
  return hidden ? SIGNS[char] ?? `⟨U+${char.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩` : char;
}

/** A label without what draws nothing or turns what follows, and not too long. @param {string} label */
function clean(label) {
  const chars = [...label.replace(/(?![\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, "").replace(/[\ufffe\uffff]/g, "\ufffd")];
  if (chars.length <= MAX_LETTERS) return chars.join("") || "∅";
  return `${chars.slice(0, MAX_LETTERS - 1).join("").replace(/[\u200c\u200d]+$/, "")}…`;
}

/**
 * The fields of a grid's header about its tokens, as mha_viz/web/payload.py writes them.
 * @param {Token[]} tokens
 * @param {string[]} texts
 */
export function tokenHeader(tokens, texts) {
  const groups = [];
  for (const token of tokens) {
    const before = groups.at(-1)?.[0];
    if (before && token.word !== undefined && token.word === before.word && token.segment === before.segment) groups.at(-1).push(token);
    else groups.push([token]);
  }
  const word = (parts) => [...texts[parts[0].segment]].slice(parts[0].start, parts.at(-1).end).join("").replace(SPACE, "") || parts.map(({ label }) => label).join("");
  const wordNumbers = groups.flatMap((group, word) => group.map(() => word));
  const labels = groups.map((group) => clean(group.length > 1 ? word(group) : group[0].label));
  const axis = { labels: tokens.map(({ label }) => clean(label)), special: tokens.map(({ special }) => Number(special)), segments: tokens.map(({ segment }) => segment) };
  const sides = (values) => Object.fromEntries(["query", "key"].flatMap((side) => Object.entries(values).map(([name, value]) => [name ? `${side}_${name}` : side, value])));
  return { ...sides(axis), ...(groups.length < tokens.length ? { words: sides({ "": wordNumbers, labels }) } : {}) };
}
