"""The search for atoms and weights."""
