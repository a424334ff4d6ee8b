// What broke and what was compiled again, as a tree: the line that called a function, the frame compiled for
// it, what happened there, and the calls from there.

import { baseName, element, firstOf, link } from "./dom.js";
import { grouped } from "./grouped.js";
import { compiledSource, functionNumber } from "./tree.js";

/** @import { Navigation } from "./navigation.js" */
/** @import { Store } from "./store.js" */
/** @import { ArtifactInfo, GraphBreak, Recompile } from "./wire.js" */
/** @typedef {{ called_file: string, called_line: number, called_code: string }} Call of a compile_call */
/**
 * What a source says of its function.
 *
 * @typedef {{ qualname: string, file: string, first_line: number, resume: boolean, compiled: boolean }} Code
 */
/** @typedef {{ sign: string, text: string, code: string, index: number }} Happened a break or a guard */
/**
 * A compile of a frame: its source, what happened, the sites that it calls from, and the resume functions
 * that go on after its breaks.
 *
 * @typedef {{
 *   id: string,
 *   name: string,
 *   source: number,
 *   happened: Happened[],
 *   sites: Site[],
 *   resumed: Compile[],
 * }} Compile
 */
/** @typedef {{ place: string, code: string, index: number, compiles: Compile[] }} Site a line that calls */
/** @typedef {Map<string, number[]>} Indices of texts, by a frame, the number of a function, or a place */
/**
 * The texts that tell who called whom, found once: a trace may have thousands of compiles.
 *
 * @typedef {{
 *   artifacts: ArtifactInfo[],
 *   sources: Indices,
 *   sourcesOfFunction: Indices,
 *   sourcesOfFile: Indices,
 *   calls: Indices,
 *   callsOfFunction: Indices,
 *   breaks: Indices,
 * }} Texts
 */

/** How many guards of one recompile, and how many compiles of one function, are listed at first. */
export const MOST_GUARDS = 3;
export const MOST_VERSIONS = 100;
const RESUMED = /resume_in_(.+)_at_(\d+)(?:_\d+)?$/; // the function and the line in a resume function's name

/**
 * The sites that called what was compiled, outermost first; without those where nothing happened, or of
 * which nothing is known that the cards of breaks and recompiles do not say.
 *
 * @param {Store} store
 * @returns {Site[]}
 */
export function callTree(store) {
  const { artifacts } = store.payload;
  const texts = textsOf(artifacts);
  /** @type {Map<string, Compile>} */
  const compiles = new Map();
  /** @type {Site[]} */
  const roots = [];
  for (const [frame, own] of grouped([...artifacts.keys()], (index) => artifacts[index].frame)) {
    const happened = own.flatMap((index) => events(artifacts[index], index));
    const source = sourceOf(texts, frame);
    if (source < 0) continue;
    const named = compiledSource(store.sourcesOf(functionNumber(frame)), frame) ?? artifacts[source];
    const name = codeOf(named).qualname || named.title;
    compiles.set(frame, { id: frame, name, source, happened, sites: [], resumed: [] });
  }
  for (const compile of compiles.values()) {
    const before = resumedFrom(texts, compile, compiles);
    if (before) before.resumed.push(compile);
    else siteOf(texts, compile, compiles, roots).compiles.push(compile);
  }
  return roots.filter((site) => prune(site) && saysWho(site));
}

/**
 * @param {ArtifactInfo[]} artifacts
 * @returns {Texts}
 */
function textsOf(artifacts) {
  /** @param {string} stage */
  const of = (stage) => [...artifacts.keys()].filter((index) => artifacts[index].stage === stage);
  const [sources, calls, breaks] = ["source", "compile_call", "graph_break"].map(of);
  const compiled = sources.filter((index) => {
    const { data } = artifacts[index];
    return data.compiled !== false && data.inlined !== true;
  });
  /** @param {number[]} list @param {(a: ArtifactInfo) => string} key */
  const by = (list, key) => new Map(grouped(list, (index) => key(artifacts[index])));
  /** @param {ArtifactInfo} a */
  const number = (a) => functionNumber(a.frame);
  return {
    artifacts,
    sources: by(compiled, ({ frame }) => frame),
    sourcesOfFunction: by(compiled, number),
    sourcesOfFile: by(sources, ({ data }) => String(data.file)),
    calls: by(calls, ({ frame }) => frame),
    callsOfFunction: by(calls, number),
    breaks: by(breaks, ({ data }) => `${data.file}:${data.line}`),
  };
}

/**
 * The source of a frame, or that of another compile of it: where a limit is reached there is none.
 *
 * @param {Texts} texts
 * @param {string} frame
 */
const sourceOf = ({ sources, sourcesOfFunction }, frame) =>
  (sources.get(frame) ?? sourcesOfFunction.get(functionNumber(frame)))?.[0] ?? -1;

/** @param {ArtifactInfo} a */
const codeOf = (a) => /** @type {Partial<Code>} */ (a.data);

/**
 * @param {ArtifactInfo} a
 * @param {number} index
 * @returns {Happened[]}
 */
function events(a, index) {
  if (a.stage === "graph_break") {
    const { file, line, reason } = /** @type {Partial<GraphBreak>} */ (a.data);
    return [
      { sign: "⚠", text: `graph break at ${baseName(file ?? "")}:${line}: ${reason}`, code: "", index },
    ];
  }
  if (a.stage !== "recompile") return [];
  return recompilesOf(a).map(({ earlier, guard }) =>
    earlier
      ? { sign: "↻", text: `a guard of ${earlier} failed:`, code: bare(guard), index }
      : { sign: "↻", text: guard, code: "", index },
  );
}

