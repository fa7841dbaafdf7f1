"""Fuzzing of formats and of the API: `make fuzz`. CONTRIBUTING.md explains how to use it.

targets                what is fuzzed, and the laws that must hold
corpus                 seeds: the fixtures, and inputs that failed before
with_hypothesis        mutated seeds; failures are shrunk
with_atheris           guided by code coverage
with_schemathesis      the API of a real gateway
repeated_properties    the property tests of the suite, with new examples
failing_inputs         saves inputs that failed
"""
