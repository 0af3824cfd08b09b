"""The kinds of panels that the dashboards are made of, and the expressions in them."""

from grafana_foundation_sdk.builders import common, stat, timeseries
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.common import (
    BigValueGraphMode,
    GraphDrawStyle,
    LegendDisplayMode,
    LegendPlacement,
    SortOrder,
    StackingMode,
    TooltipDisplayMode,
)
from grafana_foundation_sdk.models.dashboard import DataSourceRef, Panel

SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
_SELECTED = 'job=~"$job",instance=~"$instance"'
_QUANTILES = (0.5, 0.9, 0.99)

Query = tuple[str, str]
"""An expression, and the legend of its series."""


def of(name: str, matchers: str = "") -> str:
    """The series of a metric at the gateways that are chosen."""
    return f"{name}{{{_SELECTED}{',' if matchers else ''}{matchers}}}"


def rate(name: str, by: str = "", matchers: str = "") -> str:
    """What a counter grows by per second, summed up, apart for each value of the labels in `by`."""
    return f"{_sum(by)} (rate({of(name, matchers)}[$__rate_interval]))"


def total(name: str, by: str = "", matchers: str = "") -> str:
    """A gauge, summed up, apart for each value of the labels in `by`."""
    return f"{_sum(by)} ({of(name, matchers)})"


def quantiles(name: str, matchers: str = "") -> list[Query]:
    """The median of a histogram, and what one in ten and one in a hundred exceed."""
    buckets = rate(f"{name}_bucket", "le", matchers)
    return [(f"histogram_quantile({share}, {buckets})", f"p{share * 100:g}") for share in _QUANTILES]


def quantile(share: float, name: str, by: str) -> Query:
    """One quantile of a histogram, apart for each value of the label `by`."""
    return f"histogram_quantile({share}, {rate(f'{name}_bucket', f'le, {by}')})", f"{{{{{by}}}}}"


def _sum(by: str) -> str:
    return f"sum by ({by})" if by else "sum"


def lines(
    title: str, text: str, unit: str, *queries: Query, span: int = 8, stacked: bool = False, most: float | None = None
) -> Builder[Panel]:
    """Series over time; `unit` is one of Grafana's, `text` is said where the panel's sign of information is touched."""
    panel = timeseries.Panel().title(title).description(text).datasource(SOURCE).unit(unit).span(span).height(8).min(0)
    legend = common.VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
    hover = common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING)
    panel = panel.legend(legend.show_legend(show_legend=True)).tooltip(hover).draw_style(GraphDrawStyle.LINE)
    panel = panel.fill_opacity(25 if stacked else 0).line_width(1)
    if stacked:
        panel = panel.stacking(common.StackingConfig().mode(StackingMode.NORMAL).group("A"))
    if most is not None:
        panel = panel.max(most)
    for number, (expression, legend_format) in enumerate(queries):
        panel = panel.with_target(_target(number, expression, legend_format).range())
    return panel


def number(title: str, text: str, unit: str, *queries: Query, span: int = 4) -> Builder[Panel]:
    """What is so now, in large figures."""
    panel = stat.Panel().title(title).description(text).datasource(SOURCE).unit(unit).span(span).height(4)
    panel = panel.graph_mode(BigValueGraphMode.NONE).reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    for index, (expression, legend) in enumerate(queries):
        panel = panel.with_target(_target(index, expression, legend).instant())
    return panel


def _target(number: int, expression: str, legend: str) -> Dataquery:
    return Dataquery().expr(expression).legend_format(legend).ref_id(chr(ord("A") + number)).datasource(SOURCE)
