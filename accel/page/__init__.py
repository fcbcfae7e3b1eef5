"""Self-contained HTML pages: charts and tables that open from disk, in light and dark, without any network."""

from accel.page.charts import Point, Series, bars, lines, scatter
from accel.page.document import Section, page, table
from accel.page.timeline import Lane, Slice, Track, timeline, transfers

__all__ = [
    "Lane",
    "Point",
    "Section",
    "Series",
    "Slice",
    "Track",
    "bars",
    "lines",
    "page",
    "scatter",
    "table",
    "timeline",
    "transfers",
]
