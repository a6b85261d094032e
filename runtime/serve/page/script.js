"use strict";
/* A conversation with one of the server's models. Nothing is kept when the page is closed. */
const $ = id => document.getElementById(id);
let models = [], messages = [], stopper = null;

function element(parent, tag, kind, text) {
  const e = document.createElement(tag);
  if (kind) e.className = kind;
  if (text !== undefined) e.textContent = text;
  parent.append(e);
  return e;
}

function headers() {
  const h = {"Content-Type": "application/json"};
  if ($("key").value) h.Authorization = "Bearer " + $("key").value;
  return h;
}

async function said(response) {
  if (response.ok) return response;
  let why = response.status + " " + response.statusText;
  try { why = (await response.json()).error.message; } catch (e) { /* no JSON: the status says it */ }
  throw new Error(why);
}

/* --- models --- */

function showDevice() {
  const m = models.find(x => x.id === $("model").value);
  if (!m) return;
  const parts = Object.entries(m.placement || {}).map(([device, n]) => device + ": " + n + " nodes");
  $("device").textContent = parts.join(", ") + (m.context ? "; context " + m.context : "");
}

async function loadModels() {
  try {
    const r = await said(await fetch("/v1/models", {headers: headers()}));
    models = (await r.json()).data.filter(m => m.kind === "text");
    $("model").replaceChildren();
    for (const m of models) element($("model"), "option", "", m.id).value = m.id;
    $("stats").textContent = "";
    showDevice();
  } catch (e) {
    $("stats").textContent = e.message;
  }
}

/* --- the conversation --- */

function setBusy(busy) {
  $("send").disabled = busy;
  $("stop").disabled = !busy;
  $("retry").disabled = $("undo").disabled = busy || !messages.length;
}

function show() {
  const talk = $("talk");
  talk.replaceChildren();
  for (const m of messages) {
    const e = element(talk, "div", "message " + m.role);
    if (m.thoughts) {
      const d = element(e, "details");
      element(d, "summary", "", "thoughts");
      d.append(m.thoughts);
    }
    e.append(m.content);
  }
  talk.scrollTop = talk.scrollHeight;
}

function request() {
  const r = {model: $("model").value, stream: true, stream_options: {include_usage: true},
             messages: messages.filter(m => m.role !== "error").map(m => ({role: m.role, content: m.content}))};
  if ($("system").value) r.messages.unshift({role: "system", content: $("system").value});
  for (const key of ["temperature", "top_p", "top_k", "max_tokens", "seed"])
    if ($(key).value !== "") r[key] = Number($(key).value);
  return r;
}

/* Calls take with each event of a stream. */
async function readEvents(response, take) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    held += value;
    const lines = held.split("\n");
    held = lines.pop();
    for (const line of lines)
      if (line.startsWith("data: ") && line !== "data: [DONE]") take(JSON.parse(line.slice(6)));
  }
}

function showStats(event, began, first) {
  const u = event.usage, t = event.timings;
  $("stats").textContent = u.completion_tokens + " tokens, " + t.tokens_per_s.toFixed(1) + " tokens/s; first after " +
    ((first - began) / 1000).toFixed(2) + " s; prompt " + u.prompt_tokens + ", of which " +
    u.prompt_tokens_details.cached_tokens + " were in the cache";
}

async function answer() {
  const body = JSON.stringify(request()), reply = {role: "assistant", content: "", thoughts: ""}, began = performance.now();
  let first = 0, shown = false;
  stopper = new AbortController();
  messages.push(reply);
  setBusy(true);
  $("stats").textContent = "...";
  try {
    const r = await said(await fetch("/v1/chat/completions", {method: "POST", headers: headers(), body, signal: stopper.signal}));
    await readEvents(r, event => {
      if (event.error) throw new Error(event.error.message);
      const delta = event.choices.length ? event.choices[0].delta : {};
      if (delta.content || delta.reasoning_content) first = first || performance.now();
      reply.content += delta.content || "";
      reply.thoughts += delta.reasoning_content || "";
      if (event.usage) { showStats(event, began, first); shown = true; }
      show();
    });
  } catch (e) {
    if (e.name === "AbortError") $("stats").textContent = "stopped";
    else messages.push({role: "error", content: e.message});
    shown = true;
  }
  if (!shown) $("stats").textContent = "the connection ended";
  if (!reply.content && !reply.thoughts) messages.splice(messages.indexOf(reply), 1);
  stopper = null;
  setBusy(false);
  show();
}

/* Back to before the last answer; all: before what it answers, which is given back. */
function takeBack(all) {
  while (messages.length && messages[messages.length - 1].role !== "user") messages.pop();
  return all && messages.length ? messages.pop().content : "";
}

$("form").addEventListener("submit", e => {
  e.preventDefault();
  const text = $("say").value;
  if (!text || stopper) return;
  messages = messages.filter(m => m.role !== "error");
  messages.push({role: "user", content: text});
  $("say").value = "";
  show();
  answer();
});
$("say").addEventListener("keydown", e => {
  if (e.key === "Enter" && !e.shiftKey && !e.isComposing) { e.preventDefault(); $("form").requestSubmit(); }
});
$("stop").addEventListener("click", () => stopper && stopper.abort());
$("retry").addEventListener("click", () => { takeBack(false); show(); if (messages.length) answer(); });
$("undo").addEventListener("click", () => { $("say").value = takeBack(true); show(); setBusy(false); });
$("clear").addEventListener("click", () => { if (stopper) stopper.abort(); messages = []; show(); setBusy(false); $("stats").textContent = ""; });
$("model").addEventListener("change", showDevice);
$("key").addEventListener("change", loadModels);
loadModels();
