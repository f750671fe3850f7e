/* The same request for a shell and for Python. The key is in neither: both take it from SKIPPY_API_KEY. */

// What the client of OpenAI has an argument for; all else goes into extra_body.
const ARGUMENTS = new Set([
  "model", "messages", "temperature", "top_p", "max_tokens", "seed", "stop", "reasoning_effort", "logprobs",
  "top_logprobs", "response_format", "tools", "tool_choice", "stream", "stream_options",
]);
// The kernel takes 128 KiB for one argument; what is longer goes through a here-document.
const MAX_ARGUMENT_BYTES = 100_000;
const INDENT = 2;

/** In single quotes a shell changes nothing; a quote itself is put in from outside of them. */
const shellQuoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** JSON has no characters below U+0020 in it, so that a NUL, which no argument can hold, is written as \u0000. */
const json = (body) => JSON.stringify(body, null, INDENT);

export const curlOf = (url, body) => {
  const head = [
    `curl -N ${shellQuoted(url)}`,
    `  -H "Authorization: Bearer $SKIPPY_API_KEY"`,
    `  -H 'Content-Type: application/json'`,
  ].join(" \\\n");
  const written = json(body);
  if (new TextEncoder().encode(written).length <= MAX_ARGUMENT_BYTES) return `${head} \\\n  --data-raw ${shellQuoted(written)}`;
  // No line of indented JSON is this word.
  return `${head} \\\n  --data-binary @- <<'END_OF_BODY'\n${written}\nEND_OF_BODY`;
};

/** A value of JSON as Python writes it. JSON's strings are Python's, escape for escape. */
const pythonOf = (value, depth = 0) => {
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value !== "object") return JSON.stringify(value);
  const isList = Array.isArray(value);
  const items = isList
    ? value.map((item) => pythonOf(item, depth + 1))
    : Object.entries(value).map(([name, item]) => `${JSON.stringify(name)}: ${pythonOf(item, depth + 1)}`);
  const [open, close] = isList ? "[]" : "{}";
  if (items.length === 0) return open + close;
  const line = `${open}${items.join(", ")}${close}`;
  if (line.length <= 80 && !line.includes("\n")) return line;
  const pad = "    ".repeat(depth + 1);
  return `${open}\n${items.map((item) => `${pad}${item},\n`).join("")}${"    ".repeat(depth)}${close}`;
};

export const pythonScriptOf = (baseUrl, body) => {
  const entries = Object.entries(body);
  const lines = entries
    .filter(([name]) => ARGUMENTS.has(name))
    .map(([name, value]) => `    ${name}=${pythonOf(value, 1)},`);
  const extra = Object.fromEntries(entries.filter(([name]) => !ARGUMENTS.has(name)));
  if (Object.keys(extra).length > 0) lines.push(`    extra_body=${pythonOf(extra, 1)},`);
  return `import os
from openai import OpenAI

client = OpenAI(base_url=${JSON.stringify(baseUrl)}, api_key=os.environ["SKIPPY_API_KEY"])
stream = client.chat.completions.create(
${lines.join("\n")}
)
for chunk in stream:
    for choice in chunk.choices:
        print(choice.delta.content or "", end="", flush=True)
        for call in choice.delta.tool_calls or []:
            print(call.function.name or "", call.function.arguments or "", end="", flush=True)
print()`;
};
