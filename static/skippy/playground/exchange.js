/* One request and its answer, from the first byte to the last. */
import { ask } from "./api.js";
import { Problem } from "./problem.js";
import { eventData } from "./sse.js";

const DONE = "[DONE]";

/** Puts the answer's stream into `answer` and `view`. Raises Problem, also for what is told within the stream, and
    AbortError where `signal` stopped it. */
export const receive = async (answer, view, { url, credential, signal, say }) => {
  const { body, requestId } = answer;
  const response = await ask(url, credential, { body, signal, requestId });
  answer.requestId = response.headers.get("x-request-id") ?? requestId;
  for await (const data of eventData(response.body)) {
    if (data === DONE) return;
    const chunk = JSON.parse(data);
    if (chunk.error) throw Problem.inStream(chunk.error, answer.requestId);
    const isFirst = answer.firstTs === null;
    for (const piece of answer.take(chunk)) view.show(piece);
    if (isFirst && answer.firstTs !== null) say("The answer has begun.");
  }
  throw new Problem({ message: "The answer broke off: the connection was closed.", requestId: answer.requestId });
};

/** For people who hear the page. */
export const ended = (answer) => {
  if (answer.problem) return `The answer ended with an error: ${answer.problem.message}`;
  if (answer.isStopped) return "The answer was stopped.";
  const numTokens = answer.usage ? `, ${answer.usage.completion_tokens} tokens` : "";
  return `The answer has ended: ${answer.finishReason}${numTokens}.`;
};
