// Light or dark: as the notebook says, else VS Code, else the system. `data-theme` on the element follows it.

function isDark() {
  const { body } = document;
  if (body.dataset.jpThemeLight) return body.dataset.jpThemeLight === "false";
  if (body.className.includes("vscode-")) return /vscode-(dark|high-contrast(?!-light))/.test(body.className);
  if (document.documentElement.getAttribute("theme") === "dark") return true; // Colab
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

/**
 * Keep `element.dataset.theme` right and call `changed` after each change; the returned function ends it.
 *
 * @param {HTMLElement} element
 * @param {() => void} changed
 * @returns {() => void}
 */
export function followTheme(element, changed) {
  const apply = () => {
    const theme = isDark() ? "dark" : "light";
    if (element.dataset.theme === theme) return;
    element.dataset.theme = theme;
    changed();
  };
  const observer = new MutationObserver(apply);
  observer.observe(document.body, {
    attributes: true,
    attributeFilter: ["class", "data-jp-theme-light", "data-jp-theme-name"],
  });
  observer.observe(document.documentElement, { attributes: true, attributeFilter: ["theme"] });
  const system = matchMedia("(prefers-color-scheme: dark)");
  system.addEventListener("change", apply);
  apply();
  return () => {
    observer.disconnect();
    system.removeEventListener("change", apply);
  };
}
