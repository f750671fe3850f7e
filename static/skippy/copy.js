/* Buttons that copy what stands in another element: data-copy="#its-id". */
"use strict";
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const source = document.querySelector(button.dataset.copy);
  const text = source.value ?? source.textContent;
  const status = button.parentElement.querySelector("[data-copy-status]");
  let isCopied = false;
  try {
    await navigator.clipboard.writeText(text);
    isCopied = true;
  } catch {
    /* Without TLS there is no clipboard: what is selected can be copied by hand. */
    if (source.select) source.select();
    else window.getSelection().selectAllChildren(source);
    isCopied = document.execCommand("copy");
  }
  if (status) status.textContent = isCopied ? "Copied" : "Press Ctrl+C to copy it";
});
