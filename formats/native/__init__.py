"""Native formats: tool calls that a model writes into its text instead of the API's fields.

    families               one module per model family: its definition
    definition             reads a definition: a format as data, built in or of an operator
    definition_check       everything that is wrong with a definition, in plain English
    kinds                  the kinds of grammar that a definition can choose, with roles and options
    template               the language in which a definition writes markers
    header_rules           named rules that read a tool's name from a header
    grammars               ways to write calls, each shared by the families that use it
    format                 a family's grammars and markers together
    text_scanner           finds where calls begin in text and reasoning; decides which text is the
                           answer and which is reasoning, and what is only quoted (a backtick before
                           the marker), a draft inside <think>, or noise
    auto                   the format that reads every family at once
    declared_calls         its scanner: makes only whole calls of declared tools
    markdown               tells what is code or quoted
    rescue                 turns the calls found into events; drops copies of structured calls
    grammar                the parts that all grammars share: verdicts, readers, output
    markers                searches for markers that may be split across chunks
    markup_watch           reports native markup that reached the client as text
    unknown_markup         recognises calls in a markup that no family is known to write

May import from the top level of formats, never from a dialect.
"""
