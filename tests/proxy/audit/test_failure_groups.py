"""Failures of one kind are counted in one group."""

import pytest

from proxy import models
from proxy.audit.bulk_insert import insert_batch
from proxy.audit.failure_groups import model_family
from tests.support.journal_entries import failed_entry


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("moonshotai/kimi-k2.5", "moonshotai/kimi"),
        ("qwen/qwen3-coder", "qwen/qwen"),
        ("deepseek-chat", "deepseek"),
        ("gpt-5", "gpt"),
        ("3-of-them", "3-of-them"),
    ],
)
def test_a_model_family_is_the_name_without_its_version(model, name):
    assert model_family(model) == name


@pytest.mark.django_db
def test_hundreds_of_failures_of_one_kind_need_few_queries(django_assert_max_num_queries):
    with django_assert_max_num_queries(40):
        insert_batch([failed_entry(n) for n in range(500)])
    assert models.FailureGroup.objects.get().count == 500
