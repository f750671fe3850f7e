/* Fields that search while one types (select2) have no name of their own: screen readers get the label's. Icons
   that have one are pictures, which may have it. */
"use strict";
(() => {
  const nameOf = (select) => {
    const label = select.id && document.querySelector(`label[for="${CSS.escape(select.id)}"]`);
    return (label ? label.textContent : select.name).replace("*", "").trim();
  };
  const tell = () => {
    for (const icon of document.querySelectorAll(".help-tooltip[aria-label]:not([role])")) icon.setAttribute("role", "img");
    for (const select of document.querySelectorAll("select.select2-hidden-accessible")) {
      const box = select.nextElementSibling;
      if (!box || !box.classList.contains("select2")) continue;
      for (const part of box.querySelectorAll("[role=combobox], [role=textbox], [role=searchbox]")) {
        if (part.hasAttribute("aria-label")) continue;
        part.removeAttribute("aria-labelledby");
        part.setAttribute("aria-label", nameOf(select));
      }
    }
  };
  document.addEventListener("DOMContentLoaded", () => {
    tell();
    new MutationObserver(tell).observe(document.body, { childList: true, subtree: true });
  });
})();
