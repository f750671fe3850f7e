/* Server-sent events of a body that is read by fetch (EventSource can neither POST nor send a header). */

/** The data of each event, as text. Comments and other fields are passed over. */
export async function* eventData(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let lines = [];
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      rest += value;
      for (let end = rest.indexOf("\n"); end >= 0; end = rest.indexOf("\n")) {
        const line = rest.slice(0, end).replace(/\r$/, "");
        rest = rest.slice(end + 1);
        if (line.startsWith("data:")) lines.push(line.slice(line[5] === " " ? 6 : 5));
        else if (line === "" && lines.length > 0) {
          yield lines.join("\n");
          lines = [];
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
