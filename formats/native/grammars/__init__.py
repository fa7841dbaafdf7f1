"""Grammars: the ways in which families write calls. Each reads a text step by step.

    token_grammar          calls between special tokens
    tag_grammar            calls in tags; unwraps a lone `arguments` parameter
    parameter_values       values in tags → JSON of the types in the tool's schema
    nested_elements        values as nested elements
    pair_grammar           calls as a name, and pairs of key and value
    message_grammar        calls and reasoning as messages with headers
    object_grammar         calls as objects with bare keys and delimited strings
    json_envelope          calls as {"name": …, "arguments": …}
    bare_objects           the same without markers, at the start of the text
    named_object           calls as a header with the name, and a JSON object
    python_calls           calls as Python, [name(key="value")]; python_arguments → JSON
    played_output          tool outputs that the model invents
    streamed_arguments     JSON arguments that are forwarded while they arrive

May import `native.grammar` and `native.markers`; knows no family.
"""
