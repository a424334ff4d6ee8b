// Bundle the front end into static/explorer.js, and write static/LICENSES.txt: the licences of the packages that
// are in the bundle, which have to go with it.

import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { build, transform } from "esbuild";

const HERE = "explorer/view/widget";
const PACKAGE = /^node_modules\/((?:@[^/]+\/)?[^/]+)/;
const LICENSE = /^licen[cs]e/i;

/**
 * The style sheet is a text of the bundle, without its comments and the room between its rules. Nearly every
 * rule begins with the class of the view, so all of them are nested in one rule for it: that is 6 KB.
 */
const smallCss = {
  name: "small css",
  /** @param {import("esbuild").PluginBuild} bundling */
  setup: (bundling) =>
    bundling.onLoad({ filter: /\.css$/ }, async ({ path }) => {
      const { code } = await transform(readFileSync(path, "utf8"), { loader: "css", minify: true });
      const [, host, rules] = /^(:host\{.*?\})(.*?)\s*$/s.exec(code) ?? [];
      const nested = rules.replaceAll(".explorer ", "").replaceAll(".explorer", "&");
      return { contents: `${host}.explorer{${nested}}`, loader: "text" };
    }),
};

/**
 * Long names that CodeMirror keeps to itself: no style, string or page names these properties, so a letter or
 * two says as much. That is 6 KB.
 */
const OF_CODEMIRROR = [
  ...["inputState", "viewState", "heightOracle", "tooltipViews", "docView", "startSide", "endSide"],
  ...["chunkIndex", "pixelViewport", "delayedAndroidKey", "pendingContextChange", "startState"],
  ...["compositionFirstChange", "measureScheduled", "scrollTarget", "selectionsAfter", "heightMap"],
  ...["measureRequests", "mouseSelection", "compositionPendingChange", "mustMeasureContent", "isWidget"],
  ...["mustEnforceCursorAssoc", "scrollAnchorHeight", "draggedContent", "domAfter", "hasComposition"],
];

const { metafile } = await build({
  entryPoints: [`${HERE}/src/index.js`],
  bundle: true,
  minify: true,
  mangleProps: new RegExp(`^(?:${OF_CODEMIRROR.join("|")})$`),
  format: "esm",
  target: "es2022",
  charset: "utf8",
  loader: { ".tsv": "text" },
  legalComments: "none",
  outfile: `${HERE}/static/explorer.js`,
  metafile: true,
  plugins: [smallCss],
  logLevel: "warning",
});

const packages = new Set(Object.keys(metafile.inputs).flatMap((input) => PACKAGE.exec(input)?.[1] ?? []));
const licenses = [...packages].sort().map((name) => {
  const folder = `node_modules/${name}`;
  const file = readdirSync(folder).find((each) => LICENSE.test(each));
  if (!file) throw new Error(`${name} has no licence: look where it says under which terms it is used`);
  return `${name}\n\n${readFileSync(`${folder}/${file}`, "utf8").trim()}\n`;
});
const about = "explorer.js, beside this file, has code of these packages in it.\n";
writeFileSync(`${HERE}/static/LICENSES.txt`, [about, ...licenses].join(`\n${"-".repeat(80)}\n\n`));
