/**
 * The stream of server-sent events. A lost connection is opened again, after 1 s, then 2 s, 4 s and so on up to 15 s, and at once when the page comes to the
 * front or the network is back. The server begins each connection with the whole state, so that nothing is missed.
 */

const FIRST_RETRY_MS = 1000;
const LAST_RETRY_MS = 15000;

/**
 * openStream calls on[NAME](data) for each event of the name with its JSON document. onConnection gets {connected, since}: since when nothing came, in the
 * browser's Unix milliseconds; and {refused: true} where the server no longer knows this browser. The event "end" is the last one.
 */
export function openStream(url, { on, onConnection }) {
  let source = null;
  let timer = 0;
  let retry = FIRST_RETRY_MS;
  let since = Date.now();
  let over = false;

  function open() {
    clearTimeout(timer);
    source = new EventSource(url);
    for (const [name, handle] of Object.entries(on)) {
      source.addEventListener(name, (event) => {
        const data = JSON.parse(event.data);
        retry = FIRST_RETRY_MS;
        since = Date.now();
        onConnection({ connected: true, since });
        if (name === "end") close();
        handle(data);
      });
    }
    source.onerror = () => {
      source.close();
      source = null;
      if (over) return;
      onConnection({ connected: false, since });
      timer = setTimeout(open, retry * (0.8 + 0.4 * Math.random()));
      retry = Math.min(2 * retry, LAST_RETRY_MS);
      askWhetherRefused();
    };
  }

  // An EventSource does not say why it failed; another request does.
  async function askWhetherRefused() {
    try {
      const answer = await fetch("/api/page", { cache: "no-store" });
      if (answer.status === 401 || answer.status === 403) {
        close();
        onConnection({ connected: false, refused: true, since });
      }
    } catch {
      // The server is not there. The timer tries again.
    }
  }

  function close() {
    over = true;
    clearTimeout(timer);
    source?.close();
  }

  function now() {
    if (source === null && !over) {
      retry = FIRST_RETRY_MS;
      open();
    }
  }

  document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && now());
  addEventListener("online", now);
  open();
  return { close };
}
