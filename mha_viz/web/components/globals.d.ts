// What the browser's modules find around them, for `tsc`: nothing of it is sent to a browser.

/** The tables of mha_viz/web/theme.py; Python puts them in front of a component's script. */
declare const PALETTE: {
  sequential: Record<"light" | "dark", string[]>;
  qualitative: Record<"light" | "dark", string[]>;
  accent: Record<"light" | "dark", string>;
  missing: Record<"light" | "dark", string>;
  ink: Record<"light" | "dark", string>;
  ticks: Record<string, number[]>;
  logGain: number;
  [scale: string]: any;
};

/** The name of a component whose script comes in an element of its own; see LateComponent. */
declare const COMPONENT: string;

/** What draws that component. */
declare const DRAW: (component: any) => (() => void) | void;
