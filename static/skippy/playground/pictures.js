/* Pictures that go with the next message, as data URLs. */
import { button, element } from "./element.js";

const MAX_BYTES = 10 * 1024 * 1024;

export class Pictures {
  #chosen = [];

  constructor({ input, list, tell }) {
    Object.assign(this, { input, list, tell });
    input.addEventListener("change", () => this.#add());
  }

  get isEmpty() {
    return this.#chosen.length === 0;
  }

  /** Those that were chosen; they are gone from here then. */
  take() {
    const urls = this.#chosen.map((one) => one.url);
    this.#chosen = [];
    this.#show();
    return urls;
  }

  async #add() {
    const files = [...this.input.files];
    this.input.value = "";
    for (const file of files) {
      if (file.size > MAX_BYTES) this.tell(`${file.name} is larger than 10 MiB.`);
      else this.#chosen.push({ name: file.name, url: await dataUrl(file) });
    }
    this.#show();
  }

  #show() {
    this.list.hidden = this.isEmpty;
    this.list.replaceChildren(...this.#chosen.map((one) => element(
      "li",
      {},
      element("img", { src: one.url, alt: "", class: "picture" }),
      one.name,
      button("Take out", () => {
        this.#chosen = this.#chosen.filter((other) => other !== one);
        this.#show();
      }, { "aria-label": `Take out ${one.name}` }),
    )));
  }
}

const dataUrl = (file) =>
  new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => resolve(reader.result));
    reader.addEventListener("error", () => reject(reader.error));
    reader.readAsDataURL(file);
  });
