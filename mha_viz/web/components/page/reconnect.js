// @ts-check
// Requests the page again after a lost connection: Streamlit keeps what is drawn, and
// a server that was started anew would not know the page, nor hear its first click. And keeps the
// texts that are too long for the page's address, also where the page is loaded again. Draws nothing.
// It stays on the page, and so watches its menus, too.

import { watchMenus } from "./menu_landmarks.js";

const STATE = "data-test-connection-state"; // Streamlit's own word for it, on the whole app
const KEPT = "mha_viz texts"; // in the tab's own storage, which ends with the tab
const MOST = 60; // times that texts are sent: two minutes, for a server that is kept busy
// The second may come only once the next page is there, where that has a process of its own.
const LEAVING = ["beforeunload", "pagehide"];
const WAYS = ["navigate", "reload", "back_forward"]; // in which a page is loaded, by older numbers
const AGAIN = 2000; // ms; a run that a newer one overtakes may not have heard of what was sent

/** @typedef {{ session: string, after: string, texts: Record<string, string> }} Message of the server */

class Reconnect {
  constructor() {
    const kept = takeKept();
    /** @type {Record<string, string>} */
    this.texts = kept?.texts ?? {}; // that stand on the page and not in its address
    /** @type {string | null} */
    this.session = kept?.session ?? null; // of the server, as it named it
    this.kept = kept; // and not taken by the server yet
    this.timer = 0;
    this.sent = 0; // times
    /** @type {(held: object) => void} */
    this.send = () => {}; // to the server
    this.calls = 0;
    this.menus = watchMenus();
    const app = document.querySelector(`[${STATE}]`);
    let before = app?.getAttribute(STATE);
    this.observer = new MutationObserver(() => {
      const now = app?.getAttribute(STATE);
      if (now === "CONNECTED" && before !== now) this.sendState();
      before = now;
    });
    if (app) this.observer.observe(app, { attributes: true, attributeFilter: [STATE] });
    this.leave = () => keep(this.session, this.texts);
    for (const event of LEAVING) addEventListener(event, this.leave);
  }

  sendState(search = location.search) {
    const params = Object.fromEntries(new URLSearchParams(search));
    const at = performance.now(); // what says the same is not sent again
    this.send({ session: this.session, params, texts: this.texts, at });
  }

  /** @param {Message} message */
  receive({ session, after, texts }) {
    // A new session, which has not heard of the texts yet, would say that there are none.
    const knows = this.session === null || [session, after].includes(this.session);
    if (knows || Object.keys(texts).length > 0) Object.assign(this, { session, texts });
    if (this.kept && [session, after].includes(this.kept.session)) {
      this.kept = null;
      keep(null, {});
    }
    if (!this.timer) this.sendKept();
  }

  sendKept() {
    clearTimeout(this.timer);
    this.timer = 0;
    if (!this.kept || (this.sent += 1) > MOST) return;
    this.sendState(this.kept.search);
    this.timer = setTimeout(() => this.sendKept(), AGAIN);
  }

  end() {
    clearTimeout(this.timer);
    this.observer.disconnect();
    this.menus.disconnect();
    for (const event of LEAVING) removeEventListener(event, this.leave);
  }
}

/** Leave the texts to the page that is loaded next at this address.
 * @param {string | null} session @param {Record<string, string>} texts */
function keep(session, texts) {
  try {
    if (Object.keys(texts).length === 0) sessionStorage.removeItem(KEPT);
    else {
      const { pathname, search } = location;
      sessionStorage.setItem(KEPT, JSON.stringify({ pathname, search, session, texts }));
    }
  } catch {
    // There is no storage, or no room in it: such a page begins with what its address says.
  }
}

/** What was left to this page, if it was loaded again or gone back to; a link begins anew. It stays
 * there until the server has it: Streamlit may end this component and begin it again before.
 * @returns {{ search: string, session: string, texts: Record<string, string> } | null} */
function takeKept() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(KEPT) ?? "null");
    const [entry] = performance.getEntriesByType("navigation");
    const loaded = /** @type {PerformanceNavigationTiming | undefined} */ (entry);
    // Now and then Chromium has no such entry for a page that was loaded again.
    const type = loaded?.type ?? WAYS[performance.navigation.type];
    // The server may have changed the page's address since.
    const { pathname, search } = new URL(loaded?.name ?? location.href);
    const same = kept?.pathname === pathname && kept?.search === search;
    return same && type !== "navigate" ? kept : null;
  } catch {
    return null; // no storage, or a browser that does not say how it came here
  }
}

/** @param {{ parentElement: any, data: Message, setTriggerValue: Function }} component */
export default function reconnect({ parentElement, data, setTriggerValue }) {
  const view = (parentElement.mhaReconnect ??= new Reconnect());
  view.send = (held) => setTriggerValue("held", held);
  view.receive(data);
  const call = (view.calls += 1);
  return () => {
    if (view.calls !== call) return; // Streamlit's late end of a call that a newer one has overtaken
    view.end();
    delete parentElement.mhaReconnect;
  };
}
