"""Time a kernel of a compiled function with several configs, or say what each costs on a GPU you don't have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from explorer.capture.ladder.ladder import compile_ladder
from explorer.capture.splice.cost import ladder_cost
from explorer.capture.splice.job import TuningJob
from explorer.capture.splice.kernels import KernelText, kernel_text
from explorer.capture.splice.launches import RecordedLaunch
from explorer.capture.splice.prediction import prediction_of
from explorer.capture.splice.tuning import Tune, Tuning, as_rows, given_configs, neighbours, sizes_in_text, timed_configs
from explorer.capture.splice.wrappers import Wrapper
from explorer.errors import CompileError, InputError
from explorer.lab.live.protocol import no_verb
from explorer.model.values import Plain
from explorer.process.under_way import step

if TYPE_CHECKING:
    from explorer.lab.live.function import LiveFunction


def not_launched(name: str) -> str:
    """Why nothing can be said of a kernel that no launch was recorded of."""
    return (
        f"{name} has no launch in the traced call, so explorer cannot try or time it: the call does not reach it, or torch "
        "compiled the function again, as after torch.compiler.reset() or torch.set_num_threads(): trace it again"
    )


def tuned(live: LiveFunction, tune: Tune) -> Tuning:
    """Compare configs of a Triton kernel."""
    wrapper = next((w for w in live.originals if w.file == tune.file), None)
    if tune.kernel.language != "triton" or wrapper is None:
        raise no_verb(
            f"{tune.kernel.kernel} cannot be tuned",
            "only a Triton kernel that Inductor's wrapper launches has configs",
            "another kernel is edited, k.edit(source=…)",
        )
    with live.edits.original(wrapper.file, tune.kernel.kernel):
        return _tuned(live, tune, wrapper)


def _tuned(live: LiveFunction, tune: Tune, wrapper: Wrapper) -> Tuning:
    """Compare configs of a kernel that stands as Inductor made it."""
    kernel = tune.kernel
    original = kernel_text(wrapper, kernel.kernel, kernel.text, kernel.language)
    step("recording a launch")
    launches = live.launches([(wrapper.file, kernel.kernel)], most=1)
    if not launches:
        raise InputError(not_launched(kernel.kernel))
    own = original.config if original.config is not None else dict(live.ladders.of(kernel).config)
    wanted = given_configs(tune.configs) if tune.configs is not None else neighbours(own, tune.candidates)
    wanted = [{**own, **config} for config in wanted]
    texts = [replace(original, config=config, strict=True) for config in wanted]
    if live.absent is not None:
        return _predicted(live, texts, launches[0], own)
    job = TuningJob(texts, original, (launches[0].before, launches[0].keywords))
    rows = as_rows(wanted, timed_configs(job, tune.timeout), own)
    return Tuning(kernel.kernel, rows, measured=True, in_text=sizes_in_text(original.source))


def _predicted(live: LiveFunction, texts: Sequence[KernelText], launch: RecordedLaunch, own: Mapping[str, Plain]) -> Tuning:
    """Return each config's cost on the absent GPU, with the predicted time of a launch beside that of the kernel's own config."""
    results: list[dict[str, Any]] = []
    before = cost_of(replace(texts[0], config=own), launch)  # each text is the original's, with a config of its own
    for number, text in enumerate(texts):
        step("compiling the configs", number, len(texts))
        results.append({**cost_of(text, launch), "original_seconds": before.get("seconds")})
    rows = as_rows([text.config or {} for text in texts], results, own)
    return Tuning(launch.kernel, rows, measured=False, in_text=sizes_in_text(texts[0].source))


def cost_of(text: KernelText, launch: RecordedLaunch) -> dict[str, Any]:
    """What a text costs on its GPU, and the predicted `seconds` of a launch; an `error` where it does not compile."""
    assert text.target is not None
    try:
        ladder = compile_ladder(text.source, text.name, text.target, text.config)
        prediction = prediction_of(text, ladder, launch.before, launch.changed, text.source)
    except (CompileError, InputError) as error:
        return {"error": str(error).partition("\n")[0]}
    times = {"seconds": prediction.seconds, "limit": prediction.limit} if prediction is not None else {}
    return {**ladder_cost(ladder), **times}
