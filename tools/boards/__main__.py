"""Write the dashboards: ``python -m tools.boards``."""

from tools.boards.board import FOLDER, text_of
from tools.boards.overview import overview
from tools.boards.prefix_health import prefix_health
from tools.boards.ranks_and_policy import ranks_and_policy

BOARDS = {"overview": overview, "prefix-health": prefix_health, "ranks-and-policy": ranks_and_policy}
"""The dashboards by the names of their files."""

if __name__ == "__main__":
    for name, make in BOARDS.items():
        path = FOLDER / f"{name}.json"
        path.write_text(text_of(make()), encoding="utf-8")
        print(path)
