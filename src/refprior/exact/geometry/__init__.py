"""Fisher lengths and the grids that follow them."""
