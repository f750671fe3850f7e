/* What the form says of a request, as members of its body. Empty fields are left to the service. */
import { readSchema, readTools } from "./json_fields.js";

/** A field that cannot be sent as it is. */
export class WrongField extends Error {
  constructor(field, message) {
    super(message);
    this.field = field;
  }
}

const MAX_STOPS = 4;
const ESCAPES = { n: "\n", t: "\t", "\\": "\\" };

const number = (form, name, { isInteger = false } = {}) => {
  const written = form.elements[name].value.trim();
  if (written === "") return {};
  const value = Number(written.replace(",", "."));
  const fits = isInteger ? Number.isSafeInteger(value) : Number.isFinite(value);
  if (!fits) throw new WrongField(name, `${name}: “${written}” is no ${isInteger ? "whole number up to 2⁵³ − 1" : "number"}.`);
  return { [name]: value };
};

const stops = (form) => {
  const lines = form.elements.stop.value.split("\n").filter((line) => line !== "");
  if (lines.length === 0) return {};
  if (lines.length > MAX_STOPS) throw new WrongField("stop", `stop: at most ${MAX_STOPS} lines.`);
  return { stop: lines.map((line) => line.replace(/\\([nt\\])/g, (_, letter) => ESCAPES[letter])) };
};

const format = (form) => {
  const kind = form.elements.format.value;
  if (kind === "") return {};
  if (kind === "json_object") return { response_format: { type: kind } };
  const schema = readField(form, "schema", readSchema);
  return { response_format: { type: kind, json_schema: { name: "answer", schema, strict: true } } };
};

const tools = (form) => {
  if (form.elements.tools.value.trim() === "") return {};
  const given = readField(form, "tools", readTools);
  const choice = form.elements.tool_choice.value;
  return { tools: given, ...(choice && { tool_choice: choice }) };
};

const readField = (form, name, read) => {
  try {
    return read(form.elements[name].value);
  } catch (error) {
    throw new WrongField(name, `${name}: ${error.message}`);
  }
};

/** Members of the body but for model and messages. Raises WrongField. */
export const readSettings = (form) => ({
  ...number(form, "temperature"),
  ...number(form, "top_p"),
  ...number(form, "max_tokens", { isInteger: true }),
  ...number(form, "seed", { isInteger: true }),
  ...stops(form),
  ...(form.elements.reasoning_effort.value && { reasoning_effort: form.elements.reasoning_effort.value }),
  ...(form.elements.logprobs.checked && { logprobs: true, top_logprobs: Number(form.elements.top_logprobs.value) }),
  ...(form.elements.skippy_hooks.checked && { skippy_hooks: true }),
  ...format(form),
  ...tools(form),
  stream: true,
  stream_options: { include_usage: true },
});
