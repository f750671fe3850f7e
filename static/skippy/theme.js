/* Before anything is painted: light, dark, or as the system has it. The admin's theme keeps the same word. */
"use strict";
(() => {
  const KEY = "adminTheme";
  const THEMES = ["auto", "light", "dark"];
  const read = () => {
    try {
      const word = JSON.parse(localStorage.getItem(KEY));
      return THEMES.includes(word) ? word : "auto";
    } catch {
      return "auto";
    }
  };
  const apply = (word) => {
    if (word === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = word;
  };
  window.skippyTheme = {
    read,
    next() {
      const word = THEMES[(THEMES.indexOf(read()) + 1) % THEMES.length];
      try {
        localStorage.setItem(KEY, JSON.stringify(word));
      } catch {
        /* Without storage it lasts as long as the page. */
      }
      apply(word);
      document.dispatchEvent(new Event("skippy:theme"));
      return word;
    },
  };
  document.documentElement.classList.add("scripted");
  apply(read());
})();
