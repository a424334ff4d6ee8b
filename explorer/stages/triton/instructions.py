"""Which lines of machine code are instructions. Pure."""

from __future__ import annotations

import re

#: An instruction of SASS as nvdisasm writes it, with its opcode.
SASS_INSTRUCTION = re.compile(r"^\s*(?:\.L_\w+:\s*)?/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9]*)")


def is_instruction(line: str) -> bool:
    """Whether a line of PTX or AMDGCN is an instruction: no directive, label, comment or brace."""
    return (
        line.startswith("\t") and line.lstrip()[:1] not in ("", ".", "/", ";", "{", "}", "$") and not line.rstrip().endswith(":")
    )
