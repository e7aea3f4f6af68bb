"""The programs of the site: a Sphinx extension, the check of docstrings, and every page in a browser."""
