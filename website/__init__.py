"""The programs of the site: pages from docstrings, the parser and scripts, and a look at all of it in a browser."""
