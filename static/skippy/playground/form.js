/* The settings' form: what it says, what was kept of it, and what the chosen model does where a field is empty. */
import { readSettings } from "./settings.js";

const WIDE = "(min-width: 62rem)";
const DEFAULTS = ["temperature", "top_p"];
const MAX_TOKENS = 4096;

export class Form {
  constructor(form) {
    this.form = form;
    this.details = form.querySelector("details");
    this.details.open = matchMedia(WIDE).matches;
    form.elements.format.addEventListener("change", () => this.#showSchema());
  }

  get system() {
    return this.form.elements.system.value;
  }

  /** Raises WrongField. */
  read() {
    return readSettings(this.form);
  }

  showDefaults(model) {
    for (const name of DEFAULTS) this.form.elements[name].placeholder = model?.default_sampling?.[name] ?? "";
    this.form.elements.max_tokens.placeholder = String(Math.min(MAX_TOKENS, model?.context_length ?? MAX_TOKENS));
  }

  open(name) {
    this.details.open = true;
    this.form.elements[name].focus();
  }

  values() {
    const named = [...this.form.elements].filter((field) => field.name && field.name !== "csrfmiddlewaretoken");
    return Object.fromEntries(
      named.map((field) => [field.name, field.type === "checkbox" ? field.checked : field.value]),
    );
  }

  restore(values) {
    for (const field of this.form.elements) {
      if (!field.name || !(field.name in values)) continue;
      if (field.type === "checkbox") field.checked = values[field.name];
      else field.value = values[field.name];
    }
    this.#showSchema();
  }

  #showSchema() {
    this.form.querySelector("#schema-field").hidden = this.form.elements.format.value !== "json_schema";
  }
}
