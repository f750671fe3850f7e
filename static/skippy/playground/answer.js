/* One answer as it comes: the stream's deltas added up, and when they came. */

export class Answer {
  constructor({ body, requestId }) {
    Object.assign(this, { body, requestId });
    this.startedTs = performance.now();
    this.firstTs = this.lastTs = this.endedTs = null;
    this.content = this.reasoning = "";
    this.calls = [];
    this.usage = this.finishReason = this.problem = null;
    this.isStopped = false;
  }

  /** Adds a chunk; gives what is new to show: `{channel: "content" | "reasoning", text, tokens}`. */
  take(chunk) {
    if (chunk.usage) this.usage = chunk.usage;
    const choice = chunk.choices?.[0];
    if (!choice) return [];
    if (choice.finish_reason) this.finishReason = choice.finish_reason;
    const { content, reasoning_content: reasoning, tool_calls: calls } = choice.delta ?? {};
    if (content || reasoning || calls) {
      this.lastTs = performance.now();
      this.firstTs ??= this.lastTs;
    }
    const tokens = choice.logprobs?.content ?? [];
    for (const call of calls ?? []) this.#takeCall(call);
    this.content += content ?? "";
    this.reasoning += reasoning ?? "";
    const made = [];
    if (reasoning) made.push({ channel: "reasoning", text: reasoning, tokens: content ? [] : tokens });
    if (content) made.push({ channel: "content", text: content, tokens: reasoning ? [] : tokens });
    return made;
  }

  end({ problem = null, isStopped = false } = {}) {
    this.endedTs = performance.now();
    this.problem = problem;
    this.isStopped = isStopped;
  }

  #takeCall({ index, id, function: called }) {
    const call = (this.calls[index] ??= { id: "", name: "", arguments: "" });
    call.id ||= id ?? "";
    call.name += called?.name ?? "";
    call.arguments += called?.arguments ?? "";
  }

  /** Seconds to the first token and in all, and tokens a second behind the first one; null where unknown. */
  get times() {
    const first = this.firstTs === null ? null : (this.firstTs - this.startedTs) / 1000;
    const total = this.endedTs === null ? null : (this.endedTs - this.startedTs) / 1000;
    const numTokens = this.usage?.completion_tokens ?? 0;
    const generated = (this.lastTs - this.firstTs) / 1000;
    const rate = numTokens > 1 && generated > 0 ? (numTokens - 1) / generated : null;
    return { first, total, rate };
  }
}
