// Questions to the server of the page; the static site has a transport of its own.

export const UNAVAILABLE = []; // tabs that this transport cannot answer

export async function started(show) {}

export async function answer(body, signal) {
  try {
    const response = await fetch("api/answer", {
      method: "POST", headers: { "Content-Type": "application/json" }, body, signal,
    });
    return await response.json();
  } catch {
    return { error: "the server does not answer; is it still running?" };
  }
}
