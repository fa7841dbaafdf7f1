"""Hard bounds that the database keeps as well: a row that came past every form is refused, too."""

from django.db.models import CheckConstraint, Q


def in_bounds(table: str, field: str, least: float, most: float) -> CheckConstraint:
    """A number that is from `least` to `most`, or null. The form's validator says it first."""
    return CheckConstraint(
        condition=Q(**{f"{field}__gte": least, f"{field}__lte": most}),
        name=f"{table}_{field}_in_bounds",
    )
