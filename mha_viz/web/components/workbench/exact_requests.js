// @ts-check
// Lets the workbench request exact weights from the part of the page that sends nothing else. Draws
// nothing.

import { payloadStore } from "../shared/payload_store.js";

export default function exactRequests({ setTriggerValue }) {
  payloadStore().request = (values) => setTriggerValue("view", { view: values });
}
