"""The OpenAI Chat Completions dialect, in both directions.

Requests: `request_parser` and `request_renderer`, with one module for each part of a request
(messages, content, tools, fields) and `passthrough_request` for upstreams of this dialect. Shapes
of the Responses API and of Anthropic that clients mix into requests are parsed here as well.

Answers: `decoder` and `encoder`, with `call_assembly` for tool calls in fragments and `chunk_runs`
as the fast path. Modules here import the top level of `formats`, never another dialect.
"""
