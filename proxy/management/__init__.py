"""Commands of `manage.py`. May import everything except `admin`, `api` and `pages`."""
