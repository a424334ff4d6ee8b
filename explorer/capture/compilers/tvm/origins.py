"""Which FX nodes TVM's code is of: spans in the stores of TIR, which TVM carries down to the machine code's debug information.

A span's line is that of an FX node, see `stages/fx_locations.py`. TVM makes one TIR function of equal operators, and of equal
groups of them, and drops what was known of each. So the pipeline runs a second time on a module where each node has a function
of its own: it groups them in the same way, and each store of its functions is of one node. The module that is compiled gets
their lines, if its functions are the same; a line behind those of all nodes stands for several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from explorer.capture.compilers.tvm.importing import Imported, bindings_of
from explorer.stages.fx_locations import FIRST_NODE, FX_GRAPH
from explorer.stages.tvm.notes import note


class Origins:
    """The lines of a graph's FX nodes, and of groups of them."""

    def __init__(self, source: Imported) -> None:
        self.nodes = source.nodes
        self.groups: list[tuple[int, ...]] = []
        #: For each call of a TIR function, in the order in which they run, its name and the FX nodes.
        self.calls: list[tuple[str, tuple[str, ...]]] = []
        self._bindings = source.bindings
        self._notes: dict[Any, str] = {}

    def mark(self, module: Any, legalized: Any, pipeline: Callable[[Any], Any]) -> None:
        """Give each store of a module that a pipeline made the line of its node.

        `legalized` is the module before it, with a TIR function for each operator.
        """
        apart = pipeline(self._one_function_a_node(legalized))
        for variable, lines in stores_by_function(module, apart).items():
            spans = [self._line_of(each) if each else None for each in lines]
            module.update_func(variable, with_spans(module[variable], spans))
        of_functions = self.of_functions(apart)
        for binding, called, own in calls_side_by_side(module, apart):
            names = of_functions[own.name_hint]
            self.calls.append((called.name_hint, names))
            if names:
                self._notes[binding] = note(names)

    def note_bindings(self, module: Any) -> None:
        """Note what the bindings of the module that was imported are of."""
        for binding in (binding for bindings in bindings_of(module) for binding in bindings):
            if line := self._bindings.get(binding.var):
                self._notes[binding] = note(self.names([line]))

    def notes(self, functions: Iterable[Any]) -> dict[Any, str]:
        """Return the note that TVM's printer writes after each statement or binding: the FX nodes that it comes from."""
        from tvm import tirx

        found = dict(self._notes)
        for function in functions:
            if isinstance(function, tirx.PrimFunc):
                found.update({store: note(self.names([line])) for store, line in lines_of(function).items()})
        return found

    def of_functions(self, module: Any) -> dict[str, tuple[str, ...]]:
        """The FX nodes of each TIR function of a module."""
        return {v.name_hint: self.names(lines_of(function).values()) for v, function in tir_functions(module).items()}

    def names(self, lines: Iterable[int]) -> tuple[str, ...]:
        """The FX nodes of these lines, in the graph's order."""
        numbers = {number for line in lines for number in self._numbers(line)}
        return tuple(self.nodes[number] for number in sorted(numbers))

    def _one_function_a_node(self, legalized: Any) -> Any:
        """Return a module in which each node's binding calls a separate TIR function, whose stores have the node's line."""
        import tvm_ffi
        from tvm import IRModule, ir, relax
        from tvm.relax.expr import _update_type

        module = IRModule(dict(legalized.functions), attrs=legalized.attrs)
        functions = tir_functions(legalized)

        def call_own(binding: Any) -> Any:
            line = self._bindings.get(binding.var)
            called = [each for each in called_functions(binding.value) if each in functions]
            if line is None or len(called) != 1:
                return binding
            own = ir.GlobalVar(f"{called[0].name_hint}_of_{binding.var.name}_{line}")
            _update_type(own, called[0].ty)
            spans = [line] * len(list(stores_of(functions[called[0]])))
            module[own] = with_spans(functions[called[0]], spans)
            return relax.VarBinding(binding.var, _calling(binding.value, called[0], own))

        for variable in [v for v, function in legalized.functions.items() if isinstance(function, relax.Function)]:
            module.update_func(variable, tvm_ffi.structural_map(legalized[variable], (relax.VarBinding, call_own)))
        return module

    def _line_of(self, lines: set[int]) -> int:
        """The line of one node, or one for all of them."""
        if len(lines) == 1:
            return next(iter(lines))
        group = tuple(sorted(line - FIRST_NODE for line in lines))
        if group not in self.groups:
            self.groups.append(group)
        return FIRST_NODE + len(self.nodes) + self.groups.index(group)

    def _numbers(self, line: int) -> tuple[int, ...]:
        number = line - FIRST_NODE
        return (number,) if number < len(self.nodes) else self.groups[number - len(self.nodes)]


