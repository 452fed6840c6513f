// What is typed goes to the transport, a server or a worker, and its answer is shown. The state is in the address,
// behind "#".

import { UNAVAILABLE, answer as answered, started } from "./transport.js";

const TABS = [
  ["latex", "LaTeX"], ["index", "Indices"], ["einsum", "Einsum"], ["matrix", "Matrix"], ["python", "Python"],
  ["numpy", "NumPy"], ["numba", "Numba"], ["c", "C"], ["cuda", "CUDA"], ["cuda_c", "CUDA C"],
  ["jax", "JAX"], ["torch", "PyTorch"], ["cupy", "CuPy"], ["graph", "Graph"], ["numbers", "Numbers"], ["check", "Check"],
  ["convex", "Convex"],
].filter(([name]) => !UNAVAILABLE.includes(name));
const FORMULAS = new Set(["latex", "index", "einsum", "matrix"]);
const PAUSE = 250; // milliseconds without a key until the server is asked

const at = (id) => document.getElementById(id);
const [source, language, order, examples, wrt, again] = ["source", "language", "order", "examples", "wrt", "again"].map(at);
let tab = "latex";
let asked = 0; // the number of the last question: answers to others come too late
let told = {}; // answers to the present question, by what was asked for
let timer = null;
let waiting = new AbortController(); // ends the questions about what has been typed over
let given = [];
let shown = ""; // the tab whose answer is there
let chosen = []; // what to differentiate with respect to; empty: as the text says
let sizes = {}; // those that were typed, for numbers
let domains = {}; // likewise, for convexity
let inParts = null; // whether the derivative is in parts; null: where it reads better so

// ---------------------------------------------------------------- questions

async function ask(want) {
  const body = JSON.stringify({
    language: language.value, source: source.value, order: Number(order.value), wrt: chosen, sizes, domains, want,
  });
  return answered(body, waiting.signal);
}

function changed() {
  clearTimeout(timer);
  asked += 1;
  waiting.abort();
  waiting = new AbortController();
  told = {};
  for (const id of ["expression", "derivative", "text", "graph"]) at(id).classList.add("old");
  timer = setTimeout(renew, PAUSE);
}

async function renew() {
  const question = asked;
  keep();
  busy(true);
  const answer = await ask("formulas");
  if (question !== asked) return;
  busy(false);
  told.formulas = answer;
  complain(answer);
  if (!answer.error) {
    formula(at("expression"), answer.expression);
    choosePart();
    const by = answer.wrt.join(" and ");
    const assumed = answer.assumed.length ? `; assumed: ${answer.assumed.join(", ")}` : "";
    at("shape").textContent = `with respect to ${by}` + (answer.shape ? `, of shape ${answer.shape}` : ", a number") + assumed;
    at("reading").textContent = answer.reading;
    offer(answer);
  }
  await show();
}

// The derivative as a whole or in parts: the answer has both where they differ, the one that reads better first.
function choosePart() {
  const { latex, other } = told.formulas.derivative;
  const hasParts = (form) => /\\text\{where\}/.test(form?.text ?? "");
  if (other && inParts !== null && hasParts(latex) !== inParts) Object.assign(told.formulas.derivative, { latex: other, other: latex });
  at("parts").hidden = !other;
  at("parts").setAttribute("aria-pressed", String(hasParts(told.formulas.derivative.latex)));
  formula(at("derivative"), told.formulas.derivative.latex);
}

async function show() {
  const want = FORMULAS.has(tab) ? "formulas" : tab;
  if (!told.formulas || told.formulas.error) {
    if (shown !== tab) write({ text: "" }); // what is there belongs to another tab
    return;
  }
  if (!told[want]) {
    const question = asked;
    const wanted = tab;
    if (shown !== tab) write({ text: "…" });
    else at("text").classList.add("old"); // a button that is disabled would lose the focus
    busy(true);
    const answer = await ask(want);
    if (question !== asked) return;
    told[want] = answer;
    busy(false);
    if (wanted !== tab) return;
  }
  const answer = told[want];
  if (answer.error) write(answer);
  else if (want === "formulas") write(answer.derivative[tab]);
  else write(answer.code ?? answer.check ?? answer.convex ?? answer.graph ?? answer.numbers);
}

