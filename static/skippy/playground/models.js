/* The models that the key may use, in their select, and what there is to say of the chosen one. */
import { ask } from "./api.js";
import { element } from "./element.js";

const AGAIN_MS = 3000;
const NOTES = {
  loading: "This model is being loaded. It will answer soon.",
  unloaded: "This model is not loaded. A request may load it, and waits for that.",
  draining: "This model is being unloaded.",
  failed: "This model cannot be loaded. Operators see why on the live page and in the log.",
};

export class ModelList {
  #models = new Map();
  #timer = 0;
  #turn = 0;

  constructor({ select, note, baseUrl, credential, whenChanged }) {
    Object.assign(this, { select, note, baseUrl, credential, whenChanged });
    select.addEventListener("change", () => this.#changed());
  }

  get chosen() {
    return this.#models.get(this.select.value) ?? null;
  }

  /** Asks anew. Whatever goes wrong is told beside the select. `wanted` is chosen where it is there. */
  async load(wanted = this.select.value) {
    clearTimeout(this.#timer);
    const turn = ++this.#turn;
    if (!this.credential.isThere) return this.#show([], "", "Choose a key, and its models are listed here.");
    let data = [];
    try {
      data = (await (await ask(`${this.baseUrl}/models`, this.credential)).json()).data;
    } catch (problem) {
      if (turn === this.#turn) this.#show([], "", `${problem.status || ""} ${problem.message}`.trim(), "error");
      return;
    }
    if (turn !== this.#turn) return;
    const usable = data.filter((model) => !model.capabilities || model.capabilities.includes("completion"));
    const none = data.length
      ? "This key may use no model that generates."
      : "There is no model for this key: none is set up, or the key may use none. Operators add models in the admin.";
    this.#show(usable, wanted, usable.length ? "" : none);
  }

  #show(models, wanted, note, kind = "") {
    this.#models = new Map(models.map((model) => [model.id, model]));
    const options = models.map((model) =>
      element("option", { value: model.id }, model.state === "ready" ? model.id : `${model.id} (${model.state})`),
    );
    this.select.replaceChildren(...options);
    this.select.disabled = models.length === 0;
    const ready = models.find((model) => model.state === "ready");
    if (this.#models.has(wanted)) this.select.value = wanted;
    else if (ready) this.select.value = ready.id;
    this.#changed(note, kind);
  }

  #changed(note = "", kind = "") {
    const model = this.chosen;
    const told = note || (model ? (NOTES[model.state] ?? "") : "");
    this.note.textContent = told;
    this.note.className = `note ${kind}`.trim();
    this.note.hidden = told === "";
    clearTimeout(this.#timer);
    if (model && ["loading", "draining"].includes(model.state)) this.#timer = setTimeout(() => this.load(), AGAIN_MS);
    this.whenChanged(model);
  }
}
