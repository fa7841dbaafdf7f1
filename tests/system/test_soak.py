"""A short run of `make soak`, to check the tool itself."""

from tests.soak.run import Soak


def test_a_short_soak_finds_no_fault(tmp_path):
    report = Soak(tmp_path, seconds=5, streams=15, seed=3, workers=1).run()
    print(report)
    assert report.faults == []
