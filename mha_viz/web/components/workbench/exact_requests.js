// @ts-check
// The part of the page through which the workbench requests exact weights, and which sends nothing else. Draws
// nothing.

import { payloadStore } from "../shared/payload_store.js";

export default function exactRequests({ setTriggerValue }) {
  payloadStore().request = (values) => setTriggerValue("view", { view: values });
}
