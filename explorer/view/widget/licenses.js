// Write static/LICENSES.txt: the licences of the packages that are in the bundle, which have to go with it.
// esbuild says in a metafile what it took from where.

import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { argv } from "node:process";

const PACKAGE = /^node_modules\/((?:@[^/]+\/)?[^/]+)/;
const LICENSE = /^licen[cs]e/i;

const { inputs } = JSON.parse(readFileSync(argv[2], "utf8"));
const packages = new Set(Object.keys(inputs).flatMap((input) => PACKAGE.exec(input)?.[1] ?? []));
const licenses = [...packages].sort().map((name) => {
  const folder = `node_modules/${name}`;
  const file = readdirSync(folder).find((each) => LICENSE.test(each));
  if (!file) throw new Error(`${name} has no licence: look where it says under which terms it is used`);
  return `${name}\n\n${readFileSync(`${folder}/${file}`, "utf8").trim()}\n`;
});
const about = "explorer.js, beside this file, has code of these packages in it.\n";
writeFileSync("explorer/view/widget/static/LICENSES.txt", [about, ...licenses].join(`\n${"-".repeat(80)}\n\n`));