/**
 * What a recompile says: each earlier compile of the function, with the guard that failed.
 *
 * @param {ArtifactInfo} a
 */
export const recompilesOf = (a) => /** @type {Recompile[]} */ (/** @type {object[]} */ (a.rows ?? []));

/**
 * A guard without the user's line and the stack behind it.
 *
 * @param {string} guard
 */
export const bare = (guard) => guard.split("\n")[0].split("  # ")[0].trim();

/**
 * The compile after whose break a resume function goes on: the last before it, of the function in its name,
 * that broke at the line in its name.
 *
 * @param {Texts} texts
 * @param {Compile} compile
 * @param {Map<string, Compile>} compiles
 * @returns {Compile | null}
 */
function resumedFrom({ artifacts, breaks }, compile, compiles) {
  const { file, resume } = codeOf(artifacts[compile.source]);
  const at = Number(RESUMED.exec(compile.name)?.[2]);
  if (!resume || !at) return null;
  const broke = (breaks.get(`${file}:${at}`) ?? [])
    .flatMap((index) => compiles.get(artifacts[index].frame) ?? [])
    .filter((one) => one.source < compile.source && functionOf(one.name) === functionOf(compile.name));
  return broke.sort((one, other) => one.source - other.source).at(-1) ?? null;
}

/** @param {string} name of a function, or of one that goes on in it */
const functionOf = (name) => RESUMED.exec(name)?.[1] ?? name.replace(/^.*\./s, "");

/**
 * The site that called a frame: in the frame whose source has the line, else in what is not compiled.
 *
 * @param {Texts} texts
 * @param {Compile} compile
 * @param {Map<string, Compile>} compiles
 * @param {Site[]} roots
 * @returns {Site}
 */
function siteOf(texts, compile, compiles, roots) {
  const { artifacts, sourcesOfFile } = texts;
  const index = callOf(texts, compile.id);
  const {
    called_file: file = "",
    called_line: line = 0,
    called_code: code = "",
  } = /** @type {Partial<Call>} */ (artifacts[index]?.data ?? {});
  const around = (sourcesOfFile.get(file) ?? []).findLast((at) => {
    const { first_line: first = 0 } = codeOf(artifacts[at]);
    const isBefore = at < compile.source && line >= first && line < first + artifacts[at].lines;
    return isBefore && functionNumber(artifacts[at].frame) !== functionNumber(compile.id);
  });
  const sites = compiles.get(around === undefined ? "" : artifacts[around].frame)?.sites ?? roots;
  const place = file ? `${file}:${line}` : "";
  const known = sites.find((site) => site.place === place);
  if (known) return known;
  const site = { place, code, index, compiles: [] };
  sites.push(site);
  return site;
}

/**
 * The text of the call that began a compile. Where a limit is reached nothing is compiled, and there is none:
 * then that of the compiles of the same function, if all were called from one line.
 *
 * @param {Texts} texts
 * @param {string} id
 */
function callOf({ artifacts, calls, callsOfFunction }, id) {
  const own = calls.get(id);
  if (own) return own[0];
  const others = callsOfFunction.get(functionNumber(id)) ?? [];
  const places = others.map((index) =>
    JSON.stringify([artifacts[index].data.called_file, artifacts[index].data.called_line]),
  );
  return new Set(places).size === 1 ? others[0] : -1;
}

/**
 * Whether a site says who called, or what became of its compiles; the cards say all else.
 *
 * @param {Site} site
 */
const saysWho = ({ place, compiles }) =>
  place !== "" || compiles.some(({ sites, resumed }) => sites.length + resumed.length > 0);

/**
 * Leave out the compiles below which nothing happened; false where none is left.
 *
 * @param {Site} site
 */
function prune(site) {
  /** @param {Compile} compile @returns {boolean} */
  const keeps = (compile) => {
    compile.sites = compile.sites.filter((one) => prune(one));
    compile.resumed = compile.resumed.filter(keeps);
    return compile.happened.length + compile.sites.length + compile.resumed.length > 0;
  };
  site.compiles = site.compiles.filter(keeps);
  return site.compiles.length > 0;
}

// The tree on the screen ------------------------------------------------------------------------------------

/**
 * The tree as nested lists, each entry with a button that leads there; null where nothing happened.
 *
 * @param {Store} store
 * @param {Navigation} navigation
 */
export function callTreeList(store, navigation) {
  const roots = callTree(store);
  if (!roots.length) return null;
  /** @param {string} text @param {number} index @param {string} [about] */
  const linked = (text, index, about) =>
    index < 0 ? text : link(text, () => navigation.goTo(index), { title: about });
  /** @param {Site} site @returns {HTMLElement} */
  const siteItem = ({ place, code, index, compiles }) =>
    element(
      "li",
      {},
      place ? ["called at ", linked(baseName(place), index, place), " "] : "caller unknown",
      code ? element("code", {}, code) : null,
      element("ul", {}, ...firstOf(compiles, MOST_VERSIONS, (one) => compileItem(one))),
    );
  /** @param {Compile} compile @param {string} [how] @returns {HTMLElement} */
  const compileItem = ({ id, name, source, happened, sites, resumed }, how = "") =>
    element(
      "li",
      {},
      how,
      linked(`${id} ${name}`, source),
      element(
        "ul",
        {},
        ...firstOf(happened, MOST_GUARDS, ({ sign, text, code, index }) =>
          element("li", {}, `${sign} `, linked(text, index), code ? [" ", element("code", {}, code)] : null),
        ),
        ...resumed.map((one) => compileItem(one, "goes on in ")),
        ...sites.map(siteItem),
      ),
    );
  return element("ul", { class: "call-tree", "aria-label": "by call" }, ...roots.map(siteItem));
}
