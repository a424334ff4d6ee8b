"""Turn the records of a `TORCH_TRACE` log into the events that explorer's probes would have recorded.

Nothing is read but the program's files that the log names, to show its functions whole: see `quoted_source.py`.
`HANDLERS` has what is made of each kind of record; one that has no handler becomes a text of the stage "log_record" as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from explorer.capture.observe.caches import LOOKUPS, graph_lookup
from explorer.capture.observe.metrics import RECORDS as METRICS
from explorer.capture.observe.metrics import metrics_of
from explorer.capture.observe.places import in_package
from explorer.capture.observe.symbols import created_symbol, guarded_symbol, unbacked_symbol
from explorer.model.events import Frame
from explorer.model.shared import KernelLines, OutputCodeText, Place, Text
from explorer.model.syntax import UNREADABLE
from explorer.model.values import Event, Failure, Plain
from explorer.sources.logs.quoted_source import QuotedSources
from explorer.sources.logs.torch_trace import Log, LogRecord
from explorer.stages.dynamo.graph_break import GraphBreakText
from explorer.stages.dynamo.guards import GuardTree
from explorer.stages.fx_graph import FxGraphText
from explorer.stages.readable_graph import graph_of_text
from explorer.stages.torch_compile.cache import CacheLookup
from explorer.stages.torch_compile.compile_call import CompileCall
from explorer.stages.torch_compile.log_record import LogRecordText
from explorer.stages.torch_compile.phase import PhaseMark

#: What describes inputs, numbers a string or repeats a text that another record has: nothing is lost with it.
TOLD_ELSEWHERE = frozenset(
    ("before_pre_grad_graph", "describe_tensor", "describe_storage", "describe_source", "dynamo_guards", "link", "torch_version")
)
_FORWARD = re.compile(r"def forward\(([^)]*)\)", re.DOTALL)
_AOT_ID = re.compile(r"^# AOT ID: \['\d+_(inference|forward|backward)'\]", re.MULTILINE)
_GRAPH_ID = re.compile(r"\n+ ?# graph id: \d+\s*$")
#: How records name the frame of a graph that is compiled without Dynamo, as by AOTInductor.
WITHOUT_DYNAMO = "without Dynamo"

Handler = Callable[["EventsOfLog", LogRecord], None]


class EventsOfLog:
    """The events of one log, and the errors of its compiles."""

    def __init__(self, log: Log, rank: int | None = None) -> None:
        """Read the records of one rank, and those that name none."""
        self._log = log
        self.events: list[Event] = []
        self.failures: list[Failure] = []
        self.torch_version = ""
        self.job: dict[str, list[str]] = {}  # what is said in order of all compiles together
        self.estimated_seconds = 0.0  # what Inductor estimates that the operators of all graphs take
        self._graphs: dict[str, str] = {}  # the graph that Inductor compiles, by frame
        self._post_grad: dict[tuple[str, str], str] = {}  # the last text of each
        self._lines: dict[tuple[str, str], list[LogRecord]] = {}  # records of a line alone, by frame and name
        self._without_dynamo = 0
        self._sources = QuotedSources()
        for record in log.records:
            if record.rank in (None, rank):
                self._read(record)
        for (_, name), records in self._lines.items():
            text = "\n".join(json.dumps(self._with_files(record.facts), ensure_ascii=False) for record in records)
            self._emit(records[0], "log_record", LogRecordText(text=text, name=name))
        self.events[:0] = self._sources.events()

    def _read(self, record: LogRecord) -> None:
        """Make the events of one record; one that cannot be read is named."""
        handler = HANDLERS.get(record.name)
        if handler is None:
            if record.name not in TOLD_ELSEWHERE:
                self._as_it_is(record, record.name)
            return
        try:
            handler(self, record)
        except UNREADABLE as error:
            where = f"line {record.line} of the log has a {record.name} that cannot be read ({type(error).__name__}: {error})"
            self.failures.append(Failure("log", "read", where))

    def _as_it_is(self, record: LogRecord, name: str) -> None:
        """Emit the payload of a record that no other stage shows.

        Records without a payload are collected into one text, since torch writes many.
        """
        if record.payload:
            self._emit(record, "log_record", LogRecordText(text=record.payload.strip("\n"), name=name))
        else:
            self._lines.setdefault((record.frame, name), []).append(record)

    def _with_files(self, facts: Any) -> Any:
        """What a line says, with the names of files in place of the numbers that the log gave them."""
        if isinstance(facts, list):
            return [self._with_files(each) for each in facts]
        if not isinstance(facts, dict):
            return facts
        return {
            key: self._log.string(value) if key == "filename" and isinstance(value, int) else self._with_files(value)
            for key, value in facts.items()
        }

    def _emit(self, record: LogRecord, kind: str, data: Mapping[str, Plain], graph: str = "", frame: str | None = None) -> None:
        where = record.frame if frame is None else frame
        self.events.append(Event(kind, record.time, where, graph, data))

    def _frame(self, record: LogRecord) -> str:
        """Return the record's frame; a graph that Inductor compiles without Dynamo has its own."""
        return record.frame or f"{WITHOUT_DYNAMO} {max(self._without_dynamo - 1, 0)}/0"

    # Dynamo

    def started(self, record: LogRecord) -> None:
        """A compile begins."""
        places = []
        for call in record.facts["stack"]:
            file = self._log.string(call["filename"])
            places.append(Place(file=file, line=int(call["line"]), function=str(call["name"])))
            self._sources.quote(file, int(call["line"]), str(call.get("loc") or ""))
        self._emit(record, "frame", Frame(stack=tuple(places)))
        if not places:
            return
        self._sources.compiled(record.frame, places[-1])
        callers = [n for n, place in enumerate(places[:-1]) if place.file and not in_package(place.file)]
        caller = record.facts["stack"][callers[-1]] if callers else {}
        call = CompileCall(
            file="",
            line=0,
            code="",
            backend="",
            options={},
            called_file=places[callers[-1]].file if callers else "",
            called_line=caller.get("line", 0),
            called_code=str(caller.get("loc") or ""),
        )
        self._emit(record, "compile_call", call)

    def guards(self, record: LogRecord) -> None:
        """Dynamo's guard tree."""
        self._emit(record, "guards", GuardTree(text=record.payload, made_at=()))

    def graph_break(self, record: LogRecord) -> None:
        """Dynamo's message for a graph break."""
        self._emit(record, "graph_break", GraphBreakText(text=record.payload))

    def recompiled(self, record: LogRecord) -> None:
        """The guards that failed."""
        self._emit(record, "recompile", Text(text=record.payload))

    def symbol(self, record: LogRecord) -> None:
        """A symbolic size, or a condition on one."""
        make = {"create_symbol": created_symbol, "create_unbacked_symbol": unbacked_symbol}.get(record.name, guarded_symbol)
        for place in (record.facts.get("user_stack") or [])[-1:]:
            self._sources.quote(self._log.string(place["filename"]), int(place["line"]), str(place.get("loc") or ""))
        self._emit(record, "symbol", make(record.facts, self._log.string))

    def phase(self, record: LogRecord) -> None:
        """A phase that the compiler times."""
        mark = json.loads(record.payload)
        if mark.get("ph") in ("B", "E"):
            arguments = mark.get("args") or {}
            frame = record.frame or str(arguments.get("compile_id") or "").replace("None", "")
            data = PhaseMark(name=mark["name"], at=mark["ph"], function=str(arguments.get("fn_name") or ""))
            self._emit(record, "phase", data, frame=frame)

    def metrics(self, record: LogRecord) -> None:
        """What torch counted of a compile, and how the compile failed where it did."""
        facts = record.facts
        frame = str(facts.get("compile_id") or record.frame)
        self._emit(record, "compilation_metrics", metrics_of(METRICS[record.name], facts), frame=frame)
        if facts.get("fail_type"):
            self.failures.append(Failure("dynamo", "compile", _failed(frame, facts)))

    # Graphs

    def _graph(self, record: LogRecord, kind: str, graph: str = "") -> FxGraphText:
        """Emit the graph of a record's payload, whose comments quote the program."""
        data = graph_of_text(_GRAPH_ID.sub("\n", record.payload).strip("\n"))
        frame = self._frame(record)
        self._sources.quote_stacks(frame, data.stacks or ())
        self._emit(record, kind, data, graph=graph, frame=frame)
        return data

    def dynamo_graph(self, record: LogRecord) -> None:
        """The graph that Dynamo hands to the backend."""
        self._graph(record, "dynamo")

    def pre_grad(self, record: LogRecord) -> None:
        """The graph after Inductor's passes on what Dynamo made."""
        self._graph(record, "pre_grad")

    def before_pre_grad(self, record: LogRecord) -> None:
        """What Inductor is handed; without Dynamo, another graph begins."""
        self._without_dynamo += not record.frame

    def aot_graph(self, record: LogRecord) -> None:
        """One of AOTAutograd's graphs."""
        kind, graph = AOT_GRAPHS[record.name]
        self._graph(record, kind, graph)

    def exported(self, record: LogRecord) -> None:
        """The graph of an exported program, which stands indented below its heading."""
        body = record.payload.partition("ExportedProgram:\n")[2].partition("\nGraph signature:")[0]
        text = "\n".join(line[4:] for line in body.split("\n"))
        self._without_dynamo += not record.frame
        data = graph_of_text(text.strip("\n"))
        self._sources.quote_stacks(self._frame(record), data.stacks or ())
        self._emit(record, "forward", data, graph="inference", frame=self._frame(record))

    def before_post_grad(self, record: LogRecord) -> None:
        """The graph that Inductor compiles now; in training it is AOTAutograd's forward or backward."""
        frame, graph = self._frame(record), graph_of(record.payload)
        self._graphs[frame] = graph
        if graph == "inference":
            self._graph(record, "inductor_input", graph)

    def post_grad(self, record: LogRecord) -> None:
        """The graph after all pattern matching; two kinds of records may have it."""
        graph = graph_of(record.payload)
        self._graphs[self._frame(record)] = graph
        text = _GRAPH_ID.sub("\n", record.payload).strip("\n")
        if self._post_grad.get((self._frame(record), graph)) != text:
            self._post_grad[self._frame(record), graph] = text
            self._graph(record, "post_grad", graph)

    def runnable(self, record: LogRecord) -> None:
        """The graph as a file that runs on its own."""
        text = Text(text=record.payload)
        self._emit(record, "fx_graph_runnable", text, graph=graph_of(record.payload), frame=self._frame(record))

    # Code

    def output_code(self, record: LogRecord) -> None:
        """The wrapper that Inductor wrote."""
        name = str(record.facts.get("filename") or "")
        self._wrapper(record, record.payload.lstrip("\n"), name)

    def dumped(self, record: LogRecord) -> None:
        """Take up a text that AOTInductor logged, such as its wrapper."""
        if "wrapper" in str(record.facts.get("name")):
            self._wrapper(record, record.payload.lstrip("\n"), str(record.facts.get("filename") or ""))
        else:
            self._as_it_is(record, str(record.facts.get("name")))

    def _wrapper(self, record: LogRecord, text: str, file: str) -> None:
        frame, stated = self._frame(record), _AOT_ID.search(text)
        graph = stated[1] if stated else self._graphs.get(frame, "inference")
        name = PureWindowsPath(file).name if "\\" in file else PurePosixPath(file).name
        self._graphs[frame] = graph
        self._emit(record, "output_code", OutputCodeText(text=text, file=name), graph=graph, frame=frame)

    def kernel_nodes(self, record: LogRecord) -> None:
        """Return the nodes that each kernel computes, from Inductor's provenance tracking; after a colon stands a handle."""
        given = json.loads(record.payload)
        table = given.get("cppCodeToPost", given) if isinstance(given, dict) else {}
        nodes_by_kernel: dict[str, dict[str, None]] = {}
        for key, nodes in table.items():
            if isinstance(nodes, list):
                nodes_by_kernel.setdefault(re.sub(r":\d+$", "", key), {}).update(dict.fromkeys(map(str, nodes)))
        frame = self._frame(record)
        for kernel, names in nodes_by_kernel.items():
            lines = KernelLines(name=kernel, lines=(), operations=(), template=(), nodes=tuple(names))
            self._emit(record, "kernel_lines", lines, graph=self._graphs.get(frame, "inference"), frame=frame)

    # Caches

    def cache(self, record: LogRecord) -> None:
        """A lookup in a cache of graphs."""
        cache, state = LOOKUPS[record.name]
        graph = self._graphs.get(record.frame, "") if cache == "FX graph" else ""
        self._emit(record, "cache", graph_lookup(cache, state, graph, json.loads(record.payload)))

    def triton_kernels(self, record: LogRecord) -> None:
        """Where the config of each Triton kernel came from."""
        for name, facts in json.loads(record.payload).items():
            self._emit(record, "cache", _autotune_lookup(name, facts, self._graphs.get(record.frame, "")))

    # Ranks

    def collective_schedule(self, record: LogRecord) -> None:
        """The collectives and waits of a graph, in Inductor's order."""
        self.job.setdefault("collective_schedule", []).extend(map(str, json.loads(record.payload)))

    def executed(self, record: LogRecord) -> None:
        """The order in which graphs ran."""
        ran = json.loads(record.payload)["graph_execution_order"]
        self.job.setdefault("graph_execution", []).extend(str(one["compile_id"]) for one in ran)

    def runtimes(self, record: LogRecord) -> None:
        """What Inductor estimates that each operator of a graph takes."""
        times = [one.get("estimated_runtime_ns") for one in json.loads(record.payload)["ops"]]
        self.estimated_seconds += sum(time for time in times if isinstance(time, (int, float))) / 1e9

    def version(self, record: LogRecord) -> None:
        """The torch that wrote the log."""
        self.torch_version = str(json.loads(record.payload).get("pytorch_version", ""))


