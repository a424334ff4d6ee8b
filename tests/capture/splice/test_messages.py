"""The line and the words of a compiler's message about an edited text."""

from __future__ import annotations

from explorer.capture.splice.messages import located

TEXT = "\n".join(f"tmp{n} = {n}" for n in range(50))


def test_the_message_comes_before_the_kernels_name():
    """A sentence with a line of the text begins with what is wrong there, not with the kernel's long name."""
    assert located("triton_poi_fused_mul_4 line 42: tmtmp7 is not defined: tmp11 = tmtmp7", TEXT) == (
        42,
        "tmtmp7 is not defined: tmp11 = tmtmp7",
    )


def test_a_message_about_another_file_stays_whole():
    """A line that the text does not have is one of another file, which the message names."""
    assert located("other.py line 900: it failed", TEXT) == (0, "other.py line 900: it failed")
