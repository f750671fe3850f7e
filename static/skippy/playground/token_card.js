/* What is known of one token of an answer, on hover, tap or by arrow keys: how likely it was, and what else could
   have stood there. */
import { element } from "./element.js";
import { chanceText, probability, visibleText } from "./token_groups.js";

const GAP_PX = 4;
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
    for (const one of [root, this.element]) one.addEventListener("pointerleave", (event) => this.#left(event));
    root.addEventListener("keydown", (event) => this.#step(event));
    root.addEventListener("focus", () => {
      if (this.text.spans.length > 0 && root.matches(":focus-visible")) this.#show(Math.max(this.#place, 0));
    });
    root.addEventListener("blur", () => this.#clear());
  }

  /** Whether there is anything to walk through. */
  open() {
    if (this.text.spans.length === 0) return;
    this.text.root.tabIndex = 0;
    this.text.root.setAttribute("role", "group");
    this.text.root.setAttribute("aria-label", "The answer by tokens: arrow keys tell their probabilities");
  }

  #pick(target) {
    const place = target.dataset?.place;
    if (place !== undefined) this.#show(Number(place));
  }

  /** Between a token and its card the pointer may go to and fro. */
  #left(event) {
    const { root } = this.text;
    const isInside = [root, this.element].some((one) => one.contains(event.relatedTarget));
    if (!isInside && root !== document.activeElement) this.#clear();
  }

  #step(event) {
    if (event.key === "Escape") this.#clear();
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
    this.#putBelow(this.text.spans[place]);
  }

  /** Over the lines that follow, so that nothing moves when it comes and goes. */
  #putBelow(span) {
    const room = this.element.offsetParent.clientWidth - this.element.offsetWidth;
    this.element.style.top = `${span.offsetTop + span.offsetHeight + GAP_PX}px`;
    this.element.style.left = `${Math.max(0, Math.min(span.offsetLeft, room))}px`;
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