def graph_of(text: str) -> str:
    """Which graph of a frame a text is: "backward", "forward" or "inference", by the names of its inputs."""
    signature = _FORWARD.search(text)
    inputs = signature[1] if signature else ""
    if re.search(r"\btangents_\d", inputs):
        return "backward"
    return "forward" if re.search(r"\bprimals_\d", inputs) else "inference"


def _failed(frame: str, facts: Mapping[str, Any]) -> str:
    """Say how a compile failed, by torch's metrics of it."""
    file, line = facts.get("fail_user_frame_filename"), facts.get("fail_user_frame_lineno")
    place = f" at {file}:{line}" if file else ""
    name = facts.get("co_name", "?")
    return f"the compile {frame} of {name} failed{place}: {facts['fail_type']}: {facts.get('fail_reason')}"


def _autotune_lookup(kernel: str, facts: Mapping[str, Any], graph: str) -> CacheLookup:
    """One kernel's lookup in the cache of configs, in torch's words."""
    state = str(facts.get("autotune_cache_state", ""))
    found = state in ("hit", "miss")
    key = str(facts.get("best_config") or "") if state == "hit" else ""
    reason = f"none of its {facts.get('num_configs', '')} configs was measured before" if state == "miss" else state * (not found)
    return CacheLookup(
        cache="autotune",
        state=state if found else "bypass",
        graph=graph,
        key=key,
        kernel=kernel,
        reason=reason,
        seconds_saved=None,
    )


