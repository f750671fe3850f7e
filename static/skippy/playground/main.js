/* The playground: what its fields and buttons do with conversation, request and answer. */
import { Answer } from "./answer.js";
import { AnswerView } from "./answer_view.js";
import { newRequestId } from "./api.js";
import { Conversation } from "./conversation.js";
import { Credential } from "./credential.js";
import { ended, receive } from "./exchange.js";
import { showRecord } from "./facts.js";
import { Form } from "./form.js";
import { ModelList } from "./models.js";
import { Pictures } from "./pictures.js";
import { Problem } from "./problem.js";
import { recordOf } from "./record.js";
import { WrongField } from "./settings.js";
import { TurnView } from "./turn_view.js";

const by = (id) => document.getElementById(id);
const page = by("playground");
const { baseUrl: publicUrl, user: userId, storyUrl, passUrl } = page.dataset;
// The page asks where it comes from; what is copied names the address that people use.
const apiUrl = new URL("/v1", location.href).pathname;
const NEAR_END_PX = 120;

const conversation = new Conversation(userId);
const form = new Form(by("settings"));
const credential = new Credential({
  url: passUrl,
  token: page.querySelector("[name=csrfmiddlewaretoken]").value,
});
const pictures = new Pictures({ input: by("picture"), list: by("attached"), tell: (text) => tellProblem(text) });
const models = new ModelList({
  select: by("model"),
  note: by("model-note"),
  baseUrl: apiUrl,
  credential,
  whenChanged: (model) => {
    form.showDefaults(model);
    by("picture-field").hidden = !model?.input_modalities?.includes("image");
  },
});
const views = new Map();
let running = null;

const say = (text) => {
  by("said").textContent = text;
};
const tellProblem = (text) => {
  by("problem").textContent = text;
  by("problem").hidden = text === "";
};
const save = () => conversation.save({ ...form.values(), model: by("model").value });

/* -- turns ---------------------------------------------------------------------------------------------------------- */

const acts = {
  edit(turn, text, isSent) {
    turn.content = text;
    views.get(turn).setText(text);
    // Nothing is taken out before it is certain that something is asked in its place.
    const settings = isSent && running === null ? readBody() : null;
    if (settings !== null) {
      drop(conversation.removeAfter(turn));
      run(settings);
    }
    settle();
  },
  remove(turn) {
    if (running !== null) return;
    drop(conversation.remove(turn));
    settle();
    by("message").focus();
  },
  again(turn) {
    const settings = running === null ? readBody() : null;
    if (settings === null) return;
    drop(conversation.remove(turn, { isRest: true }));
    run(settings);
  },
};

const drop = (turns) => {
  for (const turn of turns) {
    views.get(turn)?.element.remove();
    views.delete(turn);
  }
};

const show = (turn) => {
  const view = turn.role === "assistant" ? new AnswerView(turn, acts, { whenShown: follow }) : new TurnView(turn, acts);
  views.set(turn, view);
  by("turns").append(view.element);
  return view;
};

/* The page goes with the answer for as long as its end is in view. */
let isFollowing = true;
addEventListener("scroll", () => {
  const { scrollHeight } = document.documentElement;
  isFollowing = scrollHeight - innerHeight - scrollY < NEAR_END_PX;
}, { passive: true });
const follow = () => {
  if (isFollowing) scrollTo({ top: document.documentElement.scrollHeight });
};

/* Everything that follows from the turns that there are. */
const settle = () => {
  by("empty").hidden = conversation.turns.length > 0;
  for (const [turn, view] of views) {
    view.isBusy = running !== null;
    if (turn.role === "assistant") view.showCalls(running ? [] : conversation.openCalls(turn), giveResult);
  }
  by("send").hidden = running !== null;
  by("stop").hidden = running === null;
  save();
};

