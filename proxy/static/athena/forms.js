// What the forms of the configuration do beyond their fields: a preview, and a list of models.
"use strict";

(() => {
  const PAUSE = 350;

  function preview(section) {
    const form = section.closest("form");
    const body = section.querySelector(".preview-body");
    let timer = 0;
    let asked = 0;

    async function ask() {
      const mine = ++asked;
      const data = new FormData(form);
      data.set("_preview", "1");
      const answer = await fetch(window.location.href, { method: "POST", body: data });
      // The server escapes what it shows; an older answer must not replace a newer one.
      if (mine === asked && answer.ok) body.innerHTML = await answer.text();
    }

    function later() {
      clearTimeout(timer);
      timer = setTimeout(ask, PAUSE);
    }

    form.addEventListener("input", later);
    form.addEventListener("change", later);
    if (form.querySelector("#id_pattern")?.value) later();
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
      const mine = upstream.value;
      const address = upstream.dataset.models.replace("/0/", `/${mine}/`);
      const answer = await fetch(address, { headers: { accept: "application/json" } });
      if (!answer.ok || mine !== upstream.value) return;
      const found = await answer.json();
      list.append(...found.models.map((name) => new Option(name, name)));
      note.textContent = found.trouble
        ? `Its list of models cannot be had: ${found.trouble}`
        : `${found.models.length} models of this upstream are offered as you type.`;
    }

    upstream.addEventListener("change", ask);
    ask();
  }

  // On a phone a row is a card, where each value needs its name beside it.
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
