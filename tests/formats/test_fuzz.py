"""Inputs that fuzzing found pass, and the fuzzing targets pass for their seeds."""

from itertools import islice

import pytest

from tests.fuzz.corpus import FAILING_INPUTS, seeds
from tests.fuzz.targets import TARGETS

FILES = sorted(path for path in FAILING_INPUTS.glob("*/*") if path.is_file())


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_inputs_that_once_failed_pass(path):
    TARGETS[path.parent.name](path.read_bytes())


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_has_seeds_and_passes_some(target):
    some = list(islice(seeds(target), 4))
    assert some
    for data in some:
        TARGETS[target](data)


def test_every_folder_of_failing_inputs_belongs_to_a_target():
    assert {path.parent.name for path in FILES} <= TARGETS.keys()
