"""The configuration: reading it (`live`, `snapshot`, `routing`), changing it (`editing`, `history`,
`document`), and explaining it (`explain`, `preview`, `diagnostics`).

May import the models and the packages below them.
"""
