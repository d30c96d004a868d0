// @ts-check
// What runs on the pages of an atlas: their data lie in the page, those of texts in files beside it.

import { AtlasHead } from "./atlas_head.js";
import { AtlasIndex } from "./atlas_index.js";

export default function atlas() {
  const data = JSON.parse(document.getElementById("atlas-data").textContent);
  return data.quantities ? new AtlasIndex(data) : new AtlasHead(data);
}
