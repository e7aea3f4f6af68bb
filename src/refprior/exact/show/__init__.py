"""Text, plots and exports of solutions."""
