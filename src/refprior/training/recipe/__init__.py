"""A recipe: everything that determines a run."""
