"""Run folders: recipe.json, checkpoints and metrics."""
