"""Take a snapshot of everything of torch's that a trace touches or could touch, to compare before and after."""

from __future__ import annotations

import gc
import logging
import os
import sys
import warnings

import torch
import torch._dynamo.config
import torch._functorch.config
import torch._inductor.config
from torch._dynamo import convert_frame, pgo
from torch._dynamo.output_graph import OutputGraph
from torch._inductor import compile_fx, debug, pattern_matcher
from torch.fx.passes.graph_transform_observer import GraphTransformObserver

from explorer.capture.observe.subclasses import subclasses


def snapshot() -> dict[str, object]:
    """Configurations, environment, loggers, hooks and the functions that explorer replaces while it records."""
    configs = {
        c.__name__: {k: repr(v) for k, v in c.get_config_copy().items()}
        for c in (torch._dynamo.config, torch._functorch.config, torch._inductor.config)
    }
    loggers = {
        name: (logger.level, logger.propagate, logger.disabled, tuple(map(id, logger.handlers)), tuple(logger.filters))
        for name, logger in logging.root.manager.loggerDict.items()
        if isinstance(logger, logging.Logger) and name.startswith(("torch", "triton"))
    }
    return {
        **configs,
        "environment": dict(os.environ),
        "loggers": loggers,
        "bytecode hooks": list(convert_frame._bytecode_hooks),
        "modes": (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.get_default_dtype()),
        "trace hooks": (sys.gettrace(), sys.getprofile(), sys.excepthook),
        "warnings": list(warnings.filters),
        "garbage collector": (gc.isenabled(), gc.get_threshold()),
        "sizes seen": (id(pgo._CODE_STATE), id(pgo._INIT_CODE_STATE)),
        "functions": {key: id(value) for key, value in _functions().items()},
    }


def _functions() -> dict[str, object]:
    owners = [
        torch,
        compile_fx,
        compile_fx._InProcessFxCompile,
        debug.DebugContext,
        OutputGraph,
        GraphTransformObserver,
        pattern_matcher.PatternEntry,
        *subclasses(pattern_matcher.PatternEntry),
    ]
    return {f"{owner.__name__}.{name}": value for owner in owners for name, value in vars(owner).items() if callable(value)}


def difference(before: dict[str, object], after: dict[str, object]) -> dict[str, object]:
    """What differs between two snapshots, for a readable failure."""
    found: dict[str, object] = {}
    for key, old in before.items():
        new = after[key]
        if isinstance(old, dict) and isinstance(new, dict):
            # a module imported meanwhile may bring a logger of its own; what was there must be as it was
            changed = {k: (v, new.get(k)) for k, v in old.items() if v != new.get(k)}
            if changed:
                found[key] = changed
        elif old != new:
            found[key] = (old, new)
    return found
