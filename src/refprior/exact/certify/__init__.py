"""How far a prior can be from the optimum, judged without knowing how it was found."""
