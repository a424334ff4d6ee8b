// The edits of kernels and of output code as a view knows them: drafts that were not run yet, edits that
// Python has tried, and which text is under way.

/** @import { Parts } from "./app.js" */
/** @import { Progress, EditInfo } from "./wire.js" */

/**
 * What is kept for a view that comes after this one: drafts by the id of their text, and in which pane each
 * is edited. Beside a draft stands the text that it is an edit of: the program may be another one by then.
 *
 * @typedef {{ drafts: [id: string, text: string, original: string][], open: [string, string][] }} Drafts
 */

const FORMS = ["kernel", "ttir", "ttgir", "llir", "ptx"]; // what `Kernel.edit` takes
const WHOLE = "output_code"; // what `t.live.edit` takes
const SECOND = 1000;
const SAVED =
  "This is a saved trace. To edit it, trace the program again in a notebook: explorer.trace(f, x)";
const SEVERAL = "Several traces are shown; edit in the view of one: explorer.show(t)";

export class Edits {
  /** @param {Pick<Parts, "store" | "hub" | "live">} parts */
  constructor({ store, hub, live }) {
    this.store = store;
    this.hub = hub;
    this.live = live;
    /** @type {Map<string, string>} */
    this.drafts = new Map();
    /** @type {Drafts["drafts"]} drafts of another view, of texts that this one does not have yet */
    this.restored = [];
    /** @type {Map<string, string>} the name of the pane in which each text is edited */
    this.open = new Map();
    this.asked = ""; // the id of the text that is under way, "" for none
    this.began = 0;
    this.timer = 0;
    /** @type {Map<string, string>} what there is to say of a text beyond its edits */
    this.notes = new Map();
    /** @type {Map<string, number>} the last edit of each text when the original was put back in its place */
    this.undone = new Map();
    hub.on("progress", (progress) => this.progress(progress));
    hub.on("grown", () => this.takeUp());
    hub.on("process", () => {
      if (this.asked && !live.attached) this.answered(live.ended || "the process is gone", null);
      hub.tell("edited", null);
    });
  }

  /** @returns {EditInfo[]} */
  get all() {
    return this.live.edits;
  }

  /**
   * Whether a text is one that can be edited where its trace is live.
   *
   * @param {number} index
   */
  takes(index) {
    const { stage, kernel } = this.store.artifact(index);
    return (FORMS.includes(stage) && kernel !== "") || stage === WHOLE;
  }

  /** @returns {string} why nothing can be edited now, "" where it can */
  get refusal() {
    if (this.store.payload.comparison) return SEVERAL;
    return this.live.attached ? "" : this.live.ended || SAVED;
  }

  /**
   * The edits of a text, in the order in which they were made.
   *
   * @param {string} id
   */
  of(id) {
    return this.all.filter(({ artifact }) => artifact === id);
  }

  /**
   * The last edit of a text, whose verdict is shown; null where the original was put back after it, and where
   * the draft is the original again, over which the verdict on another text would be wrong.
   *
   * @param {string} id
   */
  latest(id) {
    const last = this.of(id).at(-1);
    if (!last || last.number === this.undone.get(id)) return null;
    const isOfDraft = this.drafts.has(id) || last.text === this.original(id);
    return last.stands || (isOfDraft && last.status !== "in place") ? last : null;
  }

  /**
   * The edit that runs in the place of output code, or of the kernel of a text; undefined for the
   * original.
   *
   * @param {number} index
   */
  standing(index) {
    const text = this.store.artifact(index);
    if (text.stage === WHOLE) return this.of(text.id).find(({ stands }) => stands);
    if (!text.kernel || !this.all.length) return undefined;
    return this.all.find(({ stands, kernel }) => {
      const source = stands ? this.store.byId.get(kernel) : undefined;
      if (source === undefined) return false;
      const { kernel: name, frame, graph } = this.store.artifact(source);
      return name === text.kernel && frame === text.frame && graph === text.graph;
    });
  }

