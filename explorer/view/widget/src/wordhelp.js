// What a word is, under the pointer or, by F1, at the caret: one line and a link to its documentation.

import { element } from "./dom.js";
import { explanation } from "./words.js";

/**
 * What is known of a word, null where nothing is.
 *
 * @param {string} language
 * @param {string} word
 */
export function wordHelp(language, word) {
  const known = word ? explanation(language, word) : null;
  if (!known) return null;
  const attributes = { href: known.link, target: "_blank", rel: "noopener noreferrer" };
  return element(
    "p",
    { class: "word-help" },
    element("code", {}, word),
    ` ${known.about} `,
    element("a", attributes, "documentation"),
  );
}
