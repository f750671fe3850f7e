/* The live page: what its snapshots say. Screen readers hear when the connection changes, not each second. */
"use strict";
(() => {
  const root = document.getElementById("live");
  const by = (id) => document.getElementById(id);
  const SHOWN_AFTER_END_S = 5;
  let isPaused = false;

  /* Names are others' to choose: none of their characters turns the line around or hides in it. */
  const clean = (text) =>
    text.replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, "\ufffd");
  const count = (value) => value.toLocaleString("en");
  const seconds = (value) => (value === null ? "–" : `${value.toFixed(1)} s`);
  const put = (place, text) => {
    if (place.textContent !== text) place.textContent = text;
  };
  const state = (text, kind) => {
    put(by("state"), text);
    by("state").className = kind ? `note ${kind}` : "empty";
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
    fill: (row, item) => texts(item).forEach(([text], place) => put(row.children[place], text)),
  });
  const model = plain((one) => [
    [clean(one.id)],
    [clean(one.cause ? `${one.state}: ${one.cause}` : one.state)],
    [`${one.num_waiting} of ${one.max_waiting}`, "number"],
    [`${one.num_lanes_used} of ${one.num_lanes}`, "number"],
    [`${one.limit} of ${one.max_limit}`, "number"],
    [`${one.num_batched}`, "number"],
    [`${one.num_cells_used} + ${one.num_cells_cached} kept of ${one.num_cells}`, "number"],
    [one.generated_tokens_per_s.toFixed(1), "number"],
    [one.prefill_tokens_per_s.toFixed(1), "number"],
    [seconds(one.predicted_wait_s), "number"],
  ]);
  const ended = new Map(); /* by record: what became of it here, and until when its row says so */
  const running = plain((one) => [
    [clean(one.request_id)],
    [clean(one.username)],
    [clean(one.key_name)],
    [clean(one.model)],
    [ended.has(one.record_id) ? ended.get(one.record_id).text : one.phase],
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
      button.setAttribute("aria-label", `Cancel ${clean(one.request_id)}`);
      button.addEventListener("click", () => ask(one, button));
      place.append(button);
    }
    return row;
  };

  /* Asked before it is done: rows move, and a click on the wrong one ends somebody's work. */
  const dialog = by("confirm");
  let asked = null;
  const ask = (one, button) => {
    if (button.getAttribute("aria-disabled") === "true") return;
    asked = { one, button };
    by("confirm-what").textContent = `${clean(one.request_id)} of ${clean(one.username)}, ${clean(one.model)}.`;
    by("confirm-ended").hidden = true;
    by("confirm-yes").disabled = false;
    dialog.returnValue = "";
    dialog.showModal();
  };
  dialog.addEventListener("close", () => {
    if (dialog.returnValue === "yes" && asked) cancel(asked.one, asked.button);
    asked = null;
  });
  const endedAs = (one, button, text) => {
    ended.set(one.record_id, { one, text, until: Date.now() + 1000 * SHOWN_AFTER_END_S });
    button.textContent = text;
    button.setAttribute("aria-label", `${clean(one.request_id)}: ${text}`);
    const row = button.closest("tr");
    if (row) running.fill(row, one);
  };
  const cancel = async (one, button) => {
    button.setAttribute("aria-disabled", "true");
    try {
      const answer = await fetch(root.dataset.cancelUrl.replace(/0{8}-.*0{12}/, one.record_id), {
        method: "POST",
        headers: { "X-CSRFToken": root.querySelector("[name=csrfmiddlewaretoken]").value },
      });
      const isTold = (answer.headers.get("content-type") || "").includes("json");
      by("said").textContent = isTold
        ? (await answer.json()).message
        : "You may not cancel it. Has your session ended?";
      if (answer.ok) endedAs(one, button, "cancelled");
      else if (answer.status === 404) endedAs(one, button, "ended already");
      else button.removeAttribute("aria-disabled");
    } catch {
      by("said").textContent = "The server cannot be reached. Please try again.";
      button.removeAttribute("aria-disabled");
    }
  };

  const list = (name, items) => {
    by(`no-${name}`).hidden = items.length > 0;
    by(name).replaceChildren(
      ...items.map((one) => {
        const line = document.createElement("li");
        const at = new Date(1000 * one.at).toLocaleTimeString();
        line.textContent = clean([at, one.kind, one.text, one.request_id].filter(Boolean).join(" · "));
        return line;
      }),
    );
  };
  /* The banner that the page came with, or one of its own where the service was closed since. */
  const tellClosed = (message) => {
    const banner = by("maintenance"), line = by("closed");
    if (banner) banner.hidden = !message;
    const text = message && !banner ? `Under maintenance. ${message}` : "";
    put(line, text);
    line.hidden = !text;
  };
  const requestsOf = (snapshot) => {
    const here = new Set(snapshot.requests.map((one) => one.record_id));
    for (const [id, told] of ended) if (told.until < Date.now() && !here.has(id)) ended.delete(id);
    const gone = [...ended.values()].filter((told) => !here.has(told.one.record_id));
    if (asked && snapshot.is_complete && snapshot.num_requests === here.size && !here.has(asked.one.record_id)) {
      by("confirm-ended").hidden = false;
      by("confirm-yes").disabled = true;
    }
    return [...gone.map((told) => told.one), ...snapshot.requests];
  };
  const connected = (snapshot) => {
    const { num_servers: all, num_silent: silent } = snapshot;
    if (!snapshot.is_known) {
      state("Connected. The database does not answer: which requests run is not known.", "warning");
    } else if (silent) {
      state(`Connected. ${silent} of ${all} server processes did not answer: their requests are missing.`, "warning");
    } else if (all > 1) {
      state(`Connected. ${all} server processes: their requests are here, and the models, decisions and events of one.`, "");
    } else state("Connected.", "");
  };
  const show = (snapshot) => {
    tellClosed(snapshot.maintenance);
    const told = requestsOf(snapshot);
    by("no-models").hidden = snapshot.models.length > 0;
    by("no-requests").hidden = told.length > 0 || !snapshot.is_complete;
    rows(by("models"), snapshot.models, (one) => one.id, model.make, model.fill);
    rows(by("requests"), told, (one) => one.record_id, makeRequest, running.fill);
    const models = snapshot.num_models - snapshot.models.length;
    const more = snapshot.num_requests - snapshot.requests.length;
    by("more-models").hidden = models <= 0;
    put(by("more-models"), `And ${count(models)} more models, none of them loaded before these.`);
    by("more-requests").hidden = more <= 0;
    put(by("more-requests"), `And ${count(more)} more, which came later.`);
    put(by("counted"), snapshot.is_known ? count(snapshot.num_requests) : "");
    list("decisions", snapshot.decisions);
    list("events", snapshot.events);
    root.classList.remove("is-stale");
    connected(snapshot);
  };
  by("pause").addEventListener("click", () => {
    isPaused = !isPaused;
    by("pause").setAttribute("aria-pressed", String(isPaused));
    if (isPaused) state("Paused.", "warning");
  });
  const SAID = {
    connecting: ["Connecting …", "warning"],
    returning: ["Connecting again …", "warning"],
    hidden: ["Not read while the page is hidden.", "warning"],
    denied: ["You may not see this any more. Please log in again.", "error"],
  };
  window.skippyLiveSocket({
    path: "/console/live/socket",
    onSnapshot: (snapshot) => {
      if (!isPaused) show(snapshot);
    },
    onState: (name, text) => {
      root.classList.add("is-stale");
      by("sign-in").hidden = name !== "denied";
      if (name === "lost") state(text, "error");
      else state(...SAID[name]);
    },
  });
})();
