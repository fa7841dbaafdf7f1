// What the pages do beyond links and forms: copy, j/k, and linking events with their text.
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
      status.textContent = "copied";
      setTimeout(() => { status.textContent = ""; }, 2000);
    });
  }

  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const rel = { j: "next", k: "prev" }[event.key];
    const link = rel && document.querySelector(`a[rel=${rel}]`);
    if (link) link.click();
  });

  const columns = document.getElementById("columns");
  if (!columns) return;

  function mark(number, className) {
    for (const other of columns.querySelectorAll(`.${className}`)) other.classList.remove(className);
    if (number === undefined) return [];
    const found = [...columns.querySelectorAll(`[data-event="${number}"]`)];
    for (const element of found) element.classList.add(className);
    return found;
  }

  const eventOf = (target) => target.closest("[data-event]");

  columns.addEventListener("pointerover", (event) => {
    mark(eventOf(event.target)?.dataset.event, "near");
  });
  columns.addEventListener("pointerleave", () => mark(undefined, "near"));

  function choose(element) {
    const own = element.closest("section");
    const seen = new Set([own]);
    for (const other of mark(element.dataset.event, "chosen")) {
      const section = other.closest("section");
      if (seen.has(section)) continue;
      seen.add(section);
      other.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
  }

  columns.addEventListener("click", (event) => {
    const element = eventOf(event.target);
    if (element) choose(element);
    else mark(undefined, "chosen");
  });
  columns.addEventListener("keydown", (event) => {
    const element = eventOf(event.target);
    if (element && (event.key === "Enter" || event.key === " ")) {
      event.preventDefault();
      choose(element);
    }
  });
})();
