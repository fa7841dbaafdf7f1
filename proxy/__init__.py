"""The gateway as a Django app, in packages. pyproject.toml lists their layers, top to bottom."""
