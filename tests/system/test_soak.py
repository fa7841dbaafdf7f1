"""A short soak, so that the tool for the long one works: `make soak`."""

from tests.soak.run import Soak


def test_a_short_soak_leaves_nothing_but_rows(tmp_path):
    report = Soak(tmp_path, seconds=10, streams=15, seed=3, workers=1).run()
    print(report)
    assert report.faults == []
