/* What is known of one token of an answer, on hover, tap or by arrow keys: how likely it was, and what else could
   have stood there. */
import { element } from "./element.js";
import { chanceText, probability, visibleText } from "./token_groups.js";

const STEPS = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };

export class TokenCard {
  #place = -1;

  /** `text` is a StreamText; `root` its element. */
  constructor(text) {
    this.text = text;
    this.element = element("div", { class: "token-card", role: "status", hidden: true });
    const { root } = text;
    root.addEventListener("pointerover", (event) => this.#pick(event.target));
    root.addEventListener("click", (event) => this.#pick(event.target));
    root.addEventListener("pointerleave", () => root !== document.activeElement && this.#clear());
    root.addEventListener("keydown", (event) => this.#step(event));
    root.addEventListener("focus", () => this.text.spans.length && this.#show(Math.max(this.#place, 0)));
    root.addEventListener("blur", () => this.#clear());
  }

  /** Whether there is anything to walk through. */
  open() {
    if (this.text.spans.length === 0) return;
    Object.assign(this.text.root, { tabIndex: 0 });
    this.text.root.setAttribute("role", "group");
    this.text.root.setAttribute("aria-label", "The answer by tokens: arrow keys tell their probabilities");
  }

  #pick(target) {
    const place = target.dataset?.place;
    if (place !== undefined) this.#show(Number(place));
  }

  #step(event) {
    const step = STEPS[event.key];
    if (step === undefined || this.text.spans.length === 0) return;
    event.preventDefault();
    this.#show(Math.min(this.text.spans.length - 1, Math.max(0, this.#place + step)));
    this.text.spans[this.#place].scrollIntoView({ block: "nearest" });
  }

  #clear() {
    this.text.spans[this.#place]?.classList.remove("is-picked");
    this.element.hidden = true;
  }

  #show(place) {
    this.text.spans[this.#place]?.classList.remove("is-picked");
    this.#place = place;
    const group = this.text.groups[place];
    this.text.spans[place].classList.add("is-picked");
    const head = element("p", {}, element("code", {}, visibleText(group.text)), ` ${chanceText(probability(group))}`);
    this.element.replaceChildren(head, ...group.tokens.filter((token) => token.top_logprobs?.length).map(alternatives));
    this.element.hidden = false;
  }
}

const alternatives = (token) =>
  element(
    "ol",
    { "aria-label": "The likeliest tokens here" },
    ...token.top_logprobs.map((one) => {
      const chance = Math.exp(one.logprob);
      const isDrawn = one.token === token.token;
      return element(
        "li",
        { class: isDrawn ? "is-drawn" : "" },
        element("code", {}, visibleText(one.token)),
        element("meter", { min: 0, max: 1, value: chance, "aria-hidden": "true" }),
        `${chanceText(chance)}${isDrawn ? ", drawn" : ""}`,
      );
    }),
  );