// What to choose from: the variables, the sizes for numbers, and the domains for convexity.
function offer(answer) {
  [wrt, again].forEach((select, n) => {
    select.replaceChildren(...answer.variables.map((name) => new Option(name, name)));
    select.value = answer.wrt[n] ?? answer.wrt[0];
  });
  at("twice").hidden = order.value !== "2";
  at("sizes").replaceChildren(...Object.entries(answer.sizes).map(([name, size]) => {
    const label = document.createElement("label");
    const input = document.createElement("input");
    Object.assign(input, { type: "number", min: 0, max: 1000, value: sizes[name] ?? size });
    input.addEventListener("change", () => {
      if (!input.checkValidity() || input.value === "") return;
      sizes[name] = Number(input.value);
      delete told.numbers;
      keep();
      show();
    });
    label.append(`${name} = `, input);
    return label;
  }));
  at("domains").replaceChildren(...answer.variables.map((name) => {
    const label = document.createElement("label");
    const input = document.createElement("input");
    Object.assign(input, { maxLength: 40, placeholder: "any real", value: domains[name] ?? "" });
    input.setAttribute("list", "some-domains");
    input.addEventListener("change", () => {
      domains[name] = input.value;
      delete told.convex;
      keep();
      show();
    });
    label.append(`${name}: `, input);
    return label;
  }));
}

function busy(is) {
  at("state").textContent = is ? "computing …" : "";
  document.querySelector(".answer").setAttribute("aria-busy", String(is));
}

// ---------------------------------------------------------------- answers

// Formulas come as MathML. The policy of the page forbids style attributes in markup; what a script sets is allowed.
function formula(place, form) {
  place.classList.remove("old");
  if (!form.mathml) {
    place.textContent = form.error ?? "This formula is too long to be set here; see its notations.";
    return;
  }
  const markup = form.mathml.replaceAll(" style=", " data-style=");
  const math = document.importNode(new DOMParser().parseFromString(markup, "text/html").querySelector("math"), true);
  for (const element of math.querySelectorAll("[data-style]")) element.style.cssText = element.dataset.style;
  place.replaceChildren(math);
}

function complain(answer) {
  const place = at("complaint");
  place.textContent = "";
  source.setAttribute("aria-invalid", String(Boolean(answer.error)));
  for (const name of ["copy-expression", "copy-derivative"]) at(name).disabled = Boolean(answer.error);
  if (!answer.error) return;
  at("copy").disabled = true; // what is there belongs to an earlier input
  if (answer.place) {
    const lines = answer.place.text.split("\n");
    place.append(lines[0]);
    const marked = document.createElement("pre");
    marked.textContent = lines.slice(1).join("\n");
    place.append(marked);
  } else {
    place.textContent = answer.error;
  }
}

function write(form) {
  shown = tab;
  const text = at("text");
  const picture = at("graph");
  const drawn = tab === "graph" && !form.error && form.text.startsWith("<");
  text.classList.remove("old");
  picture.classList.remove("old");
  text.classList.toggle("wrong", Boolean(form.error));
  text.classList.toggle("wrapped", FORMULAS.has(tab) || tab === "convex");
  text.textContent = form.error ?? form.text;
  text.hidden = drawn;
  picture.hidden = !drawn;
  at("sizes").hidden = tab !== "numbers";
  at("domains").hidden = tab !== "convex";
  at("proof").hidden = tab !== "convex" || !form.proof;
  if (form.proof) formula(at("proof"), form.proof);
  if (drawn) picture.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(form.text);
  at("copy").disabled = Boolean(form.error) || ["", "…"].includes(form.text);
}

// ---------------------------------------------------------------- tabs

for (const [name, title] of TABS) {
  const button = document.createElement("button");
  button.type = "button";
  button.id = `tab-${name}`;
  button.textContent = title;
  button.setAttribute("role", "tab");
  button.setAttribute("aria-controls", "panel");
  button.addEventListener("click", () => choose(name));
  at("tabs").append(button);
}

function choose(name) {
  tab = name;
  for (const [other] of TABS) {
    const button = at(`tab-${other}`);
    button.setAttribute("aria-selected", String(other === name));
    button.tabIndex = other === name ? 0 : -1;
  }
  at("panel").setAttribute("aria-labelledby", `tab-${name}`);
  keep();
  show();
}

