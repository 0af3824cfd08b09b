"""What a sim keeps in its application."""

from collections import deque

from aiohttp import web

from gateway.sim.control import Control, Pace
from gateway.sim.engine import Engine
from gateway.sim.faults import Faults
from gateway.sim.journal import Journal
from gateway.sim.personality import Json
from gateway.sim.ranks import Ranks

ENGINE = web.AppKey("ENGINE", Engine)
JOURNAL = web.AppKey("JOURNAL", Journal)
FAULTS = web.AppKey("FAULTS", Faults)
RENDER_FAULTS = web.AppKey("RENDER_FAULTS", Faults)
RENDERS: web.AppKey[deque[Json]] = web.AppKey("RENDERS", deque)
RANKS = web.AppKey("RANKS", Ranks)
CONTROL = web.AppKey("CONTROL", Control)
PACE = web.AppKey("PACE", Pace)
