/* The turns of a conversation, and the messages that they are in a request. Kept in this tab (sessionStorage), never
   on the server; another user's are thrown away. */

const STORE = "skippy.playground";

/** A turn: `role` user (`content`, `images` as data URLs), assistant (`content`, `reasoning`, `calls`) or tool
    (`content`, `callId`, `name`). What an answer has beside its text (`answer`) is not kept. */
export class Conversation {
  #nextId = 1;

  constructor(userId) {
    this.userId = userId;
    this.turns = [];
  }

  add(turn) {
    const made = { content: "", images: [], reasoning: "", calls: [], ...turn, id: this.#nextId++ };
    this.turns.push(made);
    return made;
  }

  /** The turn and, with the calls that it made, their results; or all from it on. Gives what was taken out. */
  remove(turn, { isRest = false } = {}) {
    const start = this.turns.indexOf(turn);
    if (start < 0) return [];
    let end = start + 1;
    const calls = new Set(turn.calls.map((call) => call.id));
    while (end < this.turns.length && (isRest || calls.has(this.turns[end].callId))) end++;
    return this.turns.splice(start, end - start);
  }

  /** What comes behind the turn. */
  removeAfter(turn) {
    return this.turns.splice(this.turns.indexOf(turn) + 1);
  }

  /** Calls of the last answer that nobody has answered yet. */
  openCalls(turn) {
    const answered = new Set(this.turns.filter((one) => one.role === "tool").map((one) => one.callId));
    return turn.calls.filter((call) => !answered.has(call.id));
  }

  /** As in a request's `messages`. Answers of which nothing came are left out. */
  messages(system) {
    const made = system.trim() === "" ? [] : [{ role: "system", content: wellFormed(system) }];
    for (const turn of this.turns) {
      if (turn.role === "tool")
        made.push({ role: "tool", tool_call_id: turn.callId, content: wellFormed(turn.content) });
      else if (turn.role === "user") made.push({ role: "user", content: userContent(turn) });
      else if (turn.content !== "" || turn.calls.length > 0) made.push(assistantMessage(turn));
    }
    return made;
  }

  save(settings) {
    const said = this.turns.filter((turn) => turn.role !== "assistant" || turn.content || turn.reasoning || turn.calls.length);
    const turns = said.map(({ role, content, images, reasoning, calls, callId, name }) => ({
      role, content, images, reasoning, calls, callId, name,
    }));
    for (const kept of [turns, turns.map((turn) => ({ ...turn, images: [] }))]) {
      try {
        sessionStorage.setItem(STORE, JSON.stringify({ userId: this.userId, settings, turns: kept }));
        return;
      } catch {
        /* No room: once more without pictures. */
      }
    }
  }

  /** What was kept of this user; its settings, or null. */
  restore() {
    try {
      const kept = JSON.parse(sessionStorage.getItem(STORE));
      if (kept?.userId !== this.userId) {
        sessionStorage.removeItem(STORE);
        return null;
      }
      for (const turn of kept.turns) this.add(turn);
      return kept.settings;
    } catch {
      return null;
    }
  }
}

/** Half of a character, which a text field may hold, is no text that can be sent. */
const wellFormed = (text) => text.replace(/\p{Surrogate}/gu, "\ufffd");

const userContent = (turn) => {
  const text = wellFormed(turn.content);
  if (turn.images.length === 0) return text;
  const images = turn.images.map((url) => ({ type: "image_url", image_url: { url } }));
  return [...images, ...(text === "" ? [] : [{ type: "text", text }])];
};

const assistantMessage = (turn) => ({
  role: "assistant",
  content: turn.content === "" ? null : wellFormed(turn.content),
  ...(turn.reasoning && { reasoning_content: turn.reasoning }),
  ...(turn.calls.length > 0 && {
    tool_calls: turn.calls.map(({ id, name, arguments: given }) => ({
      id,
      type: "function",
      function: { name, arguments: given },
    })),
  }),
});
