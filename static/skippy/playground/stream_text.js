/* Text that grows by tokens. What came is put into the page once a frame, so that a fast model does not make it
   lay out the page for each token; a long text is cut into parts, so that only the last one is laid out again. */
import { element } from "./element.js";
import { chanceText, probability, shadeOf, tokenGroups } from "./token_groups.js";

// A part ends behind the next line's end, or, where no line ends for long, before the next word.
const MAX_PART = 200;
const MAX_LINE = 1200;
const MAX_NODE = 2000;

export class StreamText {
  #waiting = [];
  #frame = 0;
  #part = null;
  #numInPart = 0;
  #endsLine = false;

  constructor(root, { whenShown = () => {} } = {}) {
    this.root = root;
    this.whenShown = whenShown;
    this.groups = [];
    this.spans = [];
  }

  push(text, tokens) {
    this.#waiting.push({ text, tokens });
    // A page that is not seen has no frames; it is brought up to date when it is seen again, or at the end.
    this.#frame ||= requestAnimationFrame(() => this.flush());
  }

  flush() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    const waiting = this.#waiting.splice(0);
    if (waiting.length === 0) return;
    for (const { text, tokens } of waiting)
      for (const group of tokenGroups(text, tokens)) this.#put(group);
    this.whenShown();
  }

  #put(group) {
    if (this.#part === null || this.#mayCut(group)) {
      this.#part = element("div", { class: "part" });
      this.#numInPart = 0;
      this.root.append(this.#part);
    }
    this.#numInPart++;
    this.#endsLine = group.text === "" ? this.#endsLine : group.text.endsWith("\n");
    const chance = probability(group);
    if (chance === null) this.#putPlain(group.text);
    else this.#part.append(this.#span(group, chance));
  }

  #mayCut(group) {
    if (this.#numInPart < MAX_PART) return false;
    return this.#endsLine || (this.#numInPart >= MAX_LINE && group.text.startsWith(" "));
  }

  #span(group, chance) {
    const span = element("span", { class: `token shade-${shadeOf(chance)}`, title: chanceText(chance) }, group.text);
    span.dataset.place = String(this.groups.length);
    this.groups.push(group);
    this.spans.push(span);
    return span;
  }

  #putPlain(text) {
    const last = this.#part.lastChild;
    if (last?.nodeType === Node.TEXT_NODE && last.length < MAX_NODE) last.appendData(text);
    else this.#part.append(text);
  }
}
