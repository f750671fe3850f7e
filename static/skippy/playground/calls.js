/* A call that the model made: what it wants, and the field for what the tool says. */
import { button, element } from "./element.js";

/** Arguments as the model wrote them, laid out where they are JSON. */
const shownArguments = (written) => {
  try {
    return JSON.stringify(JSON.parse(written), null, 2);
  } catch {
    return written;
  }
};

export const callCard = (call, { isOpen, send }) => {
  const card = element(
    "div",
    { class: "call" },
    element("p", {}, "Calls ", element("code", {}, call.name), " ", element("small", { class: "mono" }, call.id)),
    element("pre", { tabIndex: 0, "aria-label": `Arguments of ${call.name}` }, shownArguments(call.arguments)),
  );
  if (!isOpen) return card;
  const field = element("textarea", { rows: 2, class: "mono result" });
  const give = () => send(call, field.value);
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    give();
  });
  card.append(
    element("label", {}, `What ${call.name} answers`, field),
    element("div", { class: "actions" }, button("Give this result", give)),
  );
  return card;
};
