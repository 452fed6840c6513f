// Runs the package on Pyodide. A message is a request in JSON, as the server takes them; its answer is one, too.

import { loadPyodide } from "./pyodide/pyodide.mjs";
import temml from "./temml.mjs";

const NUMERICAL = ["numbers", "check"]; // these need NumPy, which takes longer to load than all else

const progress = (part) => postMessage({ progress: part });

async function packages() {
  const response = await fetch("packages.zip");
  if (!response.ok) throw new Error(`packages.zip: ${response.status}`);
  return new Uint8Array(await response.arrayBuffer());
}

async function start() {
  progress(0.05);
  const [python, archive] = await Promise.all([loadPyodide({ indexURL: "./pyodide/" }), packages()]);
  progress(0.6);
  python.FS.writeFile("/packages.zip", archive);
  python.runPython("import sys; sys.path.insert(0, '/packages.zip'); import sympy");
  progress(0.85);
  return { python, answer: python.runPython("from sympy_tensordiff.app.web.answers import answer_text; answer_text") };
}

const MACROS = { "\\bmod": "\\:\\text{mod}\\:" }; // Temml has no space around it in subscripts
const typeset = (latex) => temml.renderToString(latex, { displayMode: true, macros: { ...MACROS } });

const answers = start();
answers.then(() => postMessage({ ready: true }), (error) => postMessage({ failure: String(error.message ?? error) }));

onmessage = async ({ data }) => {
  try {
    const { python, answer } = await answers;
    const numerical = NUMERICAL.includes(JSON.parse(data).want);
    if (numerical && !python.loadedPackages.numpy) await python.loadPackage("numpy", { messageCallback: () => {} });
    postMessage({ answer: JSON.parse(answer(data, typeset)) });
  } catch (error) { // of Pyodide, as for want of memory: the page starts another worker
    postMessage({ failure: String(error.message ?? error).trim().split("\n").pop() });
  }
};
