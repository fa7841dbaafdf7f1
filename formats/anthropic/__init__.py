"""The Anthropic Messages dialect, in both directions.

Requests: `request_parser` and `request_renderer`, with `content_parser` for blocks, `tool_parser`
for tools and `block_filter` for requests that are passed through. Answers: `decoder`, with
`call_assembly` for tool calls in fragments, and `encoder`, the only code that frames blocks.
Modules here import the top level of `formats`, never another dialect.
"""
