"""The peaks of this CPU, measured now."""

from __future__ import annotations

import torch

from explorer.lab.live.peaks import attained_peaks, device_title


def test_peaks_are_measured_and_random_numbers_are_left_alone() -> None:
    """A bandwidth and a rate for each dtype, all possible on a CPU; the program's random numbers go on as before."""
    state = torch.get_rng_state()
    peaks = {peak.what: peak.rate for peak in attained_peaks("cpu")}
    assert torch.equal(state, torch.get_rng_state())
    assert peaks.keys() == {"memory", "float32", "float64", "bfloat16"}
    assert 1e8 < peaks["memory"] < 1e13 and all(1e8 < rate < 1e15 for rate in peaks.values())
    assert str(torch.get_num_threads()) in device_title("cpu")
