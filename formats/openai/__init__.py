"""The OpenAI Chat Completions dialect, in both directions.

Requests
    request_parser, message_parser, content_parser, tool_parser   the client's request, part by part
    responses_input, field_aliases, custom_tools   shapes of other APIs that clients mix in
    request_renderer       the upstream's request; a thinking budget becomes an effort
    message_renderer       its messages; Kimi and Mistral get call ids in their own form
    passthrough_request    the client's own bytes, for an upstream of this dialect

Answers
    decoder                chunks → events
    call_assembly          tool calls whose fragments arrive in any order
    cumulative_arguments   upstreams that repeat the arguments so far in every chunk
    chunk_runs             the fast path for chunks that differ in one string
    encoder                events → chunks, `[DONE]`, whole answers
    usage_filter           removes usage that only the gateway asked for
    upstream_errors        error bodies

`request_wire` and `response_wire` are the JSON types. Modules here import the top level of
`formats`, never another dialect.
"""
