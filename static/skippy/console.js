/* What all pages share: the menu on phones, the theme's switch, the days that one chooses, and being busy. */
"use strict";

/* The server writes days and times in the browser's zone, once it knows it. */
try {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone) document.cookie = `skippy_zone=${zone}; path=/console/; max-age=31536000; samesite=lax`;
} catch {
  /* It stays UTC. */
}

/* What a page kept in this tab is for who is signed in, and for nobody after him. */
if (!document.querySelector(".who")) {
  try {
    sessionStorage.removeItem("skippy.playground");
  } catch {
    /* Then nothing was kept. */
  }
}

const NAMES = { auto: "system", light: "light", dark: "dark" };
for (const button of document.querySelectorAll("[data-theme-switch]")) {
  const name = button.querySelector("[data-theme-name]");
  name.textContent = NAMES[window.skippyTheme.read()];
  button.addEventListener("click", () => {
    name.textContent = NAMES[window.skippyTheme.next()];
  });
}

for (const button of document.querySelectorAll("[data-menu]")) {
  button.addEventListener("click", () => {
    const isOpen = button.getAttribute("aria-expanded") !== "true";
    button.setAttribute("aria-expanded", String(isOpen));
    document.getElementById(button.getAttribute("aria-controls")).classList.toggle("is-open", isOpen);
  });
}

for (const select of document.querySelectorAll("[data-range]")) {
  const custom = select.form.querySelectorAll("[data-custom]");
  const show = () => {
    for (const label of custom) {
      label.hidden = select.value !== "custom";
      label.querySelector("input").disabled = label.hidden;
    }
  };
  select.addEventListener("change", show);
  show();
}

/* Empty fields are left out of the address; while the answer is awaited, the page says so. */
for (const form of document.querySelectorAll("form[data-busy]")) {
  form.addEventListener("submit", () => {
    for (const field of form.elements) if (field.name && field.value === "") field.disabled = true;
    document.getElementById("main").setAttribute("aria-busy", "true");
  });
}
window.addEventListener("pageshow", () => {
  document.getElementById("main").removeAttribute("aria-busy");
  for (const form of document.querySelectorAll("form[data-busy]"))
    for (const field of form.elements) if (!field.closest("[hidden]")) field.disabled = false;
});
