// @ts-check
// Completes the address of a page that was opened from the menu: Streamlit has written its path, and
// what the page shows is added in place, so that Back leads to the page before. Draws nothing.

/** @param {{ data: { page: string, query: string } }} component */
export default function pageAddress({ data }) {
  // An address that says more by now belongs to a later choice.
  if (!location.search && location.pathname.endsWith(`/${data.page}`)) {
    history.replaceState(history.state, "", `${location.pathname}?${data.query}`);
  }
}
