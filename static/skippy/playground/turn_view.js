/* A turn in the page: what was said, and the buttons that change it. */
import { button, element } from "./element.js";

const NAMES = { user: "You", assistant: "Model", tool: "Tool" };

export class TurnView {
  /** `acts`: `{edit(turn, text, isSent), remove(turn), again(turn)}`. */
  constructor(turn, acts) {
    Object.assign(this, { turn, acts });
    this.text = element("div", { class: "said" }, turn.content);
    this.body = element("div", { class: "body" }, ...turn.images.map(picture), this.text);
    this.buttons = element("div", { class: "actions" });
    const name = turn.role === "tool" ? `${NAMES.tool}: ${turn.name}` : NAMES[turn.role];
    this.element = element(
      "article",
      { class: `card turn ${turn.role}`, "aria-label": name },
      element("header", {}, element("h2", {}, name), this.buttons),
      this.body,
    );
    this.#fillButtons();
  }

  #fillButtons() {
    const name = NAMES[this.turn.role];
    const made = [button("Edit", () => this.edit(), { "aria-label": `Edit: ${name}` })];
    if (this.turn.role === "assistant")
      made.push(button("Regenerate", () => this.acts.again(this.turn), { "aria-label": "Regenerate this answer" }));
    made.push(button("Delete", () => this.acts.remove(this.turn), { "aria-label": `Delete: ${name}` }));
    this.buttons.replaceChildren(...made);
  }

  /** The text becomes a field. Saving a turn of the user's may ask again from there. */
  edit() {
    if (this.body.hidden) return;
    const field = element("textarea", { value: this.turn.content, rows: 4, "aria-label": "The text of this turn" });
    const close = (change) => {
      form.remove();
      this.body.hidden = this.buttons.hidden = false;
      this.buttons.firstChild?.focus();
      // It may lead to a field that is wrong.
      change?.();
    };
    const save = (isSent) => close(() => this.acts.edit(this.turn, field.value, isSent));
    const isAsked = this.turn.role !== "assistant";
    const form = element(
      "div",
      { class: "editing" },
      field,
      element(
        "div",
        { class: "actions" },
        button("Save", () => save(false)),
        isAsked ? button("Save and send from here", () => save(true)) : null,
        button("Leave it", () => close()),
      ),
    );
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) save(isAsked);
      else if (event.key === "Escape") close();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    this.body.hidden = this.buttons.hidden = true;
    this.element.append(form);
    field.focus();
  }

  setText(text) {
    this.text.textContent = text;
  }

  set isBusy(isBusy) {
    for (const one of this.buttons.children) one.disabled = isBusy;
  }
}

const picture = (url, place) => element("img", { src: url, alt: `Picture ${place + 1}`, class: "picture" });
