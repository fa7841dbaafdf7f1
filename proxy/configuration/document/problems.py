"""What is wrong with a document, and where. An import is refused for all of it at once."""

from dataclasses import dataclass

_MOST = 100  # that are told; whoever has more begins with these


@dataclass(frozen=True, slots=True, order=True)
class Place:
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Problem:
    place: Place
    path: str
    """Of the field or row, as `routes[2].pattern`; empty for the document as a whole."""
    message: str

    def __str__(self) -> str:
        where = f"line {self.place.line}, column {self.place.column}"
        return ": ".join(part for part in (where, self.path, self.message) if part)


class Refused(Exception):
    """The document cannot be imported, and nothing of it was."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__(f"{len(problems)} problem{'s' if len(problems) > 1 else ''}")
        self.problems = sorted(problems, key=lambda problem: problem.place)[:_MOST]
        self.left_out = len(problems) - len(self.problems)
