"use strict";
// Every answer is put on the page as text nodes: what strangers wrote is never read as HTML.
const here = new URL(".", location.href);
const base = document.body.dataset.publicUrl || here.href.replace(/\/$/, "");
document.querySelector("[data-base]").textContent = base;

function fields(form) {
  return [...new FormData(form)]
    .filter(([, value]) => value !== "")
    .map(([name, value]) => name + "=" + encodeURIComponent(value.toWellFormed ? value.toWellFormed() : value).replace(/'/g, "%27"))
    .join("&");
}

function target(form) {
  const query = form.dataset.method === "GET" ? fields(form) : "";
  return form.dataset.path.slice(1) + (query ? "?" + query : "");
}

function options(form) {
  if (form.dataset.method === "GET") return {};
  return { method: form.dataset.method, headers: { "Content-Type": "application/x-www-form-urlencoded" }, body: fields(form) };
}

function command(form) {
  const body = form.dataset.method === "GET" ? "" : "-d '" + fields(form) + "' ";
  return "curl " + body + "'" + base + "/" + target(form) + "'";
}

const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/g;

function colour(element, text) {
  element.textContent = "";
  let end = 0;
  for (const token of text.matchAll(TOKEN)) {
    element.append(text.slice(end, token.index));
    const part = document.createElement("span");
    part.className = token[2] !== undefined ? "k" : token[1] !== undefined ? "s" : "n";
    part.textContent = token[1] ?? token[0];
    element.append(part, token[2] ?? "");
    end = token.index + token[0].length;
  }
  element.append(text.slice(end));
}

async function send(form) {
  const part = (name) => form.querySelector("[data-" + name + "]");
  const button = form.querySelector("button[type=submit]");
  button.disabled = true;
  const began = performance.now();
  try {
    const response = await fetch(new URL(target(form), here), options(form));
    const text = await response.text();
    part("status").textContent = response.status;
    part("status").className = "status s" + String(response.status)[0];
    part("facts").textContent = Math.round(performance.now() - began) + " ms · " + text.length.toLocaleString("en") + " characters";
    let shown = text;
    try { shown = JSON.stringify(JSON.parse(text), null, 2); } catch { /* shown as it came */ }
    colour(part("body"), shown);
  } catch (error) {
    part("status").textContent = "no answer";
    part("status").className = "status s5";
    part("facts").textContent = "";
    part("body").textContent = String(error);
  } finally {
    part("result").hidden = false;
    button.disabled = false;
  }
}

for (const form of document.querySelectorAll("form")) {
  const curl = form.querySelector("[data-curl]");
  const show = () => { curl.textContent = command(form); };
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => { event.preventDefault(); send(form); });
  const copy = form.querySelector("[data-copy]");
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(curl.textContent);
      copy.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(curl);
    }
    setTimeout(() => { copy.textContent = "Copy"; }, 1500);
  });
  show();
}
for (const example of document.querySelectorAll("[data-json]")) colour(example, example.textContent);
