// Items of a list by what they have in common.

/**
 * Items by key, in the order in which each key first comes.
 *
 * @template Item, Key
 * @param {Item[]} list
 * @param {(item: Item) => Key} keyOf
 * @returns {[Key, Item[]][]}
 */
export function grouped(list, keyOf) {
  /** @type {Map<Key, Item[]>} */
  const groups = new Map();
  for (const item of list) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group) group.push(item);
    else groups.set(key, [item]);
  }
  return [...groups];
}
