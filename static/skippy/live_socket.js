/* The way to the live page's snapshots: opened anew where it is lost, with growing pauses; closed while nobody
   can see the page; given up where it says nothing, as after a laptop's sleep, when no end of it is told. */
"use strict";
window.skippyLiveSocket = ({ path, onSnapshot, onState }) => {
  const FIRST_PAUSE_S = 1, MAX_PAUSE_S = 30, SILENCE_S = 10, HIDDEN_S = 5;
  const NOT_ALLOWED = 4403, NOTHING_READ = 4408, BOARD_FAILED = 4500, TRY_LATER = 4503;
  const WHY = {
    [BOARD_FAILED]: "The server has stopped to tell what runs (its log says why).",
    [TRY_LATER]: "The server cannot tell now: the database is away, or too many look on.",
  };
  let socket = null, pauseS = FIRST_PAUSE_S, heardAt = 0, hasServed = false, isOver = false;
  let again = null, hiding = null;

  const drop = () => {
    /* Not its close event: a connection that is dead waits minutes for one. */
    const old = socket;
    socket = null;
    if (old) old.close();
  };
  const lost = (why) => {
    if (document.hidden) {
      onState("hidden");
      return;
    }
    onState("lost", `${why} What is shown is old. Trying again in ${pauseS} s …`);
    /* Not all pages at the same moment, where a server has started anew. */
    again = setTimeout(connect, 1000 * pauseS * (0.8 + 0.4 * Math.random()));
    pauseS = Math.min(2 * pauseS, MAX_PAUSE_S);
  };
  const connect = () => {
    clearTimeout(again);
    again = null;
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const made = new WebSocket(`${scheme}//${location.host}${path}`);
    let wasServed = false;
    socket = made;
    heardAt = Date.now();
    made.addEventListener("message", (event) => {
      if (socket !== made) return;
      pauseS = FIRST_PAUSE_S;
      heardAt = Date.now();
      hasServed = wasServed = true;
      onSnapshot(JSON.parse(event.data));
      made.send("read");
    });
    made.addEventListener("close", (event) => {
      if (socket !== made) return;
      socket = null;
      if (event.code === NOT_ALLOWED && !wasServed) {
        isOver = true;
        onState("denied");
      } else if (event.code === NOT_ALLOWED || event.code === NOTHING_READ) {
        connect(); /* Signed in anew meanwhile, or asleep: the next one says. */
      } else lost(WHY[event.code] || "No connection.");
    });
  };
  const returned = () => {
    clearTimeout(hiding);
    if (!isOver && !socket && !document.hidden) {
      pauseS = FIRST_PAUSE_S;
      onState(hasServed ? "returning" : "connecting");
      connect();
    }
  };
  setInterval(() => {
    if (!socket || Date.now() - heardAt < 1000 * SILENCE_S) return;
    drop();
    lost("The server says nothing any more.");
  }, 1000);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) {
      returned();
      return;
    }
    hiding = setTimeout(() => {
      clearTimeout(again);
      drop();
      if (!isOver) onState("hidden");
    }, 1000 * HIDDEN_S);
  });
  window.addEventListener("online", returned);
  onState("connecting");
  if (!document.hidden) connect();
};
