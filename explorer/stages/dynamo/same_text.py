"""Take out of Dynamo's texts what differs between processes: addresses, ids of objects, random names, the order of sets."""

from __future__ import annotations

import ast
import re

#: The address in Python's print of an object, such as <code object f at 0x7f9409da3750, file "a.py", line 1>.
_ADDRESS = re.compile(r"(?<=\S) at 0x[0-9a-fA-F]{6,16}(?=[>,)])")
#: The name of a compiled graph: torch adds a random UUID to it, so that the caches of two processes stay apart.
_GRAPH = re.compile(r"(\b__compiled_fn_\d+)_[0-9a-f]{8}(?:_[0-9a-f]{4}){3}_[0-9a-f]{12}\b")
#: A set of constants, where bytecode or a guard prints one.
_SET = re.compile(r"(?:(?<= == )|(?<=frozenset\())\{[^{}\n]+\}")
#: The last argument of a guard on an object's identity or type, and a name that torch makes of an object's id.
_ID = re.compile(
    r"(\b_*check_(?:\w+_id|fake_script_type)\([^\n]*?, )\d+(?=\))|(\b_*(?:check_metadata|check_opaque_guard_fn|dtensor_spec)_)\d+"
)


def same_text(text: str) -> str:
    """Return the text without addresses and random names, with <id> for the ids of objects, and with sorted sets."""
    for pattern, kept in ((_ADDRESS, ""), (_GRAPH, r"\1"), (_ID, r"\1\2<id>")):
        text = pattern.sub(kept, text)
    return _SET.sub(_sorted_set, text)


def _sorted_set(match: re.Match[str]) -> str:
    """Sort the elements by their prints: Python prints them by their hashes, which differ between processes for strings."""
    try:
        elements = ast.literal_eval(match[0])
    except (ValueError, SyntaxError, TypeError):
        return match[0]
    return f"{{{', '.join(sorted(map(repr, elements)))}}}" if isinstance(elements, set) else match[0]


__all__ = ["same_text"]
