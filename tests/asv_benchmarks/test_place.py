"""Where results of this machine belong."""

from __future__ import annotations

import pytest

from asv_benchmarks import place as places
from asv_benchmarks.device import Gpu


def test_the_card_of_this_place_is_the_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu("NVIDIA H200", "GPU-1", "580", 0)
    monkeypatch.setattr(places, "visible_gpu", lambda: gpu)
    place, device = places.locate("HEAD", "m")
    assert (place.card, device) == ("GPU-1", "gpu")
    monkeypatch.setattr(places, "visible_gpu", lambda: None)
    place, device = places.locate("HEAD", "m")
    assert (place.card, device) == (None, "cpu")
