"""Arguments with which a program wrapped its modules for DDP or FSDP2, changed for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import MappingProxyType
from typing import Any

from explorer.errors import InputError
from explorer.stages.torch_compile.eager_collective import BUCKET_SIZE, RESHARDING


@contextmanager
def wrapped_otherwise(modules: Sequence[Any], arguments: Mapping[str, object]) -> Iterator[None]:
    """Inside the block the modules are as if wrapped with other arguments, by `WRAPPING`'s names; afterwards as before.

    InputError for a value that torch does not take, and where none of the modules has such an argument.
    """
    with ExitStack() as stack:
        for name, value in arguments.items():
            kind, change = WRAPPING[name]
            found = [module for module in modules if kind in {each.__name__ for each in type(module).__mro__}]
            if not found:
                raise InputError(f"{name} would change nothing: the traced function calls no module that is a {kind}")
            for module in found:
                stack.enter_context(change(module, value))
        yield


@contextmanager
def _with_buckets(module: Any, megabytes: object) -> Iterator[None]:
    """Give a DistributedDataParallel the reducer of one that is wrapped with buckets of this size."""
    if isinstance(megabytes, bool) or not isinstance(megabytes, (int, float)) or megabytes <= 0:
        raise InputError(f"bucket_cap_mb is a number of MiB above 0, not {megabytes!r}")
    _refuse_below_first_bucket(megabytes)
    if module.mixed_precision is not None or getattr(module, "_delay_all_reduce_params", None):
        raise InputError(
            "explorer does not change the buckets of a DistributedDataParallel with mixed_precision= or "
            "delay_all_reduce_named_params=, which adds hooks to the module: wrap it with the other bucket_cap_mb, and trace that"
        )
    # a second wrapper around the same module, for it alone decides what follows from the size
    wrapper = type(module)(
        module.module,
        device_ids=module.device_ids,
        output_device=module.output_device,
        dim=module.dim,
        broadcast_buffers=module.broadcast_buffers,
        init_sync=False,
        process_group=module.process_group,
        bucket_cap_mb=megabytes,
        find_unused_parameters=module.find_unused_parameters,
        gradient_as_bucket_view=module.gradient_as_bucket_view,
        static_graph=module.static_graph,
    )
    for hook, state in module._comm_hooks:
        wrapper.register_comm_hook(state, hook)
    before = dict(module.__dict__)
    module.__dict__.update(wrapper.__dict__)
    del wrapper
    try:
        yield
    finally:
        module.__dict__.clear()
        module.__dict__.update(before)


def _refuse_below_first_bucket(megabytes: float) -> None:
    """InputError for a size at which Dynamo stops the program with an AssertionError."""
    from torch import distributed
    from torch._dynamo import config

    least = distributed._DEFAULT_FIRST_BUCKET_BYTES / 2**20
    if config.optimize_ddp and megabytes < least:
        raise InputError(
            f"torch.compile takes no bucket_cap_mb below {least:g}, the size of DDP's first bucket, not {megabytes!r}"
        )


@contextmanager
def _with_resharding(module: Any, reshard: object) -> Iterator[None]:
    """Have an FSDP2 module free its parameters after its forward, or keep them.

    An outermost module that was wrapped without this argument keeps them in either case, as `fully_shard` does.
    """
    if not isinstance(reshard, bool):
        raise InputError(f"reshard_after_forward is True or False here, not {reshard!r}")
    state = module._get_fsdp_state()
    if state._is_root and state._auto_reshard_after_forward:
        yield
        return
    one = getattr(state, "_fsdp_param_group", None)  # torch 2.13 has several in a list
    groups = getattr(state, "_fsdp_param_groups", [one] if one is not None else [])
    before = state._auto_reshard_after_forward, [group.post_forward_mesh_info for group in groups]
    module.set_reshard_after_forward(reshard, recurse=False)
    try:
        yield
    finally:
        state._auto_reshard_after_forward = before[0]
        for group, info in zip(groups, before[1], strict=True):
            group.post_forward_mesh_info = info


#: The arguments by their full names, each with the class of the wrapped module and what changes it.
WRAPPING: Mapping[str, tuple[str, Callable[[Any, object], AbstractContextManager[None]]]] = MappingProxyType(
    {BUCKET_SIZE: ("DistributedDataParallel", _with_buckets), RESHARDING: ("FSDPModule", _with_resharding)}
)

__all__ = ["WRAPPING", "wrapped_otherwise"]
