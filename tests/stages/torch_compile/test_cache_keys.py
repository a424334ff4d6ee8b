"""The parts of a key: which differ, and what is said of each."""

from __future__ import annotations

import base64
import hashlib

from explorer.stages.torch_compile.cache_keys import changed_parts, differences, key_parts, nearest, whole_parts
from tests.facts import untold

GRAPH = "<lambda>()\n\n\n\ndef forward(self, x):\n    sin = torch.ops.aten.sin.default(x);  x = None\n    return (sin,)\n"


def lines(graph: str = GRAPH, shape: str = "4, 4", autotune: bool = False) -> list[str]:
    """Parts as torch lists them; here a hash is that of the text."""
    texts = {
        "gm": graph,
        "example_inputs[0]": f"TensorMetadata(dtype=torch.float32, shape=torch.Size([{shape}]), layout=torch.strided)",
        "fx_kwargs[get_decomp_fn]": "<function f at 0x7f>",
        "torch_version": "\ufffd\x00",
        "inductor_config[max_autotune]": str(autotune),
    }
    return [f"[{_hash(text)}] {name}: {text}" for name, text in texts.items()]


def _hash(text: str) -> str:
    return base64.b32encode(hashlib.sha256(text.encode()).digest())[:51].decode().lower()


def test_a_part_differs_where_its_hash_does() -> None:
    """A text with an address in it is another in each process; only the hash counts, as for the cache."""
    one = key_parts(lines())
    other = key_parts(line.replace("0x7f", "0x8f") for line in lines())
    assert one["fx_kwargs[get_decomp_fn]"] != other["fx_kwargs[get_decomp_fn]"]
    assert changed_parts(one, other) == {} and differences(one, other) == ()


def test_what_differs_is_said_of_each_part() -> None:
    """Of an input the fields, of a setting its value, of the graph its lines, of bytes that they are others."""
    earlier = key_parts(lines())
    graph = GRAPH.replace("sin", "cos")
    of_graph, *others = differences(key_parts(lines(graph, "5, 4", autotune=True)), earlier)
    lost, came = "− sin = torch.ops.aten.sin.default(x)", "+ cos = torch.ops.aten.cos.default(x)"
    assert not untold(of_graph, "graph", lost, came, "− return (sin,)", "1")
    assert others == [
        "example_inputs[0]: shape=torch.Size([4, 4]) → shape=torch.Size([5, 4])",
        "inductor_config[max_autotune]: False → True",
    ]
    other = {**earlier, "torch_version": "other \ufffd\x01"}
    (version,) = differences(other, earlier)
    assert version.startswith("torch_version: ") and "\ufffd" not in version
    (put_in,), (left_out,) = differences({**earlier, "new": "x 1"}, earlier), differences(earlier, {**earlier, "new": "x 1"})
    assert put_in.startswith("new: ") and put_in.endswith(" → 1") and left_out.startswith("new: 1 → ")


def test_the_nearest_key_differs_in_the_fewest_parts() -> None:
    """Of several such the last; keys given by their differences from one key come to the same."""
    base, size, autotuned = (key_parts(made) for made in (lines(), lines(shape="5, 5"), lines(shape="5, 5", autotune=True)))
    keys = [("base", base), ("size", size), ("again", size)]
    assert nearest(autotuned, keys) == ("again", size)
    as_changes = [(name, changed_parts(parts, base)) for name, parts in keys]
    found = nearest(changed_parts(autotuned, base), as_changes)
    assert found is not None and found[0] == "again" and whole_parts(found[1], base) == size
    assert nearest(base, []) is None
