"""The Anthropic Messages dialect, in both directions.

Requests
    request_parser, content_parser, tool_parser   the client's request, its blocks and its tools
    request_renderer   the upstream's request
    cache_marks        `cache_control` within Anthropic's limit
    block_filter       removes blocks from a request that passes through: blank text, and reasoning
                       that Anthropic did not sign

Answers
    decoder            events of the wire → events
    call_assembly      tool calls in fragments
    encoder            events → events of the wire; the only code that frames blocks

`request_wire` and `response_wire` are the JSON types. Modules here import the top level of
`formats`, never another dialect.
"""
