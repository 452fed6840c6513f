// Questions to a worker of the browser, which runs the package on Pyodide: one at a time.

import { HAS_NUMPY } from "./settings.js";

export const UNAVAILABLE = HAS_NUMPY ? [] : ["numbers", "check"]; // these need NumPy
const SECONDS = 20; // the time limit of an answer

let worker = null;
let ready = null; // resolved when the worker has imported the package
let running = null; // the question that the worker answers
let queue = [];

function restart(show) {
  worker?.terminate();
  worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
  ready = new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => {
      if (data.progress !== undefined) show?.(data.progress);
      else if (data.ready) resolve();
      else if (data.failure) { reject(new Error(data.failure)); lose(`the computation has ended: ${data.failure}`); }
      else finish(data.answer);
    };
    worker.onerror = (event) => reject(new Error(event.message || "the worker cannot be started"));
  });
  ready.catch(() => {});
}

function finish(result) {
  clearTimeout(running?.timer);
  running?.resolve(result);
  running = null;
  next();
}

function lose(error) {
  if (!running) return;
  restart();
  finish({ error });
}

async function next() {
  queue = queue.filter((question) => !question.signal.aborted);
  if (running || !queue.length) return;
  running = queue.shift();
  try {
    await ready;
  } catch (error) {
    finish({ error: `the page cannot compute: ${error.message}` });
    return;
  }
  running.timer = setTimeout(() => lose(`this takes longer than ${SECONDS} seconds; use the package itself for it`), 1000 * SECONDS);
  worker.postMessage(running.body);
}

export async function started(show) {
  restart(show);
  await ready;
}

export function answer(body, signal) {
  return new Promise((resolve) => {
    queue.push({ body, signal, resolve });
    next();
  });
}
