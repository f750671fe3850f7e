/* What is told of an answer beside its text: times, tokens, how it ended, what policies did, how to ask the same. */
import { curlOf, pythonScriptOf } from "./copies.js";
import { button, element } from "./element.js";

const seconds = (value) => (value < 1 ? `${Math.round(1000 * value)} ms` : `${value.toFixed(2)} s`);
const fact = (name, value) => (value === null ? [] : [element("div", {}, element("dt", {}, name), element("dd", {}, value))]);

/** Times as this browser saw them, and the tokens that were counted. */
export const factList = (answer) => {
  const { first, total, rate } = answer.times;
  const { usage } = answer;
  const cached = usage?.prompt_tokens_details?.cached_tokens ?? 0;
  const thought = usage?.completion_tokens_details?.reasoning_tokens ?? 0;
  return element(
    "dl",
    { class: "told" },
    ...fact("Ended", answer.isStopped ? "stopped" : (answer.finishReason ?? (answer.problem ? "with an error" : "early"))),
    ...fact("To the first token", first === null ? null : seconds(first)),
    ...fact("Tokens/s", rate === null ? null : rate.toFixed(1)),
    ...fact("In all", total === null ? null : seconds(total)),
    ...fact("Input", usage ? `${usage.prompt_tokens} tokens, ${cached} cached` : null),
    ...fact("Output", usage ? `${usage.completion_tokens} tokens${thought ? `, ${thought} thinking` : ""}` : null),
  );
};

export const problemBox = (problem) => {
  const head = [problem.status || "", problem.code].filter(Boolean).join(" ");
  return element(
    "div",
    { class: "note error problem" },
    element("strong", {}, head || "Not sent"),
    element("p", {}, problem.message),
    problem.param ? element("p", {}, "Field: ", element("code", {}, problem.param)) : null,
    problem.retryAfter ? element("p", {}, `Retry-After: ${problem.retryAfter} s`) : null,
  );
};

/** The request's id, at first as text, and as a link once its record is there. */
export const requestLine = (answer) =>
  element("p", { class: "hint request" }, "Request ", element("span", { class: "mono" }, answer.requestId));

/** Puts the link and the decisions of policies behind the request's id. */
export const showRecord = (line, record, storyUrl) => {
  if (record === null) {
    line.append(" · no record of yours has this id");
    return;
  }
  const link = element("a", { href: storyUrl.replace(/0{8}-.*0{12}/, record.id), class: "mono" }, record.request_id);
  line.querySelector(".mono").replaceWith(link);
  line.append(` · recorded as ${record.outcome}`);
  const decisions = record.hook_decisions ?? [];
  if (decisions.length === 0) {
    line.append(" · no policy decided anything");
    return;
  }
  line.after(element("ul", { class: "fired", "aria-label": "Policies that fired" }, ...decisions.map(decisionLine)));
};

const decisionLine = (decision) => {
  const did = decision.actions?.length ? decision.actions.join(", ") : (decision.action ?? "");
  const rest = [decision.point, did, decision.result, decision.reason].filter(Boolean).join(" · ");
  return element("li", {}, element("strong", {}, decision.policy), ` ${rest}`);
};

/** The request that was sent, as curl, Python and JSON; written when somebody opens it. */
export const requestCopies = (answer, baseUrl) => {
  const shown = element("pre", { tabIndex: 0, id: `copy-${answer.requestId}` });
  const writers = {
    curl: () => curlOf(`${baseUrl}/chat/completions`, answer.body),
    Python: () => pythonScriptOf(baseUrl, answer.body),
    JSON: () => JSON.stringify(answer.body, null, 2),
  };
  const write = (kind) => {
    shown.textContent = writers[kind]();
    for (const one of kinds) one.setAttribute("aria-pressed", String(one.textContent === kind));
  };
  const kinds = Object.keys(writers).map((kind) => button(kind, () => write(kind), { "aria-pressed": "false" }));
  const copy = element("button", { type: "button", class: "quiet", "data-copy": `#${shown.id}` }, "Copy");
  const status = element("span", { role: "status", "data-copy-status": "" });
  const box = element(
    "details",
    { class: "copies" },
    element("summary", {}, "The same request"),
    element("div", { class: "actions" }, ...kinds, copy, status),
    shown,
  );
  box.addEventListener("toggle", () => box.open && shown.textContent === "" && write("curl"));
  return box;
};
