// @ts-check
// Queries and keys of all heads: small maps of all of them beside the large one of the chosen head.

import { LargeMap } from "./large_map.js";
import { MapGrid } from "./map_grid.js";
import { endOf, make, viewOf } from "../shared/shared.js";

class QueryKeyMap {
  constructor(parent) {
    this.root = make("div", "mha query-key-map");
    this.left = make("div", "maps");
    this.grid = new MapGrid(this.left, () => this.large?.draw());
    this.large = new LargeMap(this.grid);
    this.root.append(this.left, this.large.root);
    parent.append(this.root);
    this.resized = new ResizeObserver(() => this.large.draw());
    this.resized.observe(this.large.root);
  }

  update(settings, emit) {
    this.large.root.hidden = Boolean(settings.error);
    this.grid.update(settings, emit);
  }

  close() {
    this.resized.disconnect();
    this.grid.close();
  }
}

export default function queryKeyMap({ parentElement, data, setTriggerValue }) {
  const view = viewOf(parentElement, "queryKeyMap", () => new QueryKeyMap(parentElement));
  view.update(data ?? {}, (head) => setTriggerValue("select", head));
  return endOf(parentElement, "queryKeyMap");
}
