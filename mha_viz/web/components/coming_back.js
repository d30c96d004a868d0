// @ts-check
// Asks for the page again once a lost connection is there again: Streamlit keeps what is drawn, and
// a server that was started anew would not know the page, nor hear its first click. Draws nothing.

const STATE = "data-test-connection-state"; // Streamlit's own word for it, on the whole app

class ComingBack {
  constructor() {
    /** @type {object | null} */
    this.texts = null; // that stand on the page and not in its address
    /** @type {(held: object) => void} */
    this.say = () => {}; // to the server
    this.calls = 0;
    const app = document.querySelector(`[${STATE}]`);
    let before = app?.getAttribute(STATE);
    this.observer = new MutationObserver(() => {
      const now = app?.getAttribute(STATE);
      if (now === "CONNECTED" && before !== now) this.ask();
      before = now;
    });
    if (app) this.observer.observe(app, { attributes: true, attributeFilter: [STATE] });
  }

  ask() {
    this.say({ texts: this.texts, at: performance.now() }); // what says the same is not sent again
  }
}

/** @param {{ parentElement: any, data: { texts: object | null }, setTriggerValue: Function }} component */
export default function comingBack({ parentElement, data, setTriggerValue }) {
  const view = (parentElement.mhaComingBack ??= new ComingBack());
  view.texts = data.texts ?? view.texts; // null: a new session, which knows of none
  view.say = (held) => setTriggerValue("held", held);
  const call = (view.calls += 1);
  return () => {
    if (view.calls !== call) return; // Streamlit's late end of a call that a newer one has overtaken
    view.observer.disconnect();
    delete parentElement.mhaComingBack;
  };
}
