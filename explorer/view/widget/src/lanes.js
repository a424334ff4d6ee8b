// The streams of a GPU over the time of a graph: what computes, what communicates, and the waits between.

import { timeText } from "./costs.js";
import { element, plural, remark, soft } from "./dom.js";
import { grouped } from "./grouped.js";

/** @import { OverlapInfo } from "./wire.js" */
/** @typedef {{ row: OverlapInfo, begins: number, seconds: number, count: number }} Block */

const FINEST = 1500; // blocks narrower than this part of the time are drawn together
const ESTIMATED = "estimated";

export class Lanes {
  /**
   * @param {OverlapInfo[]} rows of one graph
   * @param {(row: OverlapInfo) => void} pick is told of a block that is clicked
   */
  constructor(rows, pick) {
    this.pick = pick;
    const end = endOf(rows);
    this.element = end === null ? remark(unknown(rows)) : this.drawn(rows, end);
  }

  /** @param {OverlapInfo[]} rows @param {number} end */
  drawn(rows, end) {
    const stalls = rows.filter(({ stream, seconds }) => stream === "wait" && seconds);
    const held = stalls.reduce((all, { seconds }) => all + (seconds ?? 0), 0);
    const waiting = stalls.length
      ? `${timeText(held, ESTIMATED)} of it waiting for ${plural(stalls.length, "collective")}`
      : "none of it waiting for a collective";
    const told = `${timeText(end, ESTIMATED)} in all, ${waiting}`;
    return element(
      "div",
      { class: "streams", role: "img", "aria-label": `what runs over the time of the graph: ${told}` },
      remark(`${told}. Launches are taken to cost nothing.`),
      ...streams(rows.filter(({ seconds }) => seconds)).map(([title, mine]) =>
        element(
          "div",
          { class: "stream" },
          soft(title),
          element("div", { class: "stream-lane" }, ...this.blocks(mine, end)),
        ),
      ),
    );
  }

  /** @param {OverlapInfo[]} rows @param {number} end */
  blocks(rows, end) {
    return merged(rows, end / FINEST).map(({ row, begins, seconds, count }) => {
      const took = timeText(seconds, ESTIMATED);
      const made = element("i", {
        class: row.stream,
        title: `${count > 1 ? plural(count, "kernel", "kernels and calls") : titleOf(row)}: ${took}`,
        onclick: () => this.pick(row),
      });
      made.style.left = `${(100 * begins) / end}%`;
      made.style.width = `${(100 * seconds) / end}%`;
      return made;
    });
  }
}

/**
 * The rows of each stream, with what it is called: NCCL has one for each process group.
 *
 * @param {OverlapInfo[]} rows
 */
function streams(rows) {
  const communicating = grouped(
    rows.filter(({ stream }) => stream === "communication"),
    ({ group }) => group,
  );
  const several = communicating.length > 1;
  const computing = rows.filter(({ stream }) => stream !== "communication");
  return [
    ...(computing.length ? [/** @type {[string, OverlapInfo[]]} */ (["computes", computing])] : []),
    ...communicating.map(
      ([group, mine]) =>
        /** @type {[string, OverlapInfo[]]} */ ([several ? `group ${group}` : "communicates", mine]),
    ),
  ];
}

/** @param {OverlapInfo} row */
const titleOf = ({ stream, name, line }) =>
  `${stream === "wait" ? `waits for ${name}` : name}, line ${line} of the output code`;

/**
 * Small blocks of one kind that follow each other, as one.
 *
 * @param {OverlapInfo[]} rows
 * @param {number} least seconds of a block that stands alone
 */
function merged(rows, least) {
  /** @type {Block[]} */
  const blocks = [];
  for (const row of rows) {
    const [begins, seconds] = [row.begins ?? 0, row.seconds ?? 0];
    const before = blocks.at(-1);
    if (before && before.seconds < least && seconds < least && before.row.stream === row.stream) {
      before.seconds = begins + seconds - before.begins;
      before.count += 1;
    } else blocks.push({ row, begins, seconds, count: 1 });
  }
  return blocks;
}

/**
 * When the last of them ends; null where one's time is not known.
 *
 * @param {OverlapInfo[]} rows
 */
function endOf(rows) {
  if (rows.some(({ begins, seconds }) => begins === null || seconds === null)) return null;
  const end = rows.reduce((latest, row) => Math.max(latest, (row.begins ?? 0) + (row.seconds ?? 0)), 0);
  return end || null;
}

/** @param {OverlapInfo[]} rows */
function unknown(rows) {
  const lacking = rows.filter(({ stream, seconds }) => seconds === null && stream !== "wait");
  if (!lacking.length) return "Nothing is known of when these run.";
  return `Not drawn over time: how long ${lacking[0].name} takes is not known.`;
}
