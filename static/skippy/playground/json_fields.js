/* JSON that people write into fields: read, or refused with a sentence that says where. */

const NAME = /^[A-Za-z0-9_-]{1,64}$/;

const parsed = (written) => {
  try {
    return JSON.parse(written);
  } catch (error) {
    throw new Error(`this is no JSON: ${error.message}`);
  }
};
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** A JSON schema: an object (true and false are schemas, too, but say nothing). */
export const readSchema = (written) => {
  if (written.trim() === "") throw new Error("write a schema, or choose another form of the answer.");
  const schema = parsed(written);
  if (!isObject(schema)) throw new Error("a schema is a JSON object.");
  return schema;
};

/** A list of functions. The service checks more; this is what a slip looks like. */
export const readTools = (written) => {
  const tools = parsed(written);
  if (!Array.isArray(tools)) throw new Error("a JSON list of tools is wanted: [{…}].");
  tools.forEach((tool, place) => {
    const which = `tool ${place + 1}`;
    if (!isObject(tool)) throw new Error(`${which} is no object.`);
    if (tool.type !== "function") throw new Error(`${which} needs "type": "function".`);
    const called = isObject(tool.function) ? tool.function : tool;
    if (typeof called.name !== "string" || !NAME.test(called.name))
      throw new Error(`${which} needs a "name" of 1 to 64 letters, digits, _ and -.`);
    if (called.parameters !== undefined && !isObject(called.parameters))
      throw new Error(`the parameters of ${which} are a JSON schema, so an object.`);
  });
  return tools;
};
