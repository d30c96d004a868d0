// @ts-check
// Keeps the random name that this browser has in a class, until the browser is closed: a page that
// is loaded again is still in the class, and a second vote takes the place of the first. Draws nothing.

/** @param {{ data: { name: string, value: string } }} component */
export default function classCookie({ data: { name, value } }) {
  const cookie = `${name}=${value}`; // another one than before where a teacher's link was opened
  if (!document.cookie.split("; ").includes(cookie)) document.cookie = `${cookie}; path=/; SameSite=Lax`;
}
