"""The objective J(π) and the gain G(w) with its derivatives."""