def _calling(call: Any, before: Any, after: Any) -> Any:
    """The same call, of another function."""
    from tvm import ir

    arguments = [after if each.same_as(before) else each for each in call.args]
    return ir.Call(call.op, arguments, call.attrs, call.ty_args, call.span, call.ty)


def stores_by_function(module: Any, apart: Any) -> dict[Any, list[set[int]]]:
    """Map each TIR function of a module to the lines of its stores, taken from the functions that replace it in `apart`."""
    found: dict[Any, list[set[int]]] = {}
    for _, called, own in calls_side_by_side(module, apart):
        lines = lines_of(apart[own])
        sets = found.setdefault(called, [set() for _ in stores_of(module[called])])
        for each, store in zip(sets, stores_of(apart[own]), strict=True):
            each.update([lines[store]] if store in lines else [])
    return found


def calls_side_by_side(module: Any, apart: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Each binding that calls a TIR function, that function, and the equal one that is called in its place in `apart`.

    Nothing where one of them is unlike the other: it is not known then which is which.
    """
    import tvm_ffi

    functions, functions_apart = tir_functions(module), tir_functions(apart)
    pairs: list[tuple[Any, Any, Any]] = []
    for bindings, others in zip(bindings_of(module), bindings_of(apart), strict=True):
        if len(bindings) != len(others):
            return
        for binding, other in zip(bindings, others, strict=True):
            called = [each for each in called_functions(binding.value) if each in functions]
            own = [each for each in called_functions(other.value) if each in functions_apart]
            if len(called) != len(own):
                return
            pairs += ((binding, *pair) for pair in zip(called, own, strict=True))
    if all(tvm_ffi.structural_equal(functions[called], functions_apart[own]) for _, called, own in pairs):
        yield from pairs


def tir_functions(module: Any) -> dict[Any, Any]:
    """The TIR functions of a module, by their variables."""
    from tvm import tirx

    return {variable: function for variable, function in module.functions.items() if isinstance(function, tirx.PrimFunc)}


def called_functions(value: Any) -> Iterator[Any]:
    """The functions of the module that a binding's value calls: itself, or by `call_tir` and its like."""
    from tvm import ir

    if isinstance(value, ir.Call):
        yield from (each for each in (value.op, *value.args) if isinstance(each, ir.GlobalVar))


def with_spans(function: Any, lines: Sequence[int | None]) -> Any:
    """A TIR function whose stores are from these lines, in their order."""
    import tvm_ffi
    from tvm import ir, tirx

    source, order = ir.SourceName(FX_GRAPH), iter(lines)

    def mark(store: Any) -> Any:
        line = next(order)
        if line is None:
            return store
        return tirx.BufferStore(store.buffer, store.value, store.indices, ir.Span(source, line, line, 0, 0))

    return function.with_body(tvm_ffi.structural_map(function.body, (tirx.BufferStore, mark)))


def stores_of(function: Any) -> Iterator[Any]:
    """The stores of a TIR function, in their order."""
    import tvm_ffi
    from tvm import tirx

    stores: list[Any] = []
    tvm_ffi.structural_walk(function.body, (tirx.BufferStore, stores.append))
    return iter(stores)


def lines_of(function: Any) -> Mapping[Any, int]:
    """The line of each store of a TIR function that has one."""
    spans = ((store, store.span) for store in stores_of(function))
    return {store: span.line for store, span in spans if span is not None and span.source_name.name == FX_GRAPH}
