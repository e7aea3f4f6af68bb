"""Fisher lengths and the grids that follow them."""

from refprior.exact.geometry._charts import Chart, Scan, measure, scan_box

__all__ = ["Chart", "Scan", "measure", "scan_box"]
