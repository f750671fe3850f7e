/* A replay that runs: its numbers are fetched again until it has ended, then the page with its buttons is. */
"use strict";
(() => {
  const PERIOD_MS = 1500;
  const root = document.getElementById("replay");
  if (!root || root.dataset.open !== "yes") return;
  const wasQuiet = () => document.querySelector('button[value="resume"]') !== null;
  const look = async () => {
    try {
      const answer = await fetch(location.href, { headers: { accept: "text/html" } });
      if (answer.redirected || !answer.ok) return location.reload();
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const found = page.getElementById("replay");
      const isQuiet = page.querySelector('button[value="resume"]') !== null;
      if (!found || found.dataset.open !== "yes" || isQuiet !== wasQuiet()) return location.reload();
      for (const id of ["replay-progress", "replay-numbers"]) {
        const old = document.getElementById(id);
        const next = page.getElementById(id);
        // What somebody reads or has the keyboard in stays where it is while nothing is new.
        if (old && next && old.innerHTML !== next.innerHTML && !old.contains(document.activeElement)) {
          old.replaceWith(document.adoptNode(next));
        }
      }
    } catch {
      // The server is away: the next time.
    }
    setTimeout(look, PERIOD_MS);
  };
  setTimeout(look, PERIOD_MS);
})();