  /** @param {string} id @param {string} text @param {boolean} [unchecked] */
  run(id, text, unchecked = false) {
    if (this.asked || !this.live.attached) return;
    this.begin(id, "trying the edit …");
    this.live.ask({ ask: "edit", artifact: id, text, unchecked });
  }

  /** @param {string} id */
  reset(id) {
    if (this.asked || !this.live.attached) return;
    this.begin(id, "putting the original back …");
    this.live.ask({ ask: "reset", artifact: id });
  }

  /** @param {string} id @param {string} note */
  begin(id, note) {
    this.asked = id;
    this.notes.set(id, note);
    this.began = performance.now();
    this.timer = setInterval(() => this.hub.tell("edited", null), SECOND);
    this.hub.tell("edited", null);
  }

  /** @returns {string} for how long a text is under way */
  get seconds() {
    return this.asked && `${Math.floor((performance.now() - this.began) / SECOND)} s`;
  }

  stop() {
    this.live.ask({ ask: "stop" });
  }

  /** @param {Progress} progress */
  progress({ what, artifact, phase, rows, error, stopped = false }) {
    if ((what !== "edit" && what !== "reset") || !this.asked || artifact !== this.asked) return;
    if (error) this.answered(error, null);
    else if (stopped && !rows?.length) this.answered("stopped; what stood in its place still does", null);
    else if (rows && what === "reset") this.isBack();
    else if (rows) this.answered("", Number(rows[0]?.number ?? 0) || null);
    else if (phase) {
      this.notes.set(this.asked, `${phase} …`);
      this.hub.tell("edited", null);
    }
  }

  /**
   * A text stands in another pane, where its edit goes on.
   *
   * @param {number} index
   * @param {string} from the name of the pane
   * @param {string} to
   */
  moved(index, from, to) {
    const id = index < 0 ? "" : this.store.artifact(index).id;
    if (this.open.get(id) === from) this.open.set(id, to);
  }

  // The original is back: of the edit before nothing is shown any more, nor is its text the draft; the
  // history has it.
  isBack() {
    if (this.drafts.get(this.asked) === this.of(this.asked).at(-1)?.text) this.drafts.delete(this.asked);
    this.undone.set(this.asked, this.of(this.asked).at(-1)?.number ?? 0);
    this.answered("the original is back", 0);
  }

  /**
   * What was under way has ended.
   *
   * @param {string} note
   * @param {number | null} number of the edit that was made, 0 for the original, null for neither
   */
  answered(note, number) {
    const id = this.asked;
    this.asked = "";
    clearInterval(this.timer);
    this.notes.set(id, note);
    this.hub.tell("edited", { id, number });
  }

  /** @returns {Drafts} */
  get kept() {
    /** @type {Drafts["drafts"]} */
    const drafts = [...this.drafts].map(([id, text]) => [id, text, this.original(id) ?? ""]);
    return { drafts: [...drafts, ...this.restored], open: [...this.open] };
  }

  /**
   * Take up the drafts of another view of this program.
   *
   * @param {Drafts | undefined} kept
   */
  restore(kept) {
    if (!kept) return;
    this.drafts.clear();
    this.restored = kept.drafts;
    this.open = new Map(kept.open);
    this.takeUp();
    this.hub.tell("edited", null);
  }

  // Take up the drafts of the texts that are here; one of a text that is now another is dropped.
  takeUp() {
    this.restored = this.restored.filter(([id, text, before]) => {
      const original = this.original(id);
      if (original === before) this.drafts.set(id, text);
      else if (original !== undefined) this.open.delete(id);
      return original === undefined;
    });
  }

  /** @param {string} id @returns {string | undefined} the text as the trace has it, undefined without it */
  original(id) {
    const index = this.store.byId.get(id);
    return index === undefined ? undefined : this.store.artifact(index).text;
  }
}