const giveResult = (call, text) => {
  if (running !== null) return;
  const asker = conversation.turns.find((turn) => turn.calls.includes(call));
  const isLast = conversation.openCalls(asker).length === 1;
  const settings = isLast ? readBody() : null;
  // The result stays in its field, to be given again.
  if (isLast && settings === null) return;
  show(conversation.add({ role: "tool", content: text, callId: call.id, name: call.name }));
  if (isLast) run(settings);
  else settle();
};

/* -- asking --------------------------------------------------------------------------------------------------------- */

const send = () => {
  if (running !== null) return;
  const content = by("message").value;
  if (content.trim() === "" && pictures.isEmpty && conversation.turns.at(-1)?.role !== "user") {
    by("message").focus();
    return;
  }
  const settings = readBody();
  if (settings === null) return;
  if (content.trim() !== "" || !pictures.isEmpty)
    show(conversation.add({ role: "user", content, images: pictures.take() }));
  by("message").value = "";
  run(settings);
};

/** The request but for its messages; null, and the page says why, where it cannot be sent. */
const readBody = () => {
  tellProblem("");
  try {
    if (!credential.isThere) throw new WrongField(null, "Choose a key first, or paste one.");
    if (models.chosen === null) throw new WrongField(null, "Choose a model first.");
    return { model: models.chosen.id, ...form.read() };
  } catch (error) {
    if (!(error instanceof WrongField)) throw error;
    tellProblem(error.message);
    if (error.field) form.open(error.field);
    return null;
  }
};

/* Asks with what `readBody` gave. */
const run = async ({ model, ...rest }) => {
  const body = { model, messages: conversation.messages(form.system), ...rest };
  const turn = conversation.add({ role: "assistant" });
  const view = show(turn);
  const answer = new Answer({ body, requestId: newRequestId() });
  running = new AbortController();
  isFollowing = true;
  view.begin();
  settle();
  follow();
  say("Waiting for the answer.");
  try {
    await receive(answer, view, { url: `${apiUrl}/chat/completions`, credential, signal: running.signal, say });
    answer.end();
  } catch (error) {
    const isStopped = error.name === "AbortError";
    const problem = error instanceof Problem ? error : new Problem({ message: `The answer broke off: ${error.message}` });
    answer.end({ isStopped, problem: isStopped ? null : problem });
    if (!isStopped && problem.requestId) answer.requestId = problem.requestId;
  }
  Object.assign(turn, { content: answer.content, reasoning: answer.reasoning, calls: answer.calls.filter(Boolean) });
  running = null;
  const line = view.conclude(answer, publicUrl);
  settle();
  follow();
  say(ended(answer));
  showRecord(line, await recordOf(answer.requestId, userId), storyUrl);
};

/* -- fields and keys ------------------------------------------------------------------------------------------------ */

const chooseKey = () => {
  const key = by("key");
  by("pasted-field").hidden = key.value !== "";
  by("key-note").hidden = key.selectedOptions[0]?.dataset.keepsText === undefined;
  if (key.value === "") credential.usePasted(by("pasted").value);
  else credential.useKey(key.value);
};

by("key").addEventListener("change", () => {
  chooseKey();
  models.load();
});
by("pasted").addEventListener("change", () => {
  chooseKey();
  models.load();
});
by("refresh").addEventListener("click", () => models.load());
by("settings").addEventListener("submit", (event) => event.preventDefault());
by("settings").addEventListener("change", save);
by("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
by("message").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.isComposing) return;
  event.preventDefault();
  send();
});
by("stop").addEventListener("click", () => running?.abort());
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && running !== null) running.abort();
});
by("new").addEventListener("click", () => {
  running?.abort();
  drop(conversation.remove(conversation.turns[0], { isRest: true }));
  tellProblem("");
  say("");
  settle();
  by("message").focus();
});

const kept = conversation.restore();
if (kept) form.restore(kept);
for (const turn of conversation.turns) show(turn);
chooseKey();
settle();
models.load(kept?.model);