at("tabs").addEventListener("keydown", (event) => {
  const names = TABS.map(([name]) => name);
  const here = names.indexOf(tab);
  const there = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: names.length - 1 }[event.key];
  if (there === undefined) return;
  event.preventDefault();
  choose(names[(there + names.length) % names.length]);
  at(`tab-${tab}`).focus();
});

// ---------------------------------------------------------------- copies and links

async function copy(text, button) {
  const label = button.dataset.label ?? button.textContent;
  button.dataset.label = label;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Copying is not allowed";
  }
  clearTimeout(button.timer); // of the copy before
  button.timer = setTimeout(() => { button.textContent = label; }, 1500);
}

at("copy").addEventListener("click", () => copy(at("text").textContent, at("copy")));
for (const name of ["expression", "derivative"]) {
  at(`copy-${name}`).addEventListener("click", (event) => {
    const form = name === "expression" ? told.formulas?.expression : told.formulas?.derivative?.latex;
    copy(form?.text ?? "", event.target);
  });
}
at("parts").addEventListener("click", () => {
  inParts = at("parts").getAttribute("aria-pressed") !== "true";
  choosePart();
  keep();
  show();
});
at("link").addEventListener("click", () => { keep(); copy(location.href, at("link")); });

// Not at every key: browsers refuse to change the address more often than some times a second.
function keep() {
  const state = { l: language.value, s: source.value, o: order.value, t: tab, w: chosen, z: sizes, d: domains, p: inParts };
  history.replaceState(null, "", "#" + encodeURIComponent(JSON.stringify(state)));
}

// A link has the state as JSON, or the input alone.
function restored() {
  try {
    const text = decodeURIComponent(location.hash.slice(1));
    if (!text) return false;
    const state = text.startsWith("{") ? JSON.parse(text) : { s: text, l: "any" };
    if (typeof state.s !== "string" || ![...language.options].some((one) => one.value === state.l)) return false;
    source.value = state.s.slice(0, 20000);
    language.value = state.l;
    order.value = state.o === "2" ? "2" : "1";
    chosen = Array.isArray(state.w) ? state.w.map(String).slice(0, 2) : [];
    sizes = Object.fromEntries(Object.entries(state.z ?? {}).filter(([, size]) => Number.isInteger(size) && size >= 0 && size <= 1000));
    domains = Object.fromEntries(Object.entries(state.d ?? {}).filter(([, text]) => typeof text === "string" && text.length <= 40));
    inParts = typeof state.p === "boolean" ? state.p : null;
    if (TABS.some(([name]) => name === state.t)) tab = state.t;
    return true;
  } catch {
    return false;
  }
}

// ---------------------------------------------------------------- start

function help() {
  for (const name of ["index", "matrix", "latex", "text"]) at(`help-${name}`).hidden = !["any", name].includes(language.value);
}

function start(example) {
  language.value = "any";
  source.value = example.source;
  order.value = "1";
  [chosen, sizes, domains, inParts] = [[], {}, {}, null];
  help();
  changed();
}

source.addEventListener("input", () => {
  examples.value = ""; // so that the same example can be chosen again
  if (/\bwrt\b/.test(source.value)) chosen = [];
  changed();
});
order.addEventListener("change", changed);
for (const select of [wrt, again]) {
  select.addEventListener("change", () => {
    chosen = [wrt.value, again.value].slice(0, Number(order.value));
    changed();
  });
}
language.addEventListener("change", () => { help(); changed(); });
examples.addEventListener("change", () => {
  if (examples.value !== "") start(given[Number(examples.value)]);
});
window.addEventListener("hashchange", () => {
  if (restored()) { help(); choose(tab); changed(); }
});

const known = restored();
help();
choose(tab);
const bar = at("progress");
const start_of_answers = started((part) => { bar.hidden = false; bar.value = part; });
try {
  given = await (await fetch("examples.json")).json();
} catch {
  given = [];
}
given.forEach((example, number) => examples.add(new Option(example.title, String(number))));
if (known) changed();
else if (given.length) { examples.value = "0"; start(given[0]); }
start_of_answers.catch((error) => complain({ error: String(error.message ?? error) })).finally(() => { bar.hidden = true; });
