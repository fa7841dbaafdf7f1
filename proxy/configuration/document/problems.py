"""Problems of a document and their positions. An import reports all of them at once."""

from dataclasses import dataclass

_MAX_PROBLEMS = 100
"""The maximum number of problems in one report."""


@dataclass(frozen=True, slots=True, order=True)
class Position:
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Problem:
    position: Position
    path: str
    """The field or row, like `routes[2].pattern`; empty for the document as a whole."""
    message: str

    def __str__(self) -> str:
        where = f"line {self.position.line}, column {self.position.column}"
        return ": ".join(part for part in (where, self.path, self.message) if part)


class InvalidDocument(Exception):
    """The document cannot be imported. Nothing of it was saved."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__(f"{len(problems)} problem{'s' if len(problems) > 1 else ''}")
        self.problems = sorted(problems, key=lambda problem: problem.position)[:_MAX_PROBLEMS]
        self.left_out = len(problems) - len(self.problems)
        """The number of problems that were found but are not listed."""