#: The records of AOTAutograd's graphs: kind of event, graph.
AOT_GRAPHS = {
    "aot_joint_graph": ("joint", "joint"),
    "aot_forward_graph": ("forward", "forward"),
    "aot_backward_graph": ("backward", "backward"),
    "aot_inference_graph": ("forward", "inference"),
}
#: What is made of each kind of record, by its name.
HANDLERS: Mapping[str, Handler] = {
    "dynamo_start": EventsOfLog.started,
    "dynamo_output_graph": EventsOfLog.dynamo_graph,
    "dynamo_cpp_guards_str": EventsOfLog.guards,
    "dynamo_graph_break_reason": EventsOfLog.graph_break,
    "recompile_reasons": EventsOfLog.recompiled,
    "create_symbol": EventsOfLog.symbol,
    "create_unbacked_symbol": EventsOfLog.symbol,
    "guard_added": EventsOfLog.symbol,
    "guard_added_fast": EventsOfLog.symbol,
    "chromium_event": EventsOfLog.phase,
    **dict.fromkeys(METRICS, EventsOfLog.metrics),
    "before_pre_grad_graph": EventsOfLog.before_pre_grad,
    "after_pre_grad_graph": EventsOfLog.pre_grad,
    "inductor_pre_grad_graph": EventsOfLog.pre_grad,
    **dict.fromkeys(AOT_GRAPHS, EventsOfLog.aot_graph),
    "exported_program": EventsOfLog.exported,
    "before_post_grad_graph": EventsOfLog.before_post_grad,
    "after_post_grad_graph": EventsOfLog.post_grad,
    "inductor_post_grad_graph": EventsOfLog.post_grad,
    "fx_graph_runnable": EventsOfLog.runnable,
    "inductor_output_code": EventsOfLog.output_code,
    "graph_dump": EventsOfLog.dumped,
    "inductor_provenance_tracking_node_mappings": EventsOfLog.kernel_nodes,
    "inductor_triton_kernel_to_post_grad_nodes": EventsOfLog.kernel_nodes,
    **dict.fromkeys(LOOKUPS, EventsOfLog.cache),
    "triton_kernel_info": EventsOfLog.triton_kernels,
    "torch_version": EventsOfLog.version,
    "inductor_collective_schedule": EventsOfLog.collective_schedule,
    "graph_execution": EventsOfLog.executed,
    "inductor_runtime_and_tensor_meta": EventsOfLog.runtimes,
}
