// @ts-check
// The controls of the workbench: menus, switches, segments. Knows elements and text.

import { make } from "../shared/shared.js";

let checkCount = 0;

/**
 * A row of choices of which one is taken.
 * @param {string} name for screen readers
 * @param {(value: string) => void} take
 */
export function segments(name, take) {
  const group = make("div", "segments");
  group.setAttribute("role", "radiogroup");
  group.setAttribute("aria-label", name);
  group.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) take(button.dataset.value);
  });
  group.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    const buttons = [...group.children];
    const at = buttons.indexOf(event.target.closest("button"));
    const next = buttons[(at + step + buttons.length) % buttons.length];
    next.focus();
    take(next.dataset.value);
    event.preventDefault();
  });
  return group;
}

/** Fills a row of choices, and presses the one that is taken. */
export function chooseIn(group, titles, chosen) {
  if (group.dataset.titles !== JSON.stringify(titles)) {
    group.dataset.titles = JSON.stringify(titles);
    group.replaceChildren(...Object.entries(titles).map(([value, title]) => {
      const button = make("button", "", title);
      button.dataset.value = value;
      button.setAttribute("role", "radio");
      return button;
    }));
  }
  for (const button of group.children) {
    const on = button.dataset.value === chosen;
    button.setAttribute("aria-checked", String(on));
    button.tabIndex = on ? 0 : -1;
  }
}

/**
 * A menu with its name before it.
 * @param {string} name
 * @param {(value: string) => void} take
 */
export function menu(name, take) {
  const label = make("label", "menu");
  const select = make("select");
  select.addEventListener("change", () => take(select.value));
  label.append(make("span", "", name), select);
  return { root: label, select };
}

/** Fills a menu; options that cannot be taken now are not offered. */
export function fillMenu({ select }, titles, chosen) {
  const offered = JSON.stringify(titles);
  if (select.dataset.titles !== offered) {
    select.dataset.titles = offered;
    select.replaceChildren(...Object.entries(titles).map(([value, title]) => {
      const option = make("option", "", title);
      option.value = value;
      return option;
    }));
  }
  select.value = chosen;
}

/**
 * A switch with its name behind it.
 * @param {string} name
 * @param {string} help shown where the pointer rests
 * @param {(on: boolean) => void} take
 */
export function check(name, help, take) {
  const label = make("label", "check");
  const box = make("input");
  box.type = "checkbox";
  box.id = `mha-check-${checkCount++}`;
  label.htmlFor = box.id;
  label.title = help;
  box.addEventListener("change", () => take(box.checked));
  label.append(box, name);
  return { root: label, box };
}
