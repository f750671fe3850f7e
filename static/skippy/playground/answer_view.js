/* A turn of the model's: thinking, text by tokens, calls, and what is told of them once it has ended. */
import { callCard } from "./calls.js";
import { element } from "./element.js";
import { factList, problemBox, requestCopies, requestLine } from "./facts.js";
import { StreamText } from "./stream_text.js";
import { TokenCard } from "./token_card.js";
import { TurnView } from "./turn_view.js";

export class AnswerView extends TurnView {
  #streams;
  #cards;

  constructor(turn, acts, { whenShown = () => {} } = {}) {
    super(turn, acts);
    this.reasoning = element("div", { class: "said" }, turn.reasoning);
    this.thinking = element(
      "details",
      { class: "thinking", hidden: turn.reasoning === "" },
      element("summary", {}, "Thinking"),
      this.reasoning,
    );
    this.calls = element("div", { class: "calls" });
    this.end = element("div", { class: "ending" });
    this.#streams = {
      content: new StreamText(this.text, { whenShown }),
      reasoning: new StreamText(this.reasoning, { whenShown }),
    };
    this.#cards = Object.values(this.#streams).map((stream) => new TokenCard(stream));
    this.body.replaceChildren(this.thinking, this.text, this.calls, ...this.#cards.map((card) => card.element));
    this.element.append(this.end);
    this.showCalls();
  }

  begin() {
    this.element.setAttribute("aria-busy", "true");
    this.text.replaceChildren(element("span", { class: "empty waiting" }, "Waiting for the first token …"));
  }

  /** What `Answer.take` gave. */
  show(piece) {
    this.text.querySelector(".waiting")?.remove();
    if (piece.channel === "reasoning" && this.thinking.hidden) {
      this.thinking.hidden = false;
      this.thinking.open = true;
    }
    this.#streams[piece.channel].push(piece.text, piece.tokens);
  }

  /** Everything is there; gives the line with the request's id. */
  conclude(answer, baseUrl) {
    this.element.removeAttribute("aria-busy");
    this.text.querySelector(".waiting")?.remove();
    for (const stream of Object.values(this.#streams)) stream.flush();
    for (const card of this.#cards) card.open();
    const isShaded = this.#streams.content.spans.length > 0;
    const line = requestLine(answer);
    const told = [answer.problem ? problemBox(answer.problem) : null, factList(answer), isShaded ? legend() : null];
    this.end.replaceChildren(...told.filter((one) => one !== null), line, requestCopies(answer, baseUrl));
    this.showCalls();
    return line;
  }

  /** A text that a person wrote has no tokens. */
  setText(text) {
    this.#streams.content.groups.length = this.#streams.content.spans.length = 0;
    for (const name of ["role", "aria-label", "tabindex"]) this.text.removeAttribute(name);
    this.text.textContent = text;
    this.end.querySelector(".legend")?.remove();
  }

  /** `open`: the calls that want a result; `send` is told those that were written. */
  showCalls(open = [], send = () => {}) {
    this.calls.replaceChildren(...this.turn.calls.map((call) => callCard(call, { isOpen: open.includes(call), send })));
  }
}

const legend = () =>
  element(
    "p",
    { class: "legend hint" },
    "Probability of each token: ",
    ...["0.9 and more", "0.6", "0.3", "0.1", "less"].flatMap((text, shade) => [
      element("span", { class: `token shade-${shade}` }, text),
      " ",
    ]),
    "· point at a token, or use the arrow keys in the answer.",
  );
