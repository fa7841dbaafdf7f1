"""Model families: kimi, qwen, …, one module for each, and nothing else.

A family is a definition, as an operator may write one; its docstring shows what the model writes.
`shared` has grammars that several families write.

May import from `native`; nothing in `native` imports a family.
"""
