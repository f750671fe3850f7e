/* Which part of a text is which token's. A character may take several tokens; then they belong together. */

const decode = (bytes, isFatal) =>
  new TextDecoder("utf-8", { fatal: isFatal, ignoreBOM: true }).decode(new Uint8Array(bytes));

/** `[{text, tokens}]`, whose texts are `text` together. Where the tokens' bytes are not the text's (a policy put
    some in), it is one group without tokens. */
export const tokenGroups = (text, tokens) => {
  const made = [];
  let bytes = [];
  let held = [];
  for (const token of tokens) {
    bytes.push(...(token.bytes ?? []));
    held.push(token);
    try {
      made.push({ text: decode(bytes, true), tokens: held });
    } catch {
      continue;
    }
    [bytes, held] = [[], []];
  }
  if (held.length > 0) made.push({ text: decode(bytes, false), tokens: held });
  return made.map((group) => group.text).join("") === text ? made : [{ text, tokens: [] }];
};

/** The chance that the model gave a group, 0 … 1; null where it is not known. */
export const probability = (group) => {
  if (group.tokens.length === 0 || group.tokens.some((token) => token.logprob === null)) return null;
  return Math.exp(group.tokens.reduce((sum, token) => sum + token.logprob, 0));
};

const LEVELS = [0.9, 0.6, 0.3, 0.1];

/** 0 (nearly certain) … 4 (unlikely): the class of its shade. */
export const shadeOf = (chance) => {
  const level = LEVELS.findIndex((least) => chance >= least);
  return level < 0 ? LEVELS.length : level;
};

export const chanceText = (chance) => {
  if (chance === null) return "p unknown";
  if (chance > 0 && chance < 0.001) return "p < 0.001";
  return `p = ${chance.toFixed(chance < 0.01 ? 3 : 2)}`;
};

/** Text that shows what is otherwise not seen. */
export const visibleText = (text) =>
  text === "" ? "(nothing)" : text.replaceAll("\n", "⏎").replaceAll("\t", "⇥").replaceAll(" ", "␣");
