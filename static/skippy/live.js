/* The live page: snapshots over a WebSocket. Screen readers hear when the connection changes, not each second. */
"use strict";
(() => {
  const root = document.getElementById("live");
  const by = (id) => document.getElementById(id);
  const FIRST_PAUSE_S = 1, MAX_PAUSE_S = 30;
  let pause = FIRST_PAUSE_S, isPaused = false;

  const state = (text, kind) => {
    const line = by("state");
    if (line.textContent !== text) line.textContent = text;
    line.className = kind ? `note ${kind}` : "empty";
  };
  const cell = (row, text, kind) => {
    const made = row.insertCell();
    made.textContent = text;
    if (kind) made.className = kind;
    return made;
  };
  const named = (row, text) => {
    const made = document.createElement("th");
    made.scope = "row";
    made.textContent = text;
    row.append(made);
  };
  const seconds = (value) => (value === null ? "–" : `${value.toFixed(1)} s`);
  /* Rows are kept by their key, so that a focused button stays where it is. */
  const rows = (body, items, keyOf, make, fill) => {
    const old = new Map([...body.children].map((row) => [row.dataset.key, row]));
    items.forEach((item, place) => {
      const key = keyOf(item);
      let row = old.get(key);
      old.delete(key);
      if (!row) {
        row = make(item);
        row.dataset.key = key;
      }
      fill(row, item);
      if (body.children[place] !== row) body.insertBefore(row, body.children[place] || null);
    });
    for (const row of old.values()) row.remove();
  };
  const plain = (texts) => ({
    make: (item) => {
      const row = document.createElement("tr");
      texts(item).forEach(([text, kind], place) => (place ? cell(row, text, kind) : named(row, text)));
      return row;
    },
    fill: (row, item) => {
      texts(item).forEach(([text], place) => {
        if (row.children[place].textContent !== text) row.children[place].textContent = text;
      });
    },
  });
  const model = plain((one) => [
    [one.id],
    [one.cause ? `${one.state}: ${one.cause}` : one.state],
    [`${one.num_waiting} of ${one.max_waiting}`, "number"],
    [`${one.num_lanes_used} of ${one.num_lanes}`, "number"],
    [`${one.limit} of ${one.max_limit}`, "number"],
    [`${one.num_batched}`, "number"],
    [`${one.num_cells_used} + ${one.num_cells_cached} kept of ${one.num_cells}`, "number"],
    [one.generated_tokens_per_s.toFixed(1), "number"],
    [one.prefill_tokens_per_s.toFixed(1), "number"],
    [seconds(one.predicted_wait_s), "number"],
  ]);
  const running = plain((one) => [
    [one.request_id],
    [one.username],
    [one.key_name],
    [one.model],
    [one.phase],
    [`${one.num_input_tokens}`, "number"],
    [`${one.num_output_tokens} of ${one.max_tokens}`, "number"],
    [one.total_s.toFixed(1), "number"],
  ]);
  const mayCancel = (one) => root.dataset.cancel === "all" || String(one.user_id) === root.dataset.user;
  const makeRequest = (one) => {
    const row = running.make(one);
    const place = cell(row, "");
    if (mayCancel(one)) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "quiet";
      button.textContent = "Cancel";
      button.setAttribute("aria-label", `Cancel ${one.request_id}`);
      button.addEventListener("click", () => cancel(one, button));
      place.append(button);
    }
    return row;
  };
  const cancel = async (one, button) => {
    button.disabled = true;
    try {
      const answer = await fetch(root.dataset.cancelUrl.replace(/0{8}-.*0{12}/, one.record_id), {
        method: "POST",
        headers: { "X-CSRFToken": root.querySelector("[name=csrfmiddlewaretoken]").value },
      });
      by("said").textContent = answer.headers.get("content-type").includes("json")
        ? (await answer.json()).message
        : "You may not cancel it. Has your session ended?";
      button.disabled = answer.ok;
    } catch {
      by("said").textContent = "The server cannot be reached. Please try again.";
      button.disabled = false;
    }
  };
  const list = (name, items) => {
    by(`no-${name}`).hidden = items.length > 0;
    by(name).replaceChildren(
      ...items.map((one) => {
        const line = document.createElement("li");
        const at = new Date(1000 * one.at).toLocaleTimeString();
        line.textContent = [at, one.kind, one.text, one.request_id].filter(Boolean).join(" · ");
        return line;
      }),
    );
  };
  /* The banner that the page came with, or one of its own where the service was closed since. */
  const tellClosed = (message) => {
    const banner = by("maintenance"), line = by("closed");
    if (banner) banner.hidden = !message;
    const text = message && !banner ? `Under maintenance. ${message}` : "";
    if (line.textContent !== text) line.textContent = text;
    line.hidden = !text;
  };
  const show = (snapshot) => {
    tellClosed(snapshot.maintenance);
    by("no-models").hidden = snapshot.models.length > 0;
    by("no-requests").hidden = snapshot.requests.length > 0 || !snapshot.is_complete;
    rows(by("models"), snapshot.models, (one) => one.id, model.make, model.fill);
    rows(by("requests"), snapshot.requests, (one) => one.record_id, makeRequest, running.fill);
    const more = snapshot.num_requests - snapshot.requests.length;
    by("counted").textContent = `${snapshot.num_requests}${more ? `, the oldest ${snapshot.requests.length} are shown` : ""}`;
    list("decisions", snapshot.decisions);
    list("events", snapshot.events);
    if (snapshot.is_complete) state("Connected.", "");
    else state("Connected. Not every server process answers: some requests may be missing.", "warning");
  };
  const connect = () => {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(`${scheme}//${location.host}/console/live/socket`);
    socket.addEventListener("message", (event) => {
      pause = FIRST_PAUSE_S;
      if (!isPaused) show(JSON.parse(event.data));
      socket.send("read");
    });
    socket.addEventListener("close", (event) => {
      root.classList.add("is-stale");
      if (event.code === 4403) {
        state("You may not see this any more. Please sign in again.", "error");
        return;
      }
      state(`No connection: what is shown is old. Trying again in ${pause} s …`, "error");
      setTimeout(connect, 1000 * pause);
      pause = Math.min(2 * pause, MAX_PAUSE_S);
    });
    socket.addEventListener("open", () => root.classList.remove("is-stale"));
  };
  by("pause").addEventListener("click", () => {
    isPaused = !isPaused;
    by("pause").setAttribute("aria-pressed", String(isPaused));
    if (isPaused) state("Paused.", "warning");
  });
  connect();
})();
