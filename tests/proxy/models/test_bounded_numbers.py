"""Numbers stay within their bounds, in forms and in the database."""

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.models import FormatSettings, GatewaySettings, ModelRoute, Upstream
from tests.support.stored_exchanges import configure

BOUNDED = [
    (model, constraint.name, *constraint.condition.children)  # type: ignore[attr-defined]
    for model in (Upstream, GatewaySettings, FormatSettings, ModelRoute)
    for constraint in model._meta.constraints
    if constraint.name.endswith("_in_bounds")
]


@pytest.mark.django_db
@pytest.mark.parametrize(("model", "name", "minimum", "maximum"), BOUNDED)
def test_forms_and_database_have_the_same_bounds(model, name, minimum, maximum):
    """O2: forms and database constraints have the same bounds."""
    configure()
    field = minimum[0].removesuffix("__gte")
    row = model.objects.first()
    for outside in (minimum[1] - 1, maximum[1] + 1):
        setattr(row, field, outside)
        with pytest.raises(ValidationError) as refused:
            row.full_clean()
        assert list(refused.value.message_dict) == [field]  # one error, at the field
        with pytest.raises(IntegrityError), transaction.atomic():
            model.objects.update(**{field: outside})
    for inside in (minimum[1], maximum[1]):
        setattr(row, field, inside)
        row.full_clean()
        model.objects.update(**{field: inside})


@given(st.floats() | st.integers(), st.sampled_from(BOUNDED))
@settings(deadline=None)
def test_a_number_is_valid_only_within_its_bounds(number, bound):
    model, _, minimum, maximum = bound
    field = model._meta.get_field(minimum[0].removesuffix("__gte"))
    try:
        value = field.clean(number, model())
    except (ValidationError, OverflowError):
        assert not minimum[1] <= number <= maximum[1]
    else:
        assert minimum[1] <= value <= maximum[1]


@pytest.mark.parametrize(("model", "_", "minimum", "maximum"), BOUNDED)
def test_nan_is_invalid(model, _, minimum, maximum):
    with pytest.raises(ValidationError):
        model._meta.get_field(minimum[0].removesuffix("__gte")).clean(float("nan"), model())
