/* Elements made in one place. Whatever is put in as text stays text: models may write anything. */

/** An element with properties (`class`, `on` for listeners, `aria-…` and `data-…` as attributes) and children. */
export const element = (name, properties = {}, ...children) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "on") for (const [type, listener] of Object.entries(value)) made.addEventListener(type, listener);
    else if (key === "class") made.className = value;
    else if (key.includes("-") || key === "role") made.setAttribute(key, value);
    else made[key] = value;
  }
  made.append(...children.filter((child) => child !== null));
  return made;
};

export const button = (text, listener, properties = {}) =>
  element("button", { type: "button", class: "quiet", on: { click: listener }, ...properties }, text);
