// Behaviour of the configuration forms: a preview of the changes, and a list of model names.
"use strict";

(() => {
  const PREVIEW_DELAY = 350; // milliseconds after the last edit

  function preview(section) {
    const form = section.closest("form");
    const body = section.querySelector(".preview-body");
    let timer = 0;
    let latest = 0;

    async function ask() {
      const number = ++latest;
      const data = new FormData(form);
      data.set("_preview", "1");
      const answer = await fetch(window.location.href, { method: "POST", body: data });
      // The server escapes the HTML. A slow response must not replace a newer one.
      if (number === latest && answer.ok) body.innerHTML = await answer.text();
    }

    function schedule() {
      clearTimeout(timer);
      timer = setTimeout(ask, PREVIEW_DELAY);
    }

    form.addEventListener("input", schedule);
    form.addEventListener("change", schedule);
    if (form.checkValidity()) ask(); // a form that is filled in already, as by a link or a preset
  }

  function offerModels(upstream, model) {
    const list = document.createElement("datalist");
    list.id = "upstream-models";
    const note = document.createElement("span");
    model.setAttribute("list", list.id);
    model.setAttribute("autocomplete", "off");
    model.after(list);
    document.getElementById("id_upstream_model_helptext").append(" ", note);

    async function ask() {
      list.replaceChildren();
      note.textContent = "";
      if (!upstream.value) return;
      const chosen = upstream.value;
      const address = upstream.dataset.models.replace("/0/", `/${chosen}/`);
      const answer = await fetch(address, { headers: { accept: "application/json" } });
      if (!answer.ok || chosen !== upstream.value) return;
      const { models, problem } = await answer.json();
      list.append(...models.map((name) => new Option(name, name)));
      note.textContent = problem
        ? `The model list is not available: ${problem}`
        : `${models.length} models of this upstream are suggested as you type.`;
    }

    upstream.addEventListener("change", ask);
    ask();
  }

  // On a phone each table row becomes a card, and each value needs its column name beside it.
  function labelCells(table) {
    const names = [...table.tHead.rows[0].cells].map((cell) => cell.querySelector(".text")?.textContent.trim());
    for (const row of table.tBodies[0].rows) {
      [...row.cells].forEach((cell, place) => {
        const isMain = cell.classList.contains("action-checkbox") || cell.tagName === "TH";
        if (names[place] && !isMain) cell.dataset.label = names[place].toLowerCase();
      });
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    const list = document.getElementById("result_list");
    if (list) labelCells(list);
    for (const section of document.querySelectorAll("[data-preview]")) preview(section);
    const upstream = document.querySelector("select[data-models]");
    const model = document.getElementById("id_upstream_model");
    if (upstream && model) offerModels(upstream, model);
  });
})();
