"""Native formats: tool calls that a model writes into its text instead of the API's fields.

    kimi, qwen, …          one module per model family: its markers, as tables
    format                 a family's grammars and markers together
    text_scanner           finds where calls begin in text and reasoning; decides which text is the
                           answer and which is reasoning, and what is only quoted (a backtick before
                           the marker), a draft inside <think>, or noise
    rescue                 turns the calls found into events; drops copies of structured calls
    grammar                the parts that all grammars share: verdicts, readers, output
    token_grammar          calls between special tokens
    tag_grammar            calls in tags; unwraps a lone `arguments` parameter
    parameter_values       values in tags → JSON of the types in the tool's schema
    attribute_tags         tags that name tools and parameters in attributes
    nested_elements        values as nested elements
    pair_grammar           calls as a name, and pairs of key and value
    message_grammar        calls and reasoning as messages with headers
    object_grammar         calls as objects with bare keys and delimited strings
    played_output          tool outputs that the model invents
    json_envelope          calls as {"name": …, "arguments": …}
    named_object           calls as a header with the name, and a JSON object
    bare_objects           the same without markers, at the start of the text
    python_calls           calls as Python, [name(key="value")]; python_arguments → JSON
    streamed_arguments     JSON arguments that are forwarded while they arrive
    markers                searches for markers that may be split across chunks
    markup_watch           reports native markup that reached the client as text

May import from the top level of formats, never from a dialect.
"""
