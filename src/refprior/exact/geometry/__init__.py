"""Fisher lengths and the grids that follow them."""

from refprior.exact.geometry._axes import Axes, ChartedAxes, ListedAxes, MeasuredAxes, ScaledAxes, SlicedAxes
from refprior.exact.geometry._charts import BoxScan, Chart, measure, scan_box

__all__ = [
    "Axes",
    "BoxScan",
    "Chart",
    "ChartedAxes",
    "ListedAxes",
    "MeasuredAxes",
    "ScaledAxes",
    "SlicedAxes",
    "measure",
    "scan_box",
]
