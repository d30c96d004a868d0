// @ts-check
// Brings a payload into the page's store and draws nothing. An element of its own: its message
// stays the same while selection and scale change, so Streamlit does not send the bytes again.

import { putPayload } from "../shared/shared.js";

export default function payloadCarrier({ data }) {
  try {
    putPayload(data);
  } catch {
    // The element that waits for this payload says what is wrong.
  }
}
