"""The collector is as it was after a sweep, whatever happens in it."""

import gc

import pytest

from sympy_tensordiff.graph.interning import no_collection


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_the_collector_is_as_it_was(enabled, fails):
    before = gc.isenabled()
    try:
        gc.enable() if enabled else gc.disable()
        with pytest.raises(KeyError) if fails else no_collection(), no_collection():
            assert not gc.isenabled()
            if fails:
                raise KeyError
        assert gc.isenabled() is enabled
    finally:
        gc.enable() if before else gc.disable()
