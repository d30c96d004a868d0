// @ts-check
// Choices on their way to Python: those not sent yet, and those sent but not confirmed. Draws nothing.

import { setPending } from "../shared/readiness.js";

export class ChoiceOutbox {
  constructor() {
    /** Choices that wait until no further one follows. @type {Record<string, any>} */
    this.unsent = {};
    /** @type {Record<string, any>} */
    this.unconfirmed = {};
    /** Name of the last message, until Python has confirmed it. @type {string | null} */
    this.messageId = null;
    /** The function that sends a message to Python. @type {((message: any) => void) | null} */
    this.send = null;
  }

  /** Start over: Python has received none of the last choices of a page that was left. */
  clear() {
    this.messageId = null;
    this.unsent = {};
    this.unconfirmed = {};
    this.notePending();
  }

  /** The page is not ready while Python has not received every choice. */
  notePending() {
    const isSent = !this.send || !(Object.keys(this.unsent).length || Object.keys(this.unconfirmed).length);
    setPending("choices", !isSent);
  }

  /**
   * Note the last message that Python received.
   * @param {{ heard?: string | null, view?: any }} settings
   * @returns {boolean} whether their view has every choice; else it is out of date
   */
  confirm({ heard, view }) {
    const isReceived = this.messageId === null || heard === this.messageId;
    if (isReceived) this.unconfirmed = {};
    const isCurrent = isReceived && !Object.keys(this.unsent).length && Boolean(view);
    if (isCurrent) this.messageId = null;
    this.notePending();
    return isCurrent;
  }

  /** @param {Record<string, any>} values */
  add(values) {
    Object.assign(this.unsent, values);
    this.notePending();
  }

  /** Forget a choice. @param {string} name */
  drop(name) {
    delete this.unsent[name];
    delete this.unconfirmed[name];
  }

  /** Send all choices that are not confirmed. */
  flush() {
    if (!Object.keys(this.unsent).length || !this.send) return;
    this.messageId = Math.random().toString(36).slice(2);
    // A busy server drops a waiting message for the next one: so each repeats what is not confirmed.
    this.unconfirmed = { ...this.unconfirmed, ...this.unsent };
    this.unsent = {};
    this.send({ id: this.messageId, view: inAddress(this.unconfirmed) });
  }
}

/** Choices in the words of an address, which Python reads with the same functions. @param {Record<string, any>} values */
export const inAddress = (values) => Object.fromEntries(Object.entries(values).map(([name, value]) => [name, inWords(value)]));

function inWords(value) {
  if (typeof value === "boolean") return value ? "1" : "0";
  if (Array.isArray(value)) return value.map((pair) => pair.join(".")).join(",");
  return String(value);
}
