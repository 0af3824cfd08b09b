"""What the dashboards have in common: how they are found, linked and filtered; how one is written to a file."""

import json
from pathlib import Path

from grafana_foundation_sdk.builders.dashboard import Dashboard, DashboardLink, DatasourceVariable, QueryVariable, Row
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    Panel,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

from tools.boards.panel import SOURCE

FOLDER = Path(__file__).parent.parent.parent / "deploy" / "grafana" / "dashboards"
_TAG = "rollout-gateway"
_ALL = VariableOption(selected=True, text=["All"], value=["$__all"])


def board(uid: str, title: str, text: str) -> Dashboard:
    """An empty dashboard that has the variables `datasource`, `job` and `instance`, and links to the others."""
    others = DashboardLink("Dashboards").type(DashboardLinkType.DASHBOARDS).tags([_TAG]).as_dropdown(as_dropdown=True)
    return (
        Dashboard(f"rollout-gateway: {title}")
        .uid(f"{_TAG}-{uid}")
        .description(text)
        .tags([_TAG])
        .readonly()
        .refresh("30s")
        .time("now-1h", "now")
        .timezone("browser")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .link(others.include_vars(include_vars=True).keep_time(keep_time=True))
        .with_variable(DatasourceVariable("datasource").label("Data source").type("prometheus"))
        .with_variable(_choice("job", "Job", "label_values(gateway_build_info, job)"))
        .with_variable(_choice("instance", "Gateway", 'label_values(gateway_build_info{job=~"$job"}, instance)'))
    )


def _choice(name: str, label: str, query: str) -> QueryVariable:
    """Any of the values that a label has of gateways; at first all of these, other jobs' left out."""
    variable = QueryVariable(name).label(label).datasource(SOURCE).query(query).current(_ALL)
    variable = variable.multi(multi=True).include_all(include_all=True)
    return variable.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).sort(VariableSort.ALPHABETICAL_ASC)


def text_of(dashboard: Dashboard) -> str:
    """The dashboard as its file has it."""
    made = dashboard.build()
    for number, panel in enumerate(made.panels or (), start=1):
        panel.id_val = number  # links to a panel name it so
    return json.dumps(made, cls=JSONEncoder, indent=2, ensure_ascii=False) + "\n"


def with_row(dashboard: Dashboard, title: str, *panels: Builder[Panel]) -> Dashboard:
    """The dashboard with these panels, side by side as far as they fit, below a title."""
    dashboard.with_row(Row(title))
    for panel in panels:
        dashboard.with_panel(panel)
    return dashboard
