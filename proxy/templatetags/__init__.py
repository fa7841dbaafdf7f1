"""Template tags and filters of the pages. May import the models and `security`."""
