"""Model families: kimi, qwen, …, one module for each, and nothing else.

A family is a table of markers, with pure functions that read headers or tags; its docstring shows
what the model writes. A family may use a grammar that another family has defined.

May import from `native`; nothing in `native` imports a family.
"""
