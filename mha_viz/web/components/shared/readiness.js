// @ts-check
// Names of what the page is still waiting for. `ready.js` marks the page as ready when there is none.

const MAX_WAIT_MS = 30_000; // ms until a run that was requested is given up: the server is gone perhaps

/** The readiness of this page, which all components share. */
export function readiness() {
  const name = Symbol.for("mha_viz.readiness");
  globalThis[name] ??= { session: "", run: 0, requests: 0, pending: new Set(), onChange: () => {}, sender: null, batches: 0 };
  return globalThis[name];
}

/** Note that a payload or run is under way, or that it has arrived. @param {string} name @param {boolean} isPending */
export function setPending(name, isPending) {
  const { pending, onChange } = readiness();
  if (pending.has(name) === isPending) return;
  if (isPending) pending.add(name);
  else pending.delete(name);
  onChange();
}

/** Note that a run was requested: the page waits for the end of the next one. */
export function expectRun() {
  const state = readiness();
  const name = `run ${(state.requests += 1)}`;
  setPending(name, true);
  setTimeout(() => setPending(name, false), MAX_WAIT_MS);
}

/** Note that a run has ended. @param {string} session @param {number} run its number in that session */
export function endRun(session, run) {
  const state = readiness();
  if (session === state.session && run <= state.run) return;
  Object.assign(state, { session, run });
  for (const name of state.pending) if (name.startsWith("run ")) state.pending.delete(name);
  state.onChange();
}

/** Mark the element of a component as painted, or not yet. @param {any} parent @param {boolean} isPainted */
export function markPainted(parent, isPainted = true) {
  const element = parent.host ?? parent; // of a shadow root
  if (isPainted) element.setAttribute("data-painted", "");
  else element.removeAttribute("data-painted");
}

/**
 * Send a message in a batch without those of other components. Streamlit gathers what is sent until its next timer,
 * and runs for all of it the fragment of the first one: what the others chose would never be confirmed. On a slow
 * machine, timers that are due at different times are called together.
 * @param {any} sender @param {() => void} send
 */
function sendApart(sender, send) {
  setTimeout(() => { // a widget of Streamlit has a batch of its own as well, and it has left by then
    const state = readiness();
    if (state.batches && state.sender !== sender) return sendApart(sender, send);
    Object.assign(state, { sender, batches: state.batches + 1 });
    expectRun(); // a run that has ended meanwhile answers another message
    send();
    setTimeout(() => (state.batches -= 1)); // Streamlit's timer, which was set before, has been called by then
  });
}

/** A component's argument that notes each run that it causes. @param {any} component */
export function observed(component) {
  const sender = component.parentElement ?? component;
  const noting = (/** @type {Function} */ send) => (/** @type {any[]} */ ...values) => {
    expectRun();
    sendApart(sender, () => send(...values));
  };
  const { setTriggerValue, setStateValue } = component;
  return { ...component, setTriggerValue: noting(setTriggerValue), setStateValue: noting(setStateValue) };
}
