"""Plots are well-formed SVG and show the given values."""

import xml.etree.ElementTree as ElementTree

import pytest

from bench.plot import Line, Panel, document, in_proportion, label

SVG = "{http://www.w3.org/2000/svg}"
POINTS = [(200.0, 1.5), (2000.0, 12.0), (20_000.0, 130.0)]


def read(drawing: str) -> ElementTree.Element:
    return ElementTree.fromstring(drawing)  # noqa: S314  our own


def circles(drawing: str) -> list[tuple[float, float]]:
    elements = read(drawing).iter(f"{SVG}circle")
    return [(float(c.attrib["cx"]), float(c.attrib["cy"])) for c in elements]


def test_powers_of_ten_have_equal_distances():
    drawing = document([Panel("CPU", "chunks", [Line("", [(1, 1), (10, 10), (100, 100)])])])
    (x1, y1), (x2, y2), (x3, y3) = circles(drawing)
    assert x2 - x1 == pytest.approx(x3 - x2, abs=0.2)
    assert y1 - y2 == pytest.approx(y2 - y3, abs=0.2)
    assert y1 > y3  # upwards


def test_a_linear_axis_starts_at_zero():
    drawing = document([Panel("rate", "workers", [Line("", [(1, 500), (2, 1000)])], log=False)])
    (x1, y1), (x2, y2) = circles(drawing)
    assert "<text" in drawing
    assert (x2 - 64) == pytest.approx(2 * (x1 - 64), abs=0.2)
    assert y1 > y2


def test_the_guide_goes_through_the_last_point_and_has_no_dots():
    guide = in_proportion(POINTS)
    assert guide.points[-1] == POINTS[-1]
    assert guide.points[0] == (200.0, pytest.approx(1.3))
    drawing = document([Panel("CPU", "chunks", [guide, Line("", POINTS)])])
    assert len(circles(drawing)) == len(POINTS)
    assert "guide" in drawing


def test_panels_are_side_by_side_and_names_are_escaped():
    panels = [Panel(f"<{n}>", "x", [Line("a & b", POINTS), Line("c", POINTS)]) for n in range(3)]
    root = read(document(panels))
    groups = [group.attrib["transform"] for group in root.iter(f"{SVG}g")]
    assert groups == ["translate(0 0)", "translate(460 0)", "translate(0 300)"]
    assert "a & b" in [text.text for text in root.iter(f"{SVG}text")]


def test_plots_have_colours_for_light_and_dark():
    assert "prefers-color-scheme: dark" in document([Panel("CPU", "x", [Line("", POINTS)])])


def test_a_single_point_can_be_drawn():
    assert len(circles(document([Panel("CPU", "x", [Line("", [(1.0, 5.0)])])]))) == 1


@pytest.mark.parametrize(
    ("value", "expected"), [(0.1, "0.1"), (200_000, "200k"), (10_000_000, "10M"), (1, "1")]
)
def test_labels_are_short(value, expected):
    assert label(value) == expected
