// Behaviour of the pages: copy buttons, busy forms, j/k navigation, and highlighting the text of an event.
"use strict";

(() => {
  const status = document.querySelector(".copied");

  async function copy(text) {
    if (navigator.clipboard) {
      await navigator.clipboard.writeText(text);
      return;
    }
    // Plain HTTP has no clipboard API.
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }

  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.addEventListener("click", async () => {
      await copy(document.getElementById(button.dataset.copy).textContent);
      status.textContent = "Copied";
      setTimeout(() => { status.textContent = ""; }, 2000);
    });
  }

  // A second click would throw away the result of the first.
  for (const form of document.querySelectorAll("form[data-busy]")) {
    const button = form.querySelector("button[type=submit]");
    const label = button.textContent;
    form.addEventListener("submit", () => {
      button.disabled = true;
      button.textContent = form.dataset.busy;
    });
    window.addEventListener("pageshow", () => {
      button.disabled = false;
      button.textContent = label;
    });
  }

  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input, textarea, select, [contenteditable]");
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    const rel = { j: "next", k: "prev" }[event.key];
    const link = rel && document.querySelector(`a[rel=${rel}]`);
    if (link) link.click();
  });

  const columns = document.getElementById("columns");
  if (!columns) return;

  function mark(number, className) {
    for (const other of columns.querySelectorAll(`.${className}`)) other.classList.remove(className);
    if (number === undefined) return [];
    const marked = [...columns.querySelectorAll(`[data-event="${number}"]`)];
    for (const element of marked) element.classList.add(className);
    return marked;
  }

  const eventOf = (target) => target.closest("[data-event]");

  columns.addEventListener("pointerover", (event) => {
    mark(eventOf(event.target)?.dataset.event, "hovered");
  });
  columns.addEventListener("pointerleave", () => mark(undefined, "hovered"));

  function select(element) {
    const own = element.closest("section");
    const seen = new Set([own]);
    for (const other of mark(element.dataset.event, "selected")) {
      const section = other.closest("section");
      if (seen.has(section)) continue;
      seen.add(section);
      other.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
  }

  columns.addEventListener("click", (event) => {
    const element = eventOf(event.target);
    if (element) select(element);
    else mark(undefined, "selected");
  });
  columns.addEventListener("keydown", (event) => {
    const element = eventOf(event.target);
    if (element && (event.key === "Enter" || event.key === " ")) {
      event.preventDefault();
      select(element);
    }
  });
})();
