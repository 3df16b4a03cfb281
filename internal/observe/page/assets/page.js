/** The page's beginning: it asks what launch shows, a job or a search, and starts the modules for that alone. */

import { byId } from "./dom.js";
import { startKeys } from "./keys.js";
import { connection, live, notice } from "./shell.js";

const FIRST_RETRY_MS = 1000;
const LAST_RETRY_MS = 15000;

async function begin(retry) {
  let page;
  try {
    const answer = await fetch("/api/page", { cache: "no-store" });
    if (answer.status === 401 || answer.status === 403) {
      connection({ connected: false, refused: true, since: Date.now() });
      return;
    }
    if (!answer.ok) throw new Error(`launch answered ${answer.status}`);
    page = await answer.json();
  } catch (error) {
    live("bad", "no connection");
    notice("connection", "bad", `Launch does not answer (${error.message}). Trying again.`);
    setTimeout(begin, retry, Math.min(2 * retry, LAST_RETRY_MS));
    return;
  }
  notice("connection");
  const { start } = await (page.kind === "search" ? import("./search.js") : import("./job.js"));
  start(page, byId("main"));
}

startKeys();
begin(FIRST_RETRY_MS);
