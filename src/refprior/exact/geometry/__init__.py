"""Fisher lengths and the grids that follow them."""

from refprior.exact.geometry._axes import Axes, ChartedAxes, ListedAxes, MeasuredAxes, ScaledAxes, SlicedAxes
from refprior.exact.geometry._charts import Chart, Scan, measure, scan_box

__all__ = [
    "Axes",
    "Chart",
    "ChartedAxes",
    "ListedAxes",
    "MeasuredAxes",
    "ScaledAxes",
    "Scan",
    "SlicedAxes",
    "measure",
    "scan_box",
]
